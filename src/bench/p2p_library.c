/* p2p_library.c - messages by libraries: our tr_send() and tr_recv(), each protocol, and MPI. */
#include "bench/backend.h"
#include "bench/p2p_method.h"
#include "collectives/error.h"

#include <limits.h>
#include <stdio.h>

enum { TAG = 7 };

static enum tr_status backend_failed(const struct p2p *p2p)
{
    return tr_error(TR_ERR_CUDA, "%s", p2p->bench.backend->error());
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

/* On a GPU our calls return before they are done: the clock stands in their stream. */
static bool is_in_stream(const struct p2p *p2p, const struct p2p_run *run)
{
    return p2p->bench.backend->memory == TR_MEMORY_CUDA && run->method->protocol != TR_PROTOCOL_AUTO;
}

static enum tr_status start(struct p2p *p2p, const struct p2p_run *run, double *began)
{
    *began = MPI_Wtime();
    return !is_in_stream(p2p, run) || p2p->bench.backend->clock_start() ? TR_OK : backend_failed(p2p);
}

static enum tr_status stop(struct p2p *p2p, const struct p2p_run *run, enum tr_status status, double began,
                           double *seconds)
{
    *seconds = MPI_Wtime() - began;
    if (is_in_stream(p2p, run) && !p2p->bench.backend->clock_stop(seconds))
        return backend_failed(p2p);
    return status ? status : tr_comm_async_error(p2p->bench.comm);
}

enum tr_status p2p_library_there_and_back(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    const struct p2p_method *method = run->method;
    double began;
    enum tr_status status = start(p2p, run, &began);
    for (int i = 0; i < run->iterations && status == TR_OK; i++) {
        status = run->forward ? method->send(p2p, run, i) : method->receive(p2p, run, i);
        if (status == TR_OK)
            status = run->forward ? method->receive(p2p, run, i) : method->send(p2p, run, i);
    }
    return stop(p2p, run, status, began, seconds);
}

enum tr_status p2p_library_one_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    const struct p2p_method *method = run->method;
    double began;
    enum tr_status status = start(p2p, run, &began);
    for (int i = 0; i < run->iterations && status == TR_OK; i++)
        status = run->forward ? method->send(p2p, run, i) : method->receive(p2p, run, i);
    return stop(p2p, run, status, began, seconds);
}

/* ---- Ours -------------------------------------------------------------------------------------------------------- */

static enum tr_status choose(struct p2p *p2p, const struct p2p_method *method)
{
    return tr_comm_set_tuning(p2p->bench.comm, &(struct tr_tuning){.protocol = method->protocol});
}

enum tr_status p2p_treering_send(struct p2p *p2p, const struct p2p_run *run, int i)
{
    enum tr_status status = i == 0 ? choose(p2p, run->method) : TR_OK;
    if (status == TR_OK)
        status = tr_send(p2p->source, run->bytes, TR_U8, run->peer, p2p->bench.comm, p2p->bench.backend->stream());
    return status;
}

enum tr_status p2p_treering_receive(struct p2p *p2p, const struct p2p_run *run, int i)
{
    enum tr_status status = i == 0 ? choose(p2p, run->method) : TR_OK;
    if (status == TR_OK)
        status = tr_recv(p2p->sink, run->bytes, TR_U8, run->peer, p2p->bench.comm, p2p->bench.backend->stream());
    return status;
}

bool p2p_treering_carries(struct p2p *p2p, const struct p2p_method *method, size_t bytes)
{
    struct tr_tuning resolved;
    return choose(p2p, method) == TR_OK &&
           tr_comm_resolve(p2p->bench.comm, TR_SENDRECV, bytes, TR_U8, TR_SUM, 0, &resolved) == TR_OK &&
           resolved.protocol == method->protocol;
}

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

static enum tr_status mpi_result(const char *call, int code)
{
    return code == MPI_SUCCESS ? TR_OK : tr_error(TR_ERR_MPI, "%s failed with code %d", call, code);
}

enum tr_status p2p_mpi_send(struct p2p *p2p, const struct p2p_run *run, int i)
{
    (void)i;
    return mpi_result("MPI_Send", MPI_Send(p2p->source, (int)run->bytes, MPI_BYTE, run->peer, TAG, p2p->mpi));
}

enum tr_status p2p_mpi_receive(struct p2p *p2p, const struct p2p_run *run, int i)
{
    (void)i;
    return mpi_result("MPI_Recv",
                      MPI_Recv(p2p->sink, (int)run->bytes, MPI_BYTE, run->peer, TAG, p2p->mpi, MPI_STATUS_IGNORE));
}

enum tr_status p2p_mpi_two_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    double began = MPI_Wtime();
    int code = MPI_SUCCESS;
    for (int i = 0; i < run->iterations && code == MPI_SUCCESS; i++)
        code = MPI_Sendrecv(p2p->source, (int)run->bytes, MPI_BYTE, run->peer, TAG, p2p->sink, (int)run->bytes,
                            MPI_BYTE, run->peer, TAG, p2p->mpi, MPI_STATUS_IGNORE);
    *seconds = MPI_Wtime() - began;
    return mpi_result("MPI_Sendrecv", code);
}

/* Open MPI says through MPI's tool interface whether it was built for GPU memory; who does not say is taken not to be. */
static bool is_built_with_cuda(void)
{
    int provided, index, count, built = 0;
    MPI_T_cvar_handle handle;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS)
        return false;
    if (MPI_T_cvar_get_index("mpi_built_with_cuda_support", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        union {
            int whole;
            unsigned char bytes[64];
        } value = {0};
        if (count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS)
            built = value.bytes[0];
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
    return built;
}

bool p2p_mpi_available(struct p2p *p2p, const struct p2p_method *method, char *why, size_t size)
{
    (void)method;
    if (p2p->bench.backend->memory == TR_MEMORY_HOST)
        return true;
    int mine = is_built_with_cuda(), all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all)
        snprintf(why, size, "this MPI does not say that it takes GPU memory (Open MPI: mpi_built_with_cuda_support)");
    return all;
}

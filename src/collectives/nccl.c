/*
 * nccl.c - NCCL (2.27 or newer) beside our own algorithms, on the same communicator and behind the same calls.
 *
 * The NCCL communicator is non-blocking: its set-up, and whatever it does late, is polled against the communicator's
 * timeout. It is brought up over MPI: every rank gathers rank 0's ncclUniqueId. NCCL cannot serve ranks that share a GPU;
 * that and a failed set-up are no error, the communicator then simply has no NCCL. Its environment (NCCL_*) is the user's.
 */
#include "collectives/comm.h"
#include "collectives/error.h"

#include <cuda_runtime_api.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" /* nccl.h declares f() where it means f(void) */
#include <nccl.h>
#pragma GCC diagnostic pop
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Memory from tr_nccl_mem_alloc(), on every rank at the same place of the list. */
struct nccl_window {
    void *base;
    size_t bytes;
    ncclWindow_t handle;
    struct nccl_window *next;
};

struct tr_nccl {
    ncclComm_t comm;
    int device;
    double timeout_s;
    bool broken; /* at the end: peers may be gone */
    struct nccl_window *windows;
};

static enum tr_status nccl_error(ncclComm_t comm, ncclResult_t code, const char *what)
{
    return tr_error(TR_ERR_NCCL, "%s failed: %s (%s); NCCL_DEBUG=WARN shows more", what, ncclGetErrorString(code),
                    comm ? ncclGetLastError(comm) : "no communicator");
}

/* Wait until a non-blocking operation that returned `code` is complete. */
static enum tr_status settle(ncclComm_t comm, ncclResult_t code, double timeout_s, const char *what)
{
    double deadline = tr_seconds() + timeout_s;
    while (code == ncclInProgress) {
        ncclResult_t asked = ncclCommGetAsyncError(comm, &code);
        if (asked != ncclSuccess)
            code = asked;
        if (code == ncclInProgress && tr_seconds() > deadline)
            return tr_error(TR_ERR_TIMEOUT, "%s: NCCL was not done within %g s; NCCL_DEBUG=INFO shows where it waits",
                            what, timeout_s);
        sched_yield();
    }
    return code == ncclSuccess ? TR_OK : nccl_error(comm, code, what);
}

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

static void end_well(struct tr_nccl *nccl)
{
    for (const struct nccl_window *w = nccl->windows; w; w = w->next)
        settle(nccl->comm, ncclCommWindowDeregister(nccl->comm, w->handle), nccl->timeout_s,
               "ncclCommWindowDeregister");
    if (settle(nccl->comm, ncclCommFinalize(nccl->comm), nccl->timeout_s, "ncclCommFinalize") == TR_OK)
        ncclCommDestroy(nccl->comm);
    else
        ncclCommAbort(nccl->comm);
}

static void *end_thread(void *argument)
{
    struct tr_nccl *nccl = argument;
    cudaSetDevice(nccl->device);
    if (nccl->broken)
        ncclCommAbort(nccl->comm);
    else if (nccl->comm)
        end_well(nccl);
    while (nccl->windows) {
        struct nccl_window *w = nccl->windows;
        nccl->windows = w->next;
        ncclMemFree(w->base);
        free(w);
    }
    free(nccl);
    return NULL;
}

/* ncclCommAbort() and ncclCommDestroy() can hang when a peer is gone, so a thread does it and is left behind then. */
static void end(struct tr_nccl *nccl)
{
    pthread_t thread;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)nccl->timeout_s + 1;
    if (pthread_create(&thread, NULL, end_thread, nccl))
        end_thread(nccl);
    else if (pthread_timedjoin_np(thread, NULL, &deadline))
        pthread_detach(thread);
}

void tr_nccl_destroy(struct tr_comm *comm)
{
    if (!comm->nccl)
        return;
    comm->nccl->broken = __atomic_load_n(&comm->broken, __ATOMIC_RELAXED) != TR_OK;
    end(comm->nccl);
    comm->nccl = NULL;
    comm->info.has_nccl = 0;
}

/* ---- Set-up ------------------------------------------------------------------------------------------------------ */

/* What every rank tells the others before the set-up. */
struct offer {
    char uuid[48];
    ncclUniqueId id; /* rank 0's counts */
    int id_code;
};

static enum tr_status gather_offers(struct tr_comm *comm, struct offer **offers)
{
    struct offer mine = {.id_code = ncclSuccess};
    snprintf(mine.uuid, sizeof mine.uuid, "%s", comm->info.device_uuid);
    if (comm->rank == 0)
        mine.id_code = ncclGetUniqueId(&mine.id);
    struct offer *all = malloc((size_t)comm->size * sizeof *all);
    enum tr_status status = tr_comm_agree(comm, all ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory to set NCCL up"));
    if (status == TR_OK)
        status = tr_comm_gather(comm, &mine, all, sizeof mine);
    if (status != TR_OK)
        free(all);
    else
        *offers = all;
    return status;
}

/* Whether NCCL could serve; says why not. All ranks see the same offers and decide alike. */
static bool can_serve(struct tr_comm *comm, const struct offer *offers)
{
    char *why = comm->info.why_no_nccl;
    size_t bytes = sizeof comm->info.why_no_nccl;
    for (int b = 1; b < comm->size; b++)
        for (int a = 0; a < b; a++)
            if (!strcmp(offers[a].uuid, offers[b].uuid)) {
                snprintf(why, bytes, "ranks %d and %d share GPU %s; NCCL wants a GPU for every rank", a, b,
                         offers[a].uuid);
                return false;
            }
    if (offers[0].id_code != ncclSuccess)
        snprintf(why, bytes, "ncclGetUniqueId failed on rank 0: %s",
                 ncclGetErrorString((ncclResult_t)offers[0].id_code));
    return offers[0].id_code == ncclSuccess;
}

static enum tr_status init(const struct tr_comm *comm, const ncclUniqueId *id, struct tr_nccl *nccl)
{
    cudaError_t code = cudaSetDevice(nccl->device);
    if (code != cudaSuccess)
        return tr_error(TR_ERR_CUDA, "cudaSetDevice(%d) failed: %s", nccl->device, cudaGetErrorString(code));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t result = ncclCommInitRankConfig(&nccl->comm, comm->size, *id, comm->rank, &config);
    return settle(nccl->comm, result, comm->timeout_s, "ncclCommInitRankConfig");
}

static size_t free_memory(void)
{
    size_t free_bytes = 0, total = 0;
    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess ? free_bytes : 0;
}

/* Whether the set-up succeeded on all ranks; else why_no_nccl is the first failing rank's sentence. */
static enum tr_status agree_on_init(struct tr_comm *comm, enum tr_status status, bool *up)
{
    enum tr_status agreed = tr_comm_agree(comm, status);
    if (__atomic_load_n(&comm->broken, __ATOMIC_RELAXED) != TR_OK)
        return agreed;
    *up = agreed == TR_OK;
    if (!*up)
        snprintf(comm->info.why_no_nccl, sizeof comm->info.why_no_nccl, "%.190s", tr_last_error());
    return TR_OK;
}

static enum tr_status bring_up(struct tr_comm *comm, const ncclUniqueId *id)
{
    struct tr_nccl *nccl = calloc(1, sizeof *nccl);
    enum tr_status status = tr_comm_agree(comm, nccl ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory to set NCCL up"));
    if (status != TR_OK) {
        free(nccl);
        return status;
    }
    nccl->device = comm->info.device;
    nccl->timeout_s = comm->timeout_s;
    size_t before = free_memory();
    bool up = false;
    status = agree_on_init(comm, init(comm, id, nccl), &up);
    if (!up) {
        nccl->broken = nccl->comm != NULL;
        end(nccl);
        return status;
    }
    size_t after = free_memory();
    comm->info.nccl_bytes = before > after ? before - after : 0;
    comm->info.has_nccl = 1;
    ncclGetVersion(&comm->info.nccl_version);
    comm->nccl = nccl;
    return TR_OK;
}

enum tr_status tr_nccl_create(struct tr_comm *comm)
{
    struct offer *offers;
    enum tr_status status = gather_offers(comm, &offers);
    if (status != TR_OK)
        return status;
    if (can_serve(comm, offers))
        status = bring_up(comm, &offers[0].id);
    free(offers);
    return status;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static const ncclDataType_t types[TR_DATATYPE_COUNT] = {
    [TR_F64] = ncclFloat64, [TR_F32] = ncclFloat32, [TR_F16] = ncclFloat16, [TR_BF16] = ncclBfloat16,
    [TR_I64] = ncclInt64,   [TR_I32] = ncclInt32,   [TR_U8] = ncclUint8,
};

static const ncclRedOp_t ops[TR_OP_COUNT] = {
    [TR_SUM] = ncclSum, [TR_PROD] = ncclProd, [TR_MIN] = ncclMin, [TR_MAX] = ncclMax, [TR_AVG] = ncclAvg,
};

struct nccl_call {
    const void *in;
    void *out;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    ncclComm_t comm;
    cudaStream_t stream;
};

static ncclResult_t allreduce(const struct nccl_call *c)
{
    return ncclAllReduce(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
}

static ncclResult_t reduce_scatter(const struct nccl_call *c)
{
    return ncclReduceScatter(c->in, c->out, c->count, c->type, c->op, c->comm, c->stream);
}

static ncclResult_t allgather(const struct nccl_call *c)
{
    return ncclAllGather(c->in, c->out, c->count, c->type, c->comm, c->stream);
}

/* Off the root NCCL does not read the send buffer, but wants a pointer. */
static ncclResult_t broadcast(const struct nccl_call *c)
{
    return ncclBroadcast(c->in ? c->in : c->out, c->out, c->count, c->type, c->root, c->comm, c->stream);
}

static ncclResult_t reduce(const struct nccl_call *c)
{
    return ncclReduce(c->in, c->out, c->count, c->type, c->op, c->root, c->comm, c->stream);
}

static ncclResult_t sendrecv(const struct nccl_call *c)
{
    if (c->in)
        return ncclSend(c->in, c->count, c->type, c->root, c->comm, c->stream);
    return ncclRecv(c->out, c->count, c->type, c->root, c->comm, c->stream);
}

static const struct {
    const char *name;
    ncclResult_t (*run)(const struct nccl_call *c);
} calls[TR_COLLECTIVE_COUNT] = {
    [TR_ALLREDUCE] = {"ncclAllReduce", allreduce}, [TR_REDUCE_SCATTER] = {"ncclReduceScatter", reduce_scatter},
    [TR_ALLGATHER] = {"ncclAllGather", allgather}, [TR_BROADCAST] = {"ncclBroadcast", broadcast},
    [TR_REDUCE] = {"ncclReduce", reduce},          [TR_SENDRECV] = {"ncclSend or ncclRecv", sendrecv},
};

enum tr_status tr_nccl_run(struct tr_comm *comm, enum tr_collective collective, const void *in, void *out, size_t count,
                           enum tr_datatype datatype, enum tr_op op, int root, void *stream)
{
    struct nccl_call c = {in, out, count, types[datatype], ops[op], root, comm->nccl->comm, stream};
    ncclResult_t code = calls[collective].run(&c);
    if (code == ncclSuccess)
        return TR_OK;
    enum tr_status status = settle(c.comm, code, comm->timeout_s, calls[collective].name);
    if (status == TR_ERR_TIMEOUT)
        tr_comm_break(comm, status);
    return status;
}

/* ---- Symmetric windows ------------------------------------------------------------------------------------------- */

bool tr_nccl_is_window(const struct tr_comm *comm, const void *ptr, size_t bytes)
{
    for (const struct nccl_window *w = comm->nccl->windows; w; w = w->next) {
        uintptr_t offset = (uintptr_t)ptr - (uintptr_t)w->base;
        if (offset < w->bytes && bytes <= w->bytes - offset)
            return true;
    }
    return false;
}

static enum tr_status allocate(const struct tr_comm *comm, size_t bytes, struct nccl_window *w)
{
    w->bytes = bytes;
    ncclResult_t code = ncclMemAlloc(&w->base, bytes);
    if (code == ncclSuccess)
        return TR_OK;
    w->base = NULL;
    return tr_error(TR_ERR_MEMORY, "ncclMemAlloc of %zu bytes failed: %s (%s)", bytes, ncclGetErrorString(code),
                    ncclGetLastError(comm->nccl->comm));
}

/* Collective. NCCL reports success but gives no handle where it cannot make a window. */
static enum tr_status make_window(const struct tr_comm *comm, struct nccl_window *w)
{
    ncclComm_t nccl = comm->nccl->comm;
    ncclResult_t code = ncclCommWindowRegister(nccl, w->base, w->bytes, &w->handle, NCCL_WIN_COLL_SYMMETRIC);
    enum tr_status status = settle(nccl, code, comm->timeout_s, "ncclCommWindowRegister");
    if (status == TR_OK && !w->handle)
        return tr_error(TR_ERR_UNSUPPORTED, "NCCL makes no symmetric windows here; NCCL_DEBUG=INFO says why, "
                                            "NCCL_WIN_ENABLE=0 and NCCL_CUMEM_ENABLE=0 forbid them");
    return status;
}

static void free_window(const struct tr_comm *comm, struct nccl_window *w)
{
    if (w->handle)
        settle(comm->nccl->comm, ncclCommWindowDeregister(comm->nccl->comm, w->handle), comm->timeout_s,
               "ncclCommWindowDeregister");
    if (w->base)
        ncclMemFree(w->base);
    free(w);
}

enum tr_status tr_nccl_mem_alloc(struct tr_comm *comm, size_t bytes, void **ptr)
{
    struct nccl_window *w = calloc(1, sizeof *w);
    enum tr_status status = w ? allocate(comm, bytes, w) : tr_error(TR_ERR_MEMORY, "no memory for a table entry");
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = tr_comm_agree(comm, make_window(comm, w));
    if (status != TR_OK) {
        if (w)
            free_window(comm, w);
        return status;
    }
    w->next = comm->nccl->windows;
    comm->nccl->windows = w;
    *ptr = w->base;
    return TR_OK;
}

enum tr_status tr_nccl_mem_free(struct tr_comm *comm, void *ptr)
{
    struct nccl_window **link = &comm->nccl->windows;
    while (*link && (*link)->base != ptr)
        link = &(*link)->next;
    struct nccl_window *w = *link;
    enum tr_status status =
        w ? TR_OK : tr_error(TR_ERR_ARGUMENT, "tr_mem_free_nccl: %p is not from tr_mem_alloc_nccl", ptr);
    status = tr_comm_agree(comm, status);
    if (status != TR_OK)
        return status;
    *link = w->next;
    cudaDeviceSynchronize(); /* calls in flight may still use it */
    free_window(comm, w);
    return TR_OK;
}

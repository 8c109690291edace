/*
 * comm.c - making, describing, aborting and freeing a communicator.
 *
 * Ranks talk by MPI only here and in other set-up code, never on the path of a call. Whatever can fail on one rank alone
 * is followed by tr_comm_agree(), so that all ranks fail together and with the same sentence. MPI is waited for by
 * polling non-blocking operations against the communicator's timeout.
 */
#include "collectives/comm.h"

#include "collectives/error.h"
#include "model/choice.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double DEFAULT_TIMEOUT_S = 30.0;

double tr_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Talking over MPI, with a deadline --------------------------------------------------------------------------- */

static enum tr_status mpi_error(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return tr_error(TR_ERR_MPI, "%s failed: %.*s", what, length, text);
}

static enum tr_status wait_requests(double timeout_s, int n, MPI_Request *requests, const char *what)
{
    double deadline = tr_seconds() + timeout_s;
    for (int done = 0;;) {
        int code = MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_error(code, what);
        if (done)
            return TR_OK;
        if (tr_seconds() > deadline)
            return tr_error(TR_ERR_TIMEOUT,
                            "%s: a peer did not arrive within %g s; look for a rank that has ended or that makes other "
                            "calls, or raise TREERING_TIMEOUT",
                            what, timeout_s);
        sched_yield();
    }
}

enum tr_status tr_comm_wait(struct tr_comm *comm, int n, MPI_Request *requests, const char *what)
{
    enum tr_status status = wait_requests(comm->timeout_s, n, requests, what);
    if (status != TR_OK)
        tr_comm_break(comm, status);
    return status;
}

static enum tr_status broken_error(const struct tr_comm *comm)
{
    enum tr_status status = __atomic_load_n(&comm->broken, __ATOMIC_RELAXED);
    return tr_error(status, "the communicator cannot be used any more: %s earlier; destroy it", tr_strerror(status));
}

void tr_comm_break(struct tr_comm *comm, enum tr_status status)
{
    enum tr_status well = TR_OK;
    __atomic_compare_exchange_n(&comm->broken, &well, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* A request that timed out is still MPI's and may yet write: buffers of such requests are never freed. */
enum tr_status tr_comm_gather(struct tr_comm *comm, const void *mine, void *all, size_t bytes)
{
    if (__atomic_load_n(&comm->broken, __ATOMIC_RELAXED) != TR_OK)
        return broken_error(comm);
    size_t whole = (size_t)comm->size * bytes;
    char *buffer = malloc(bytes + whole);
    if (!buffer) {
        tr_comm_break(comm, TR_ERR_MEMORY); /* the others wait in vain: this communicator is lost */
        return tr_error(TR_ERR_MEMORY, "no memory to gather %zu bytes from %d ranks", bytes, comm->size);
    }
    memcpy(buffer, mine, bytes);
    MPI_Request request;
    int code = MPI_Iallgather(buffer, (int)bytes, MPI_BYTE, buffer + bytes, (int)bytes, MPI_BYTE, comm->mpi, &request);
    if (code != MPI_SUCCESS)
        return mpi_error(code, "MPI_Iallgather");
    enum tr_status status = tr_comm_wait(comm, 1, &request, "a collective set-up call (create, destroy, memory)");
    if (status != TR_OK)
        return status;
    memcpy(all, buffer + bytes, whole);
    free(buffer);
    return TR_OK;
}

/* What the ranks exchange to agree. */
struct agreement {
    int mine, first; /* the first rank that failed, INT_MAX: none */
    struct verdict {
        enum tr_status status;
        char sentence[TR_ERROR_BYTES];
    } verdict; /* that rank's */
};

static enum tr_status agree_first(struct tr_comm *comm, struct agreement *a)
{
    MPI_Request request;
    int code = MPI_Iallreduce(&a->mine, &a->first, 1, MPI_INT, MPI_MIN, comm->mpi, &request);
    if (code != MPI_SUCCESS)
        return mpi_error(code, "MPI_Iallreduce");
    return tr_comm_wait(comm, 1, &request, "a collective set-up call (create, destroy, memory)");
}

static enum tr_status agree_verdict(struct tr_comm *comm, struct agreement *a)
{
    MPI_Request request;
    int code = MPI_Ibcast(&a->verdict, (int)sizeof a->verdict, MPI_BYTE, a->first, comm->mpi, &request);
    if (code != MPI_SUCCESS)
        return mpi_error(code, "MPI_Ibcast");
    return tr_comm_wait(comm, 1, &request, "a collective set-up call (create, destroy, memory)");
}

enum tr_status tr_comm_agree(struct tr_comm *comm, enum tr_status status)
{
    if (__atomic_load_n(&comm->broken, __ATOMIC_RELAXED) != TR_OK)
        return status != TR_OK ? status : broken_error(comm);
    struct agreement *a = calloc(1, sizeof *a);
    if (!a) {
        tr_comm_break(comm, TR_ERR_MEMORY);
        return tr_error(TR_ERR_MEMORY, "no memory to agree on an outcome");
    }
    a->mine = status == TR_OK ? INT_MAX : comm->rank;
    a->verdict.status = status;
    snprintf(a->verdict.sentence, sizeof a->verdict.sentence, "%s", tr_last_error());

    enum tr_status talked = agree_first(comm, a);
    if (talked == TR_OK && a->first != INT_MAX)
        talked = agree_verdict(comm, a);
    if (talked != TR_OK)
        return talked;
    status = a->first == INT_MAX ? TR_OK : tr_error_relay(a->verdict.status, a->verdict.sentence);
    free(a);
    return status;
}

/* ---- Who is where ------------------------------------------------------------------------------------------------ */

/* What a rank tells the others about itself. */
struct identity {
    char host[64];
    char place[128]; /* equal where memory can be shared: TREERING_HOST_ID, else host name and boot id */
    enum tr_memory memory;
    unsigned first_epoch;
    int devices;
};

void tr_describe_place(char *place, size_t bytes, const char *host)
{
    const char *wanted = getenv("TREERING_HOST_ID");
    char boot[40] = "";
    FILE *file = wanted ? NULL : fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            boot[0] = '\0';
        fclose(file);
    }
    if (wanted)
        snprintf(place, bytes, "%s", wanted);
    else
        snprintf(place, bytes, "%.60s/%.36s", host, boot);
}

static enum tr_status check_one_host(const struct tr_comm *comm, const struct identity *all)
{
    for (int r = 1; r < comm->size; r++)
        if (strcmp(all[r].place, all[0].place))
            return tr_error(TR_ERR_UNSUPPORTED,
                            "ranks 0 (host %s) and %d (host %s) are not on one host (%s and %s); start all ranks of a "
                            "communicator on one host, or split it with MPI_Comm_split_type",
                            all[0].host, r, all[r].host, all[0].place, all[r].place);
    return TR_OK;
}

static enum tr_status check_same_config(const struct tr_comm *comm, const struct identity *all)
{
    for (int r = 1; r < comm->size; r++) {
        if (all[r].memory != all[0].memory)
            return tr_error(TR_ERR_MISMATCH,
                            "config.memory is %s on rank 0 and %s on rank %d; pass the same everywhere",
                            tr_memory_name(all[0].memory), tr_memory_name(all[r].memory), r);
        if (all[r].first_epoch != all[0].first_epoch)
            return tr_error(TR_ERR_MISMATCH,
                            "config.first_epoch is %u on rank 0 and %u on rank %d; pass the same everywhere",
                            all[0].first_epoch, all[r].first_epoch, r);
    }
    return TR_OK;
}

/* HOST or CUDA; AUTO is CUDA only where every rank sees a GPU. */
static enum tr_status choose_memory(struct tr_comm *comm, const struct identity *all)
{
    int blind = -1; /* the first rank that sees no GPU */
    for (int r = comm->size - 1; r >= 0; r--)
        if (all[r].devices <= 0)
            blind = r;
    comm->memory = comm->config.memory;
    if (comm->memory == TR_MEMORY_AUTO)
        comm->memory = blind < 0 ? TR_MEMORY_CUDA : TR_MEMORY_HOST;
    comm->executor = comm->memory == TR_MEMORY_HOST ? &tr_exec_host : tr_exec_cuda();
    if (comm->executor && (comm->memory == TR_MEMORY_HOST || blind < 0))
        return TR_OK;
    if (!comm->executor)
        return tr_error(TR_ERR_UNSUPPORTED, "this build of Treering has no CUDA; configure it with --with-cuda=DIR, or "
                                            "use host memory");
    return tr_error(TR_ERR_UNSUPPORTED,
                    "rank %d on %s sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES there, or use host memory",
                    blind, all[blind].host);
}

/* All ranks see the same identities and so come to the same verdict without a further exchange. */
static enum tr_status meet(struct tr_comm *comm)
{
    struct identity mine = {.memory = comm->config.memory, .first_epoch = comm->config.first_epoch};
    snprintf(mine.host, sizeof mine.host, "%s", comm->info.host);
    tr_describe_place(mine.place, sizeof mine.place, comm->info.host);
    mine.devices = tr_cuda_device_count();

    struct identity *all = calloc((size_t)comm->size, sizeof *all);
    enum tr_status status = all ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for %d identities", comm->size);
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = tr_comm_gather(comm, &mine, all, sizeof mine);
    if (status == TR_OK)
        status = check_one_host(comm, all);
    if (status == TR_OK)
        status = check_same_config(comm, all);
    if (status == TR_OK)
        status = choose_memory(comm, all);
    free(all);
    return status;
}

/* ---- Configuration ----------------------------------------------------------------------------------------------- */

/* Leaves the default where it fails: the rank has yet to tell the others. */
static enum tr_status resolve_timeout(struct tr_comm *comm)
{
    const char *text = getenv("TREERING_TIMEOUT");
    comm->timeout_s = DEFAULT_TIMEOUT_S;
    if (comm->config.timeout_s != 0) {
        if (!(comm->config.timeout_s > 0 && comm->config.timeout_s <= 1e9))
            return tr_error(TR_ERR_ARGUMENT, "config.timeout_s is %g; give seconds in 0..1e9 (0: default)",
                            comm->config.timeout_s);
        comm->timeout_s = comm->config.timeout_s;
    } else if (text) {
        char *end;
        double seconds = strtod(text, &end);
        if (end == text || *end || !(seconds > 0 && seconds <= 1e9))
            return tr_error(TR_ERR_ARGUMENT, "TREERING_TIMEOUT is \"%s\"; give seconds, more than 0 and at most 1e9",
                            text);
        comm->timeout_s = seconds;
    }
    return TR_OK;
}

static enum tr_status check_config(struct tr_comm *comm)
{
    struct tr_config *config = &comm->config;
    enum tr_status status = resolve_timeout(comm);
    if (status != TR_OK)
        return status;
    if ((unsigned)config->memory >= TR_MEMORY_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "config.memory is %d; valid: 0..%d", (int)config->memory, TR_MEMORY_COUNT - 1);
    if (config->device < 0)
        return tr_error(TR_ERR_ARGUMENT, "config.device is %d; give the ordinal + 1, or 0 for the nearest GPU",
                        config->device);
    const char *check = getenv("TREERING_CHECK");
    if (check && strcmp(check, "") && strcmp(check, "0"))
        config->check_calls = 1;
    if (!config->first_epoch)
        config->first_epoch = 1;
    return TR_OK;
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

/* A duplicate whose errors come back as codes. Until it is there, nobody can be told of a failure but by the timeout. */
static enum tr_status duplicate(struct tr_comm *comm, MPI_Comm mpi_comm)
{
    MPI_Request request;
    int code = MPI_Comm_idup(mpi_comm, &comm->mpi, &request);
    if (code != MPI_SUCCESS)
        return mpi_error(code, "MPI_Comm_idup");
    enum tr_status status = wait_requests(comm->timeout_s, 1, &request, "tr_comm_create");
    if (status != TR_OK) {
        comm->mpi = MPI_COMM_NULL;
        return status;
    }
    MPI_Comm_set_errhandler(comm->mpi, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm->mpi, &comm->rank);
    MPI_Comm_size(comm->mpi, &comm->size);
    tr_error_set_place(comm->rank, comm->info.host);
    return TR_OK;
}

/* NCCL is a guest: without it the communicator is whole. */
static enum tr_status bring_up_nccl(struct tr_comm *comm)
{
    if (comm->memory == TR_MEMORY_CUDA && !comm->config.no_nccl)
        return tr_nccl_create(comm);
    snprintf(comm->info.why_no_nccl, sizeof comm->info.why_no_nccl, "%s",
             comm->memory == TR_MEMORY_HOST ? "NCCL serves GPU memory only" : "config.no_nccl is set");
    return TR_OK;
}

static enum tr_status bring_up(struct tr_comm *comm)
{
    enum tr_status status = meet(comm);
    if (status == TR_OK && comm->memory == TR_MEMORY_HOST)
        status = tr_comm_agree(comm, tr_topology_bind(comm, NULL));
    if (status != TR_OK) {
        comm->executor = NULL; /* never created: nothing to destroy */
        return status;
    }
    if (comm->memory == TR_MEMORY_HOST)
        snprintf(comm->info.transport, sizeof comm->info.transport, "shared memory, to %d %s", comm->size - 1,
                 comm->size == 2 ? "rank" : "ranks");
    status = tr_comm_agree(comm, comm->executor->create(comm));
    if (status == TR_OK)
        status = tr_comm_agree(comm, bring_up_nccl(comm));
    if (status == TR_OK)
        status = tr_select_open_model(comm);
    return status;
}

/* Let go of everything. MPI_Comm_free is collective: with a dead or silent peer the duplicate is left to MPI_Finalize. */
static void release(struct tr_comm *comm)
{
    tr_nccl_destroy(comm);
    tr_registrations_clear(comm);
    tr_cache_clear(comm);
    tr_chooser_free(comm->chooser);
    if (comm->executor)
        comm->executor->destroy(comm);
    if (comm->mpi != MPI_COMM_NULL && comm->broken == TR_OK)
        MPI_Comm_free(&comm->mpi);
    free(comm);
}

static enum tr_status check_mpi(MPI_Comm mpi_comm, struct tr_comm **out)
{
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    if (started)
        MPI_Finalized(&ended);
    if (!started || ended)
        return tr_error(TR_ERR_MPI, "tr_comm_create: MPI is not running; call it between MPI_Init and MPI_Finalize");
    if (mpi_comm == MPI_COMM_NULL)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_create: mpi_comm is MPI_COMM_NULL");
    if (!out)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_create: comm is NULL; pass where to put the communicator");
    return TR_OK;
}

enum tr_status tr_comm_create(MPI_Comm mpi_comm, const struct tr_config *config, struct tr_comm **out)
{
    enum tr_status status = check_mpi(mpi_comm, out);
    if (status != TR_OK)
        return status;
    struct tr_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return tr_error(TR_ERR_MEMORY, "tr_comm_create: no memory for a communicator");
    comm->mpi = MPI_COMM_NULL;
    comm->info.device = -1;
    if (gethostname(comm->info.host, sizeof comm->info.host - 1))
        snprintf(comm->info.host, sizeof comm->info.host, "unknown host");
    if (config)
        comm->config = *config;

    resolve_timeout(comm); /* the wait for the duplicate needs it; what is wrong with it is told after, to all */
    status = duplicate(comm, mpi_comm);
    if (status == TR_OK)
        status = tr_comm_agree(comm, check_config(comm));
    if (status == TR_OK)
        status = bring_up(comm);
    if (status != TR_OK) {
        release(comm);
        return status;
    }
    *out = comm;
    return TR_OK;
}

enum tr_status tr_comm_destroy(struct tr_comm *comm)
{
    if (!comm)
        return TR_OK;
    enum tr_status status = TR_OK;
    if (comm->broken == TR_OK && comm->executor->async_error(comm) == TR_OK)
        status = tr_comm_agree(comm, TR_OK); /* a barrier: nobody is still inside a call */
    else
        tr_comm_break(comm, TR_ERR_ABORTED);
    release(comm);
    return status;
}

enum tr_status tr_comm_abort(struct tr_comm *comm)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_abort: comm is NULL");
    tr_comm_break(comm, TR_ERR_ABORTED);
    comm->executor->abort(comm);
    return TR_OK;
}

enum tr_status tr_comm_async_error(struct tr_comm *comm)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_async_error: comm is NULL");
    enum tr_status status = comm->executor->async_error(comm);
    if (status != TR_OK) {
        tr_comm_break(comm, status);
        return status;
    }
    return __atomic_load_n(&comm->broken, __ATOMIC_RELAXED) == TR_OK ? TR_OK : broken_error(comm);
}

/* ---- Asking and tuning ------------------------------------------------------------------------------------------- */

int tr_comm_rank(const struct tr_comm *comm)
{
    return comm->rank;
}

int tr_comm_size(const struct tr_comm *comm)
{
    return comm->size;
}

enum tr_memory tr_comm_memory(const struct tr_comm *comm)
{
    return comm->memory;
}

enum tr_status tr_comm_get_info(const struct tr_comm *comm, struct tr_comm_info *info)
{
    if (!comm || !info)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_get_info: %s is NULL", comm ? "info" : "comm");
    *info = comm->info;
    return TR_OK;
}

static enum tr_status check_tuning(const struct tr_comm *comm, const struct tr_tuning *tuning)
{
    if ((unsigned)tuning->algorithm >= TR_ALGORITHM_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "tuning.algorithm is %d; valid: 0..%d", (int)tuning->algorithm,
                        TR_ALGORITHM_COUNT - 1);
    if ((unsigned)tuning->protocol >= TR_PROTOCOL_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "tuning.protocol is %d; valid: 0..%d", (int)tuning->protocol,
                        TR_PROTOCOL_COUNT - 1);
    unsigned most = comm->executor->max_channels(comm);
    if (tuning->channels < 0 || (unsigned)tuning->channels > most)
        return tr_error(TR_ERR_ARGUMENT, "tuning.channels is %d; valid: 0..%u (0: chosen by size)", tuning->channels,
                        most);
    return TR_OK;
}

enum tr_status tr_comm_set_tuning(struct tr_comm *comm, const struct tr_tuning *tuning)
{
    if (!comm || !tuning)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_set_tuning: %s is NULL", comm ? "tuning" : "comm");
    enum tr_status status = check_tuning(comm, tuning);
    if (status != TR_OK)
        return status;
    comm->tuning = *tuning;
    memset(comm->recent, 0, sizeof comm->recent);
    return TR_OK;
}

/*
 * errors_test.c - what goes wrong on CPU ranks, and what the library says of it: arguments, calls that do not match,
 * a rank that stays away, an abort. Needs two ranks or more.
 */
#include "collectives/tap.h"
#include "treering.h"

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 16 };

static int rank, size;

/* One TAP line: every rank got `wanted`, and a sentence that holds `word`. */
static void expect(const char *name, enum tr_status status, enum tr_status wanted, const char *word)
{
    char why[1500];
    snprintf(why, sizeof why, "got \"%s\" with the sentence \"%s\"; wanted \"%s\" and \"%s\" in it",
             tr_strerror(status), tr_last_error(), tr_strerror(wanted), word);
    tap_test(status == wanted && strstr(tr_last_error(), word), why, "%s", name);
}

static struct tr_comm *create(const struct tr_config *changes)
{
    struct tr_config config = changes ? *changes : (struct tr_config){0};
    struct tr_comm *comm;
    config.memory = TR_MEMORY_HOST;
    if (tr_comm_create(MPI_COMM_WORLD, &config, &comm) != TR_OK)
        tap_bail_out("tr_comm_create: %s", tr_last_error());
    return comm;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static double a[COUNT * 64], b[COUNT * 64];

static enum tr_status sum(const void *in, void *out, size_t count, struct tr_comm *comm)
{
    return tr_allreduce(in, out, count, TR_F64, TR_SUM, comm, NULL);
}

static void test_call_arguments(struct tr_comm *comm)
{
    const enum tr_status bad = TR_ERR_ARGUMENT;
    int stream;
    expect("comm is NULL", sum(a, b, COUNT, NULL), bad, "comm is NULL");
    expect("datatype out of range", tr_allreduce(a, b, COUNT, (enum tr_datatype)99, TR_SUM, comm, NULL), bad,
           "datatype");
    expect("operation out of range", tr_allreduce(a, b, COUNT, TR_F64, (enum tr_op) - 1, comm, NULL), bad, "op is");
    expect("sendbuf is NULL", sum(NULL, b, COUNT, comm), bad, "sendbuf is NULL");
    expect("recvbuf is NULL", sum(a, NULL, COUNT, comm), bad, "recvbuf is NULL");
    expect("buffers overlap", sum(a, a + 1, COUNT, comm), bad, "overlap");
    expect("buffers of a reduce-scatter overlap",
           tr_reduce_scatter(a, a + (size_t)rank * COUNT + 1, COUNT, TR_F64, TR_SUM, comm, NULL), bad, "overlap");
    expect("buffers of an all-gather overlap", tr_allgather(b + (size_t)rank * COUNT + 1, b, COUNT, TR_F64, comm, NULL),
           bad, "overlap");
    expect("a stream on the host", tr_allreduce(a, b, COUNT, TR_F64, TR_SUM, comm, &stream), bad, "stream");
    expect("a count that no memory holds", sum(a, b, SIZE_MAX / 4, comm), bad, "count");
    expect("a count that no memory holds on all ranks",
           tr_allgather(a, b, SIZE_MAX / 8 / (size_t)size, TR_F64, comm, NULL), bad, "count");
}

static void test_peer_arguments(struct tr_comm *comm)
{
    const enum tr_status bad = TR_ERR_ARGUMENT;
    expect("root -1", tr_broadcast(a, b, COUNT, TR_F64, -1, comm, NULL), bad, "root is -1");
    expect("root past the last rank", tr_reduce(a, b, COUNT, TR_F64, TR_SUM, size, comm, NULL), bad, "root is");
    expect("send to oneself", tr_send(a, COUNT, TR_F64, rank, comm, NULL), bad, "peer is");
    expect("receive from nobody", tr_recv(a, COUNT, TR_F64, -1, comm, NULL), bad, "peer is -1");
    expect("send past the last rank", tr_send(a, COUNT, TR_F64, size, comm, NULL), bad, "peer is");
}

static enum tr_status tune(struct tr_comm *comm, int algorithm, int protocol, int channels)
{
    struct tr_tuning tuning = {(enum tr_algorithm)algorithm, (enum tr_protocol)protocol, channels};
    return tr_comm_set_tuning(comm, &tuning);
}

static enum tr_status sum_tuned(struct tr_comm *comm, int algorithm, int protocol)
{
    enum tr_status status = tune(comm, algorithm, protocol, 0);
    if (status == TR_OK)
        status = sum(a, b, COUNT, comm);
    tune(comm, 0, 0, 0);
    return status;
}

static void test_tuning(struct tr_comm *comm)
{
    expect("algorithm out of range", tune(comm, 99, 0, 0), TR_ERR_ARGUMENT, "algorithm");
    expect("protocol out of range", tune(comm, 0, -1, 0), TR_ERR_ARGUMENT, "protocol");
    expect("channels on the host", tune(comm, 0, 0, 2), TR_ERR_ARGUMENT, "channels");
    expect("no tuning", tr_comm_set_tuning(comm, NULL), TR_ERR_ARGUMENT, "NULL");
    expect("LL128 on the host", sum_tuned(comm, TR_ALGORITHM_RING, TR_PROTOCOL_LL128), TR_ERR_UNSUPPORTED, "LL128");
    expect("NCCL on the host", sum_tuned(comm, TR_ALGORITHM_NCCL, 0), TR_ERR_UNSUPPORTED, "NCCL");
}

static void test_memory(struct tr_comm *comm)
{
    const enum tr_status bad = TR_ERR_ARGUMENT;
    void *ptr = a;
    expect("tr_mem_alloc of nothing", tr_mem_alloc(comm, 0, &ptr), bad, "bytes is 0");
    expect("tr_mem_alloc to nowhere", tr_mem_alloc(comm, 8, NULL), bad, "ptr is NULL");
    expect("tr_mem_alloc of other sizes", tr_mem_alloc(comm, rank == 1 ? 8 : 16, &ptr), TR_ERR_MISMATCH, "rank 1");
    tap_test(ptr == a, "the output was written", "an allocation that fails leaves its output alone");
    expect("tr_mem_free of what was not given", tr_mem_free(comm, a), bad, "was not given");
    expect("tr_mem_register on the host", tr_mem_register(comm, a, sizeof a), TR_ERR_UNSUPPORTED, "tr_mem_alloc");
    expect("NCCL memory on the host", tr_mem_alloc_nccl(comm, 8, &ptr), TR_ERR_UNSUPPORTED, "NCCL");
    tap_test(tr_mem_free(comm, NULL) == TR_OK, tr_last_error(), "tr_mem_free of NULL");
}

static void test_names(void)
{
    enum tr_datatype datatype = TR_U8;
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    enum tr_memory memory;
    enum tr_op op;
    expect("an unknown datatype", tr_datatype_parse("f31", &datatype), TR_ERR_ARGUMENT, "bf16");
    expect("an unknown operation", tr_op_parse("add", &op), TR_ERR_ARGUMENT, "prod");
    expect("an unknown algorithm", tr_algorithm_parse("star", &algorithm), TR_ERR_ARGUMENT, "twoshot");
    expect("an unknown protocol", tr_protocol_parse("tcp", &protocol), TR_ERR_ARGUMENT, "direct");
    expect("an unknown memory kind", tr_memory_parse("disk", &memory), TR_ERR_ARGUMENT, "cuda");
    expect("no name", tr_datatype_parse(NULL, &datatype), TR_ERR_ARGUMENT, "bf16");
}

static enum tr_status create_with(MPI_Comm mpi, struct tr_config config)
{
    struct tr_comm *comm = NULL;
    enum tr_status status = tr_comm_create(mpi, &config, &comm);
    if (status == TR_OK)
        tr_comm_destroy(comm);
    return status;
}

static void test_creation(void)
{
    const enum tr_status bad = TR_ERR_ARGUMENT;
    const struct tr_config host = {.memory = TR_MEMORY_HOST};
    struct tr_config config = host;
    expect("no MPI communicator", create_with(MPI_COMM_NULL, host), bad, "MPI_COMM_NULL");
    expect("nowhere to put the communicator", tr_comm_create(MPI_COMM_WORLD, &host, NULL), bad, "comm is NULL");
    config.timeout_s = -1;
    expect("a timeout below 0", create_with(MPI_COMM_WORLD, config), bad, "timeout_s is -1");
    config = host;
    config.memory = (enum tr_memory)99;
    expect("memory out of range", create_with(MPI_COMM_WORLD, config), bad, "memory is 99");
    config = host;
    config.first_epoch = rank == 1 ? 7 : 5;
    expect("first epochs that differ", create_with(MPI_COMM_WORLD, config), TR_ERR_MISMATCH, "rank 1");
    config = host;
    config.timeout_s = rank == 1 ? -1 : 0;
    expect("one rank's bad configuration fails all", create_with(MPI_COMM_WORLD, config), bad, "rank 1");
}

/* After so many failures the communicator works as if nothing had been. */
static void test_unharmed(struct tr_comm *comm, const char *after)
{
    for (int i = 0; i < COUNT; i++)
        a[i] = rank + i;
    enum tr_status status = sum(a, b, COUNT, comm);
    bool right = status == TR_OK;
    for (int i = 0; i < COUNT; i++)
        right = right && b[i] == size * (size - 1) / 2 + size * i;
    tap_test(right, status == TR_OK ? "a wrong sum" : tr_last_error(), "a communicator works on after %s", after);
}

/* ---- Calls that do not match ------------------------------------------------------------------------------------- */

static void test_mismatch(void)
{
    const enum tr_status mismatch = TR_ERR_MISMATCH;
    struct tr_comm *comm = create(&(struct tr_config){.check_calls = 1});
    bool other = rank == 1;
    expect("other count", sum(a, b, other ? 2 : 3, comm), mismatch, "count is 2 on rank 1 and 3 on rank 0");
    expect("other datatype", tr_allreduce(a, b, COUNT, other ? TR_F32 : TR_F64, TR_SUM, comm, NULL), mismatch,
           "datatype is f32 on rank 1");
    expect("other operation", tr_allreduce(a, b, COUNT, TR_F64, other ? TR_MIN : TR_SUM, comm, NULL), mismatch,
           "op is min on rank 1");
    expect("other root", tr_broadcast(a, b, COUNT, TR_F64, other, comm, NULL), mismatch, "root is 1 on rank 1");
    expect("other collective",
           other ? tr_allgather(a, b, 1, TR_F64, comm, NULL) : tr_reduce_scatter(a, b, 1, TR_F64, TR_SUM, comm, NULL),
           mismatch, "allgather on rank 1");
    tune(comm, other ? TR_ALGORITHM_RING : TR_ALGORITHM_TREE, 0, 0);
    expect("other algorithm", sum(a, b, COUNT, comm), mismatch, "ring on rank 1");
    tune(comm, 0, 0, 0);
    expect("one rank's bad argument fails all", sum(a, other ? NULL : b, COUNT, comm), TR_ERR_ARGUMENT, "rank 1");
    expect("one rank with count 0", sum(a, b, other ? 0 : 1, comm), mismatch, "count is 0 on rank 1");
    enum tr_status status = rank == 0   ? tr_send(a, 2, TR_F64, 1, comm, NULL)
                            : rank == 1 ? tr_recv(b, 3, TR_F64, 0, comm, NULL)
                                        : mismatch;
    char why[1200];
    snprintf(why, sizeof why, "%s: %s", tr_strerror(status), tr_last_error());
    tap_test(status == mismatch && (rank > 1 || strstr(tr_last_error(), "count")), why, "a message of another length");
    test_unharmed(comm, "calls that did not match");
    tr_comm_destroy(comm);
}

/* ---- A rank that stays away -------------------------------------------------------------------------------------- */

/* The last rank comes late to an all-reduce: the others give up in time, with a sentence that names it. */
static void test_late(enum tr_algorithm algorithm, enum tr_protocol protocol)
{
    struct tr_comm *comm = create(&(struct tr_config){.timeout_s = 1});
    char name[32], why[1400];
    snprintf(name, sizeof name, "rank %d", size - 1);
    tune(comm, (int)algorithm, (int)protocol, 0);
    test_unharmed(comm, "its creation");

    double start = tap_seconds();
    if (rank == size - 1)
        usleep(2500000);
    enum tr_status status = sum(a, b, COUNT, comm);
    double waited = tap_seconds() - start;
    bool gave_up = status == TR_ERR_TIMEOUT || status == TR_ERR_ABORTED;
    snprintf(why, sizeof why, "after %.2f s: \"%s\" with the sentence \"%s\"", waited, tr_strerror(status),
             tr_last_error());
    tap_test(gave_up && waited < 4 && strstr(tr_last_error(), name), why,
             "%s over %s: a rank that stays away is named in time", tr_algorithm_name(algorithm),
             tr_protocol_name(protocol));
    int timeouts = status == TR_ERR_TIMEOUT, all;
    MPI_Allreduce(&timeouts, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    tap_test(all > 0, "all were aborted, and by whom?", "a rank that waited in vain says so");

    start = tap_seconds();
    status = sum(a, b, COUNT, comm);
    tap_test(status == TR_ERR_TIMEOUT || status == TR_ERR_ABORTED, tr_strerror(status), "later calls fail, too");
    tap_test(tr_comm_async_error(comm) != TR_OK, "TR_OK", "the asynchronous error state says so");
    tr_comm_destroy(comm);
    tap_test(tap_seconds() - start < 1, "it took more than a second", "a broken communicator is freed without waiting");
}

/* A message whose receiver never comes. */
static void test_late_receiver(void)
{
    struct tr_comm *comm = create(&(struct tr_config){.timeout_s = 1});
    enum tr_status status = rank == 0 ? tr_send(a, COUNT, TR_F64, 1, comm, NULL) : TR_ERR_TIMEOUT;
    char why[1400];
    snprintf(why, sizeof why, "\"%s\" with the sentence \"%s\"", tr_strerror(status), tr_last_error());
    tap_test(status == TR_ERR_TIMEOUT && (rank > 0 || strstr(tr_last_error(), "rank 1")), why,
             "a receiver that stays away is named");
    MPI_Barrier(MPI_COMM_WORLD);
    tr_comm_destroy(comm);
}

/* ---- Abort ------------------------------------------------------------------------------------------------------- */

static void *abort_soon(void *comm)
{
    usleep(300000);
    tr_comm_abort(comm);
    return NULL;
}

/* Rank 0 stays away; another thread of the last rank ends the others' wait. */
static void test_abort(void)
{
    struct tr_comm *comm = create(&(struct tr_config){.timeout_s = 60});
    pthread_t thread;
    char name[32], why[1400];
    snprintf(name, sizeof name, "rank %d", size - 1);
    test_unharmed(comm, "its creation");
    double start = tap_seconds();
    if (rank == size - 1 && pthread_create(&thread, NULL, abort_soon, comm))
        tap_bail_out("pthread_create failed");
    if (rank == 0)
        usleep(1500000);
    enum tr_status status = sum(a, b, COUNT, comm);
    double waited = tap_seconds() - start;
    snprintf(why, sizeof why, "after %.2f s: \"%s\" with the sentence \"%s\"", waited, tr_strerror(status),
             tr_last_error());
    tap_test(status == TR_ERR_ABORTED && waited < 5 && strstr(tr_last_error(), name), why,
             "an abort from another thread ends every rank's wait");
    if (rank == size - 1)
        pthread_join(thread, NULL);
    expect("calls after an abort", sum(a, b, COUNT, comm), TR_ERR_ABORTED, "");
    tap_test(tr_comm_destroy(comm) == TR_OK, tr_last_error(), "an aborted communicator is freed");
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2 || size > 64) {
        int skipped = tap_skip_all("needs 2 to 64 ranks");
        MPI_Finalize();
        return skipped;
    }
    test_creation();
    test_names();
    struct tr_comm *comm = create(NULL);
    test_call_arguments(comm);
    test_peer_arguments(comm);
    test_tuning(comm);
    test_memory(comm);
    test_unharmed(comm, "bad arguments");
    tr_comm_destroy(comm);
    test_mismatch();
    test_late(TR_ALGORITHM_AUTO, TR_PROTOCOL_AUTO);
    test_late(TR_ALGORITHM_RING, TR_PROTOCOL_DIRECT);
    test_late(TR_ALGORITHM_TREE, TR_PROTOCOL_LL);
    test_late(TR_ALGORITHM_RECURSIVE, TR_PROTOCOL_DIRECT);
    test_late_receiver();
    test_abort();
    int status = tap_end();
    MPI_Finalize();
    return status;
}

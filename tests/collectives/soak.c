/* soak.c - what a communicator holds, and that many calls and many communicators take no more. */
#include "soak.h"
#include "matrix.h"
#include "memory.h"
#include "tap.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COUNT = 2,
    WARM_ROUNDS = 64,
    ROUNDS_A_WAIT = 16, /* on a GPU calls are queued so far ahead */
    COMMUNICATORS = 20
};

static const size_t MOST_HOST = 16 << 20, MOST_DEVICE = 32 << 20; /* bytes of a communicator of 8 ranks */
static const size_t SLACK = 512 << 10; /* the C library, MPI and the driver keep their own pools */

static struct tr_comm *create(void)
{
    struct tr_config config = {.memory = memory_kind(), .no_nccl = 1};
    struct tr_comm *comm;
    if (tr_comm_create(MPI_COMM_WORLD, &config, &comm) != TR_OK)
        tap_bail_out("tr_comm_create: %s", tr_last_error());
    return comm;
}

static void must(enum tr_status status)
{
    if (status != TR_OK)
        tap_bail_out("%s: %s", tr_strerror(status), tr_last_error());
}

/* One call of every algorithm that serves an all-reduce, reduce-scatter or all-gather; returns their number. */
static unsigned long call_round(struct tr_comm *comm, double *in, double *out)
{
    unsigned long calls = 0;
    for (int algorithm = 0; algorithm < MATRIX_ALGORITHMS; algorithm++) {
        must(tr_comm_set_tuning(comm, &(struct tr_tuning){.algorithm = (enum tr_algorithm)algorithm}));
        must(tr_allreduce(in, out, COUNT, TR_F64, TR_SUM, comm, memory_stream()));
        calls++;
        if (!matrix_serves((enum tr_algorithm)algorithm, TR_ALLGATHER))
            continue;
        must(tr_reduce_scatter(in, out, COUNT, TR_F64, TR_SUM, comm, memory_stream()));
        must(tr_allgather(in, out, COUNT, TR_F64, comm, memory_stream()));
        calls += 2;
    }
    return calls;
}

static void test_calls(struct tr_comm *comm, unsigned long calls)
{
    size_t bytes = (size_t)tr_comm_size(comm) * COUNT * sizeof(double);
    double *in = memory_new(bytes), *out = memory_new(bytes);
    char why[160];
    for (int i = 0; i < WARM_ROUNDS; i++)
        call_round(comm, in, out);
    memory_finish();
    tap_meet();
    size_t before = memory_in_use();
    double start = tap_seconds();
    unsigned long made = 0;
    for (unsigned long round = 1; made < calls; round++) {
        made += call_round(comm, in, out);
        if (round % ROUNDS_A_WAIT == 0)
            memory_finish();
    }
    memory_finish();
    double seconds = tap_seconds() - start;
    tap_meet();
    size_t after = memory_in_use();
    snprintf(why, sizeof why, "%zu bytes before, %zu after", before, after);
    tap_test(after <= before + SLACK, why, "%lu calls in %.1f s take no memory", made, seconds);
    memory_delete(in);
    memory_delete(out);
}

static void test_info(const struct tr_comm *comm)
{
    struct tr_comm_info info;
    char why[160];
    must(tr_comm_get_info(comm, &info));
    tap_note("%d ranks: %zu bytes of host memory a rank, %zu bytes of GPU memory", tr_comm_size(comm), info.host_bytes,
             info.device_bytes);
    snprintf(why, sizeof why, "%zu bytes of host memory, %zu of GPU memory", info.host_bytes, info.device_bytes);
    if (tr_comm_size(comm) <= 8)
        tap_test(info.host_bytes > 0 && info.host_bytes <= MOST_HOST && info.device_bytes <= MOST_DEVICE, why,
                 "a communicator holds at most 16 MiB of host and 32 MiB of GPU memory");
    else
        tap_skip("the limit is for 8 ranks", "a communicator's memory");
}

static void test_communicators(void)
{
    size_t before = 0;
    char why[160];
    for (int i = 0; i < 2 * COMMUNICATORS; i++) {
        if (i == COMMUNICATORS) {
            tap_meet();
            before = memory_in_use();
        }
        struct tr_comm *comm = create();
        void *shared;
        must(tr_mem_alloc(comm, 1 << 20, &shared));
        must(tr_mem_free(comm, shared));
        must(tr_comm_destroy(comm));
    }
    tap_meet();
    size_t after = memory_in_use();
    snprintf(why, sizeof why, "%zu bytes before, %zu after", before, after);
    tap_test(after <= before + SLACK, why, "%d communicators and registrations leave no memory behind", COMMUNICATORS);
}

void soak_run(unsigned long calls)
{
    const char *wanted = getenv("TREERING_TEST_CALLS");
    if (wanted && *wanted)
        calls = strtoul(wanted, NULL, 10);
    struct tr_comm *comm = create();
    memory_attach(comm);
    test_calls(comm, calls);
    test_info(comm);
    must(tr_comm_destroy(comm));
    test_communicators();
}

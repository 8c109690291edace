/* card.c - measures of the GPU itself. */
#include "bench/card.h"
#include "bench/backend.h"
#include "bench/bench_cuda.h"
#include "bench/contender.h"
#include "bench/fail.h"
#include "bench/stats.h"

#include <string.h>

static void must(struct bench *bench, bool good)
{
    if (!good)
        bench_die(bench, "%s", bench_cuda_error());
}

/* The lowest rank on this rank's GPU. */
static int leader_on_device(const struct bench *bench)
{
    int leader = 0;
    while (strcmp(bench->infos[leader].device_uuid, bench->info.device_uuid) != 0)
        leader++;
    return leader;
}

/* ---- Copy rate --------------------------------------------------------------------------------------------------- */

enum { COPIES = 15, MOST_COPY = 1 << 30 };

/* Bytes read plus written a second, median over copies of `bytes`. */
static double time_copies(struct bench *bench, size_t bytes)
{
    void *from, *to;
    double samples[COPIES];
    must(bench, bench_cuda_alloc(bytes, &from) && bench_cuda_alloc(bytes, &to));
    must(bench, bench_cuda_poison(from, bytes) && bench_cuda_copy(to, from, bytes));
    for (int i = 0; i < COPIES; i++)
        must(bench, bench_cuda_clock_start() && bench_cuda_copy(to, from, bytes) && bench_cuda_clock_stop(&samples[i]));
    bench_cuda_free(to);
    bench_cuda_free(from);
    return 2.0 * (double)bytes / stats_of(samples, COPIES).median;
}

/* One rank of a GPU copies while its others wait. */
static void measure_copy_rate(struct bench *bench)
{
    size_t free_bytes, bytes = MOST_COPY;
    if (leader_on_device(bench) == bench->rank) {
        must(bench, bench_cuda_free_bytes(&free_bytes));
        while (bytes > free_bytes / 4)
            bytes /= 2;
        bench->card.copy_bytes = bytes;
        bench->card.copy_rate = time_copies(bench, bytes);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&bench->card, sizeof bench->card, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* ---- Launch cost ------------------------------------------------------------------------------------------------- */

enum { LAUNCH_ROUNDS = 21, LAUNCHES = 100, LAUNCH_BYTES = 8 };

static enum tr_status launch_calls(struct bench *bench, const struct bench_shape *shape)
{
    const struct bench_buffers *set = &bench->buffers[BENCH_OWN];
    enum tr_status status = TR_OK;
    for (int i = 0; i < LAUNCHES && status == TR_OK; i++)
        status = bench->collective->call(set->send, set->recv, shape->count, TR_F32, TR_SUM, bench->comm,
                                         bench_cuda_stream());
    return status;
}

static enum tr_status launch_empty(struct bench *bench, const struct bench_shape *shape)
{
    (void)shape;
    for (int i = 0; i < LAUNCHES; i++)
        must(bench, bench_cuda_launch_empty());
    return TR_OK;
}

/* Host microseconds a launch; the GPU's work is waited for outside the clock. */
static double time_launches(struct bench *bench, const struct bench_shape *shape,
                            enum tr_status (*launch)(struct bench *bench, const struct bench_shape *shape))
{
    must(bench, bench_cuda_wait());
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    enum tr_status status = launch(bench, shape);
    double stop = MPI_Wtime();
    must(bench, bench_cuda_wait());
    bench_agree_status(bench, status, "measuring the cost of a launch");
    return (stop - start) * 1e6 / LAUNCHES;
}

static double over_ranks(double *samples)
{
    double mine = stats_of(samples, LAUNCH_ROUNDS).median, most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void measure_launch_cost(struct bench *bench)
{
    const struct bench_contender automatic = {.algorithm = TR_ALGORITHM_AUTO, .memory = BENCH_OWN};
    size_t bytes = LAUNCH_BYTES;
    while (bench->collective->shape(bytes, sizeof(float), bench->nranks, 0).count == 0)
        bytes *= 2;
    struct bench_shape shape = bench->collective->shape(bytes, sizeof(float), bench->nranks, bench->rank);
    double calls[LAUNCH_ROUNDS], empty[LAUNCH_ROUNDS];
    bench_agree_status(bench, contender_choose(bench, &automatic), "choosing an algorithm");
    time_launches(bench, &shape, launch_calls);
    for (int i = 0; i < LAUNCH_ROUNDS; i++) {
        empty[i] = time_launches(bench, &shape, launch_empty);
        calls[i] = time_launches(bench, &shape, launch_calls);
    }
    bench->card.launch_us = over_ranks(calls);
    bench->card.empty_launch_us = over_ranks(empty);
}

void card_measure(struct bench *bench)
{
    if (bench->backend->memory != TR_MEMORY_CUDA)
        return;
    watchdog_arm(bench, 0, "measuring the GPU's copy rate");
    measure_copy_rate(bench);
    watchdog_arm(bench, 0, "measuring the cost of a launch");
    if (bench->options.launch_cost || (bench->options.verbose && bench->buffers[BENCH_OWN].used))
        measure_launch_cost(bench);
}

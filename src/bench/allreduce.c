/* allreduce.c - the all-reduce, as the driver sees it: every rank has a vector, every rank gets the reduction of all. */
#include "bench/bench.h"

static double busbw_factor(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

/* Every rank's input is read once and every rank's output written once. */
static double traffic_factor(int nranks)
{
    return 2.0 * nranks;
}

static struct bench_shape shape(size_t bytes, size_t element_bytes, int nranks, int rank)
{
    (void)nranks;
    (void)rank;
    size_t count = bytes / element_bytes;
    return (struct bench_shape){.bytes = count * element_bytes, .count = count, .send = count, .recv = count};
}

const struct bench_collective bench_allreduce = {
    .collective = TR_ALLREDUCE,
    .program = "allreduce_bench",
    .summary = "Time all-reduce: each algorithm of Treering, NCCL and MPI, interleaved in one run and checked.",
    .size_text = "bytes of a rank's vector",
    .busbw_text = "2(n-1)/n",
    .traffic_text = "2n x size",
    .reduces = true,
    .in_place_consumes = true,
    .busbw_factor = busbw_factor,
    .traffic_factor = traffic_factor,
    .shape = shape,
    .call = tr_allreduce,
};

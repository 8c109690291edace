/* reduce_scatter.c - the reduce-scatter, as the driver sees it: each rank gets its segment of the reduction of all. */
#include "bench/bench.h"

static double busbw_factor(int nranks)
{
    return (nranks - 1.0) / nranks;
}

/* n whole vectors are read, one segment is written on each rank. */
static double traffic_factor(int nranks)
{
    return nranks + 1.0;
}

static struct bench_shape shape(size_t bytes, size_t element_bytes, int nranks, int rank)
{
    size_t segment = bytes / element_bytes / (size_t)nranks;
    size_t first = (size_t)rank * segment;
    return (struct bench_shape){
        .bytes = segment * (size_t)nranks * element_bytes,
        .count = segment,
        .send = segment * (size_t)nranks,
        .recv = segment,
        .recv_in_place = first,
        .first = first,
    };
}

const struct bench_collective bench_reduce_scatter = {
    .collective = TR_REDUCE_SCATTER,
    .program = "reduce_scatter_bench",
    .summary = "Time reduce-scatter: each algorithm of Treering, NCCL and MPI, interleaved in one run and checked.",
    .size_text = "bytes of a rank's whole send vector (n segments), as in nccl-tests",
    .busbw_text = "(n-1)/n",
    .traffic_text = "(n+1) x size",
    .reduces = true,
    .in_place_consumes = true,
    .busbw_factor = busbw_factor,
    .traffic_factor = traffic_factor,
    .shape = shape,
    .call = tr_reduce_scatter,
};

/* allgather.c - the all-gather, as the driver sees it: every rank gets every rank's segment, in rank order. */
#include "bench/bench.h"

static double busbw_factor(int nranks)
{
    return (nranks - 1.0) / nranks;
}

/* One segment is read on each rank, n whole vectors are written. */
static double traffic_factor(int nranks)
{
    return nranks + 1.0;
}

static struct bench_shape shape(size_t bytes, size_t element_bytes, int nranks, int rank)
{
    size_t segment = bytes / element_bytes / (size_t)nranks;
    return (struct bench_shape){
        .bytes = segment * (size_t)nranks * element_bytes,
        .count = segment,
        .send = segment,
        .recv = segment * (size_t)nranks,
        .send_in_place = (size_t)rank * segment,
    };
}

/* The operation is of no account. */
static enum tr_status call(const void *send, void *recv, size_t count, enum tr_datatype datatype, enum tr_op op,
                           struct tr_comm *comm, void *stream)
{
    (void)op;
    return tr_allgather(send, recv, count, datatype, comm, stream);
}

const struct bench_collective bench_allgather = {
    .collective = TR_ALLGATHER,
    .program = "allgather_bench",
    .summary = "Time all-gather: each algorithm of Treering, NCCL and MPI, interleaved in one run and checked.",
    .size_text = "bytes of a rank's whole receive vector (n segments), as in nccl-tests",
    .busbw_text = "(n-1)/n",
    .traffic_text = "(n+1) x size",
    .busbw_factor = busbw_factor,
    .traffic_factor = traffic_factor,
    .shape = shape,
    .call = call,
};

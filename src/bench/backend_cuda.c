/* backend_cuda.c - GPU memory for the benches: the functions of bench_cuda.h as a table. */
#include "bench/backend.h"
#include "bench/bench_cuda.h"

const struct bench_backend backend_cuda = {
    .memory = TR_MEMORY_CUDA,
    .open = bench_cuda_open,
    .close = bench_cuda_close,
    .error = bench_cuda_error,
    .stream = bench_cuda_stream,
    .free_bytes = bench_cuda_free_bytes,
    .alloc = bench_cuda_alloc,
    .release = bench_cuda_free,
    .wait = bench_cuda_wait,
    .enter = bench_cuda_enter,
    .entered = bench_cuda_entered,
    .clock_start = bench_cuda_clock_start,
    .clock_stop = bench_cuda_clock_stop,
    .capture_start = bench_cuda_capture_start,
    .capture_stop = bench_cuda_capture_stop,
    .graph_launch = bench_cuda_graph_launch,
    .graph_free = bench_cuda_graph_free,
    .fill = bench_cuda_fill,
    .poison = bench_cuda_poison,
    .count_wrong = bench_cuda_count_wrong,
};

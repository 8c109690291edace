/*
 * bench_cuda.h - what the benches need of CUDA, in plain C: bench_cuda.cu, or bench_cuda_none.c in a build without CUDA.
 *
 * Functions return true, or false and leave a sentence in bench_cuda_error(). Streams, events and graphs are void *.
 */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include "bench/pattern.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bench_cuda_versions {
    int driver, runtime;                /* as CUDA counts them, 13000 for 13.0; 0: none */
    int sm_clock_khz, memory_clock_khz; /* of the current device, at most */
    size_t memory_bytes;
};

const char *bench_cuda_error(void);

/* GPUs that this process sees; 0 without CUDA. */
int bench_cuda_device_count(void);
/* Make a device current, and create the stream, the events and the counter that the calls below use. */
bool bench_cuda_open(int device);
void bench_cuda_close(void);
void *bench_cuda_stream(void);
bool bench_cuda_get_versions(struct bench_cuda_versions *versions);

bool bench_cuda_free_bytes(size_t *bytes);
bool bench_cuda_alloc(size_t bytes, void **ptr);
void bench_cuda_free(void *ptr);

/* Wait for the stream. */
bool bench_cuda_wait(void);
/* Note the time at which the stream gets here; and, once it has been waited for, that time in nanoseconds: `own`, by the
 * GPU's clock, else by the host's (CLOCK_MONOTONIC), give or take `uncertainty_ns`. */
bool bench_cuda_enter(void);
bool bench_cuda_entered(bool own, int64_t *ns, int64_t *uncertainty_ns);
/* Time between two points of the stream; stop waits for the stream. */
bool bench_cuda_clock_start(void);
bool bench_cuda_clock_stop(double *seconds);

/* What is put into the stream between the two becomes a graph. */
bool bench_cuda_capture_start(void);
bool bench_cuda_capture_stop(void **graph);
bool bench_cuda_graph_launch(void *graph);
void bench_cuda_graph_free(void *graph);

/* In stream order: write `rank`'s input, set every bit, copy (for the copy rate), launch an empty kernel. */
bool bench_cuda_fill(const struct pattern *pattern, int rank, void *data, size_t count);
bool bench_cuda_poison(void *data, size_t bytes);
bool bench_cuda_copy(void *to, const void *from, size_t bytes);
bool bench_cuda_launch_empty(void);
/* Between any two memories, and wait. */
bool bench_cuda_move(void *to, const void *from, size_t bytes);
/* Compare with the references and wait: how many of `count` outputs differ. */
bool bench_cuda_count_wrong(const struct pattern *pattern, const void *data, size_t count, size_t *wrong);

#ifdef __cplusplus
}
#endif

#endif

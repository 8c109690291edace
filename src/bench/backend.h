/*
 * backend.h - what a kind of memory does for the benches: host memory (backend_host.c), GPU memory (backend_cuda.c).
 *
 * Functions return true, or false and leave a sentence in error(). On a GPU everything happens in the backend's stream.
 */
#ifndef BENCH_BACKEND_H
#define BENCH_BACKEND_H

#include "bench/pattern.h"
#include "treering.h"

#include <stdint.h>

struct bench_backend {
    enum tr_memory memory;
    bool (*open)(int device);
    void (*close)(void);
    const char *(*error)(void);
    void *(*stream)(void); /* for the collectives' stream argument */
    bool (*free_bytes)(size_t *bytes);
    bool (*alloc)(size_t bytes, void **ptr);
    void (*release)(void *ptr);
    bool (*wait)(void);
    bool (*enter)(void); /* note the time at which this rank, or its GPU, gets here; right before clock_start() */
    /* That time. `own`: on the memory's own clock, which ranks on one GPU share and ranks on one host do; else on the
     * host's, give or take `uncertainty_ns`. After clock_stop(). */
    bool (*entered)(bool own, int64_t *ns, int64_t *uncertainty_ns);
    bool (*clock_start)(void);
    bool (*clock_stop)(double *seconds);
    bool (*capture_start)(void); /* graphs: GPU memory alone */
    bool (*capture_stop)(void **graph);
    bool (*graph_launch)(void *graph);
    void (*graph_free)(void *graph);
    bool (*fill)(const struct pattern *pattern, int rank, void *data, size_t count);
    bool (*poison)(void *data, size_t bytes); /* all bits set: NaN in every floating type */
    bool (*count_wrong)(const struct pattern *pattern, const void *data, size_t count, size_t *wrong);
};

extern const struct bench_backend backend_host, backend_cuda;

#endif

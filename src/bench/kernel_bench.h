/*
 * kernel_bench.h - what kernel_bench knows of a kernel: a row of the table in kernel_table.c, in a file of its own.
 *
 * A row is run at each of its shapes and variants: a point. At a point its contenders, ours and others', work on
 * the same operands, in rounds, in an order drawn anew each round. What a timed batch left behind is checked; what
 * failed has no speed.
 */
#ifndef BENCH_KERNEL_BENCH_H
#define BENCH_KERNEL_BENCH_H

#include "bench/backend.h"
#include "bench/bench.h"
#include "kernels/kernels.h"

#include <stdio.h>

enum { KERNEL_DIMENSIONS = 8, KERNEL_CONTENDERS = 16, KERNEL_POINTS = 4096 };

struct kernel_shape {
    int count;
    size_t size[KERNEL_DIMENSIONS];
};

/* What the work needs at least: operations (a multiplication and an addition are two), and bytes that must cross the
 * memory's bus when every operand is read once and every result written once. */
struct kernel_cost {
    double flops, bytes;
};

struct kernel_contender {
    const char *name;
    bool peer;                                                   /* of others; the rest is ours */
    int which;                                                   /* handed to run() */
    enum tk_status (*run)(void *state, int which, void *stream); /* one call; TK_ERR_UNSUPPORTED: not served here */
};

struct kernel_row {
    const char *name;
    const char *text;            /* a line for --list */
    const char *dimensions;      /* names of a shape's numbers: "MxNxK" */
    const char *shapes;          /* the default ones, separated by commas */
    const char *const *variants; /* ended by NULL: "NN", "NT", "TN" */
    bool memory_bound;           /* reported in GB/s, else in TFLOP/s */
    bool cuda, host;             /* the memories that it runs on */
    struct kernel_cost (*cost)(const struct bench_backend *backend, const struct kernel_shape *shape, int variant);
    /* Allocate and fill the operands in the backend's memory. `seed` draws other data. */
    enum tk_status (*open)(const struct bench_backend *backend, const struct kernel_shape *shape, int variant,
                           unsigned seed, void **state);
    void (*close)(void *state);
    /* Overwrite the results with NaN, so that what was not written shows. */
    enum tk_status (*poison)(void *state);
    /* The largest error over what rounding allows: not more than 1 is right. NaN is wrong. */
    enum tk_status (*check)(void *state, double *error);
    const struct kernel_contender *contenders; /* ended by a NULL name */
};

/* Ended by NULL. */
extern const struct kernel_row *const kernel_rows[];

extern const struct kernel_row kernel_matmul, kernel_matmul_ladder, kernel_matmul_tiles;
extern const struct kernel_row kernel_rmsnorm, kernel_rmsnorm_backward, kernel_layernorm, kernel_layernorm_backward,
    kernel_residual, kernel_softmax, kernel_softmax_backward, kernel_cross_entropy, kernel_swiglu,
    kernel_swiglu_backward, kernel_rotary, kernel_embedding, kernel_embedding_backward, kernel_adamw,
    kernel_gradient_norm;
extern const struct kernel_row kernel_attention, kernel_attention_backward;

/* ---- Options ----------------------------------------------------------------------------------------------------- */

struct kernel_options {
    const char *kernels, *shapes, *variants, *contenders; /* lists separated by commas; NULL: all, or the defaults */
    const char *json_path;
    enum tr_memory memory;
    int device, rounds, iterations; /* iterations 0: as many as make a batch of 2 ms */
    unsigned seed;
    bool list;
};

/* Parse or leave: with BENCH_EXIT_USAGE and a sentence, or with 0 after --help. */
struct kernel_options kernel_options_parse(int argc, char **argv);

/* Whether `name` is in a list; every name is in NULL. */
bool kernel_is_listed(const char *list, const char *name);

/* The i-th shape "4096x768x768" of a list; false past the end. A number may be followed by K (1024). What is no shape
 * sets count to 0. */
bool kernel_shape_at(const char *list, int i, struct kernel_shape *shape);
int kernel_dimension_count(const struct kernel_row *row);

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* What this machine can do, measured in this run: copying counts the bytes read and the bytes written. */
struct kernel_ceilings {
    double flops, bytes; /* a second; 0: not measured */
    const char *flops_by;
};

struct kernel_result {
    const struct kernel_contender *contender;
    enum bench_state state;
    struct bench_stats time; /* seconds a call */
    int iterations;          /* calls a batch */
    double error;            /* of the last check */
    char why[512];           /* BENCH_NOT_SERVED */
};

struct kernel_point {
    const struct kernel_row *row;
    struct kernel_shape shape;
    int variant;
    struct kernel_cost cost;
    double roof; /* what the ceilings allow: seconds; 0: not known */
    int ncontenders;
    struct kernel_result results[KERNEL_CONTENDERS];
};

/* Run all contenders of a point. A failure of the machinery, such as no memory, is a status with its sentence. */
enum tk_status kernel_point_run(const struct bench_backend *backend, const struct kernel_options *options,
                                struct kernel_point *point);

/* A measure of the copy rate, and of the rate of large matmuls. */
enum tk_status kernel_ceilings_measure(const struct bench_backend *backend, const struct kernel_options *options,
                                       struct kernel_ceilings *ceilings);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* The backend's memory; a failure is a status with a sentence that names `what`. */
enum tk_status kernel_alloc(const struct bench_backend *backend, const char *what, size_t bytes, void **memory);
enum tk_status kernel_move(const struct bench_backend *backend, void *to, const void *from, size_t bytes);
enum tk_status kernel_poison(const struct bench_backend *backend, void *memory, size_t bytes);

/* Normally distributed values (mean 0, deviation 1), `count` of them: the same for the same seed. The host can say what
 * stands at each place without reading memory. */
enum tk_status kernel_fill(const struct bench_backend *backend, void *memory, enum tk_datatype datatype, size_t count,
                           unsigned seed);
float kernel_value(enum tk_datatype datatype, size_t at, unsigned seed);

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Opened before anything is measured, complete or not there at the end. Functions return false and a sentence. */
bool kernel_json_open(const struct kernel_options *options, char *why, size_t size);
void kernel_json_begin(const struct bench_backend *backend, const struct kernel_options *options,
                       const struct kernel_ceilings *ceilings);
void kernel_json_point(const struct kernel_point *point);
bool kernel_json_finish(char *why, size_t size);

#endif

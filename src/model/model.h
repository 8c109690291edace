/*
 * model.h - what is known of a machine: alpha, beta, gamma and launch cost of each protocol, and the fitted curve of each
 * way to run a collective. Written by `treering tune` and `treering fit`, read by `auto`, predict and the reports.
 */
#ifndef TR_MODEL_H
#define TR_MODEL_H

#include "model/fit.h"
#include "treering.h"

#include <stdbool.h>
#include <stddef.h>

/* The machine and launch that a model describes. */
struct tr_machine {
    enum tr_memory memory; /* HOST or CUDA */
    char name[96];         /* of the GPU, or of the CPU */
    char host[64];         /* where it was measured; "" in a model made from cited figures */
    int nranks;
    int ranks_on_device; /* ranks that share a GPU; 0 on the host */
};

/*
 * The price of a schedule's parts under one protocol, for vectors of from_bytes to to_bytes (a machine whose caches matter
 * has several ranges; neighbouring ranges share no size):
 *
 *     T = launch + messages x alpha + steps x overhead + link bytes / beta + reduced bytes / gamma
 *
 * with messages on the critical path, steps carried out, bytes on the busiest link and bytes reduced by the busiest rank,
 * all four taken from the schedule (cost.h). The overhead is the o of LogP (Culler et al. 1993).
 */
struct tr_parameters {
    enum tr_protocol protocol;
    double from_bytes, to_bytes;
    struct tr_interval launch_us, alpha_us, overhead_us;
    struct tr_interval beta_gbps, gamma_gbps; /* INFINITY: costs nothing that can be told from the rest */
    int npoints;                              /* 0 in a model made from cited figures */
    double median_residual, largest_residual; /* |predicted / measured - 1| */
};

/* Between nodes: a message costs alpha_us more than inside; each of a node's links carries beta_gbps each
 * way, and its ranks share the links round robin. */
struct tr_between {
    double alpha_us, beta_gbps;
    int links_per_node; /* 0: nothing is known of several nodes */
};

/* One way to run a collective, and the time it takes. */
struct tr_curve {
    enum tr_collective collective;
    bool registered;
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    int channels; /* 0: as the library chose for each size */
    struct tr_fit fit;
};

struct tr_model {
    struct tr_machine machine;
    char origin[256]; /* where the figures come from: the runs that were fitted, or the sources cited */
    struct tr_between between;
    int ranks_per_node; /* of a node; for predictions over several */
    struct tr_parameters *parameters;
    int nparameters;
    struct tr_curve *curves;
    int ncurves;
};

/* Read a model file (JSON, described in docs/model.md). Errors: SYSTEM (cannot be read), ARGUMENT (with file, line and
 * field), MEMORY. The caller frees it with tr_model_free(). */
enum tr_status tr_model_read(const char *path, struct tr_model **model);
/* The same of text in memory; `path` is for sentences. Errors: ARGUMENT, MEMORY. */
enum tr_status tr_model_parse(const char *path, const char *text, size_t length, struct tr_model **model);
/* Write it: complete, or not at all. Errors: SYSTEM, MEMORY. */
enum tr_status tr_model_write(const struct tr_model *model, const char *path);
void tr_model_free(struct tr_model *model); /* NULL is allowed */

/* The parameters for a protocol and a vector's size: of the range that holds it, else of the nearest. NULL: none. */
const struct tr_parameters *tr_model_parameters(const struct tr_model *model, enum tr_protocol protocol, double bytes);

#endif

/*
 * closed.h - the time of a collective on the machine of simulate.h, by formula, for any number of ranks.
 *
 * What the simulator finds event by event follows for these algorithms from few things: how many messages come after each
 * other, what the busiest port or link carries, what the busiest rank adds up, and how far a pipeline overlaps. closed.c,
 * closed_recursive.c and closed_tree.c say how, algorithm by algorithm. tests/unit/closed_test.c compares the two.
 */
#ifndef TR_CLOSED_H
#define TR_CLOSED_H

#include "model/simulate.h"

/* Whether there is a formula: all-reduce, reduce-scatter and all-gather have one for every algorithm that serves them. */
bool tr_closed_exists(enum tr_collective collective, enum tr_algorithm algorithm);

/* What tr_schedule_layout() would say of the schedule, without building it; of nslots only whether there are any. */
struct tr_layout tr_closed_layout(const struct tr_schedule_spec *spec);

/* The time of the vector cut as `geometry` says. Errors: ARGUMENT (a machine out of range, fewer than 1 rank), UNSUPPORTED
 * (no formula), MEMORY. */
enum tr_status tr_closed_form(const struct tr_schedule_spec *spec, const struct tr_geometry *geometry,
                              size_t element_bytes, const struct tr_sim_machine *machine, double *us);

/* ---- Between the files of the formulas ------------------------------------------------------------------------- */

/* A machine and its ranks, as the formulas see them. */
struct tr_closed {
    const struct tr_sim_machine *m;
    enum tr_collective collective;
    enum tr_algorithm algorithm;
    bool remote, unique;
    int n;      /* ranks */
    int node;   /* ranks of a full node, at most n */
    int nnodes; /* the last one may be smaller */
    int links;  /* of a node */
    int npieces;
    double bytes; /* of a piece of the longest chunk */
    double last;  /* of its last piece */
};

static inline double tr_closed_us(double bytes, double gbps)
{
    return bytes / (gbps * 1e3);
}

/* closed_recursive.c: halving, doubling, or both. NAN when memory is short. */
double tr_closed_recursive(const struct tr_closed *c);

/* closed_tree.c: a piece's bytes go through one tree or two. NAN when memory is short. */
double tr_closed_tree(const struct tr_closed *c);

/* closed_tree.c: the largest lag in the schedule of one tree, or of two. */
size_t tr_closed_tree_lag(enum tr_algorithm algorithm, int nranks);

#endif

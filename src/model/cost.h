/*
 * cost.h - what a schedule costs, in units of the machine's alpha, beta and gamma: taken from the schedule, for any
 * algorithm, not typed in.
 */
#ifndef TR_COST_H
#define TR_COST_H

#include "collectives/comm.h"

/* T = launch + messages x alpha + steps x overhead + link_bytes / beta + reduced_bytes / gamma. */
struct tr_cost {
    double messages;      /* on the critical path, over all pieces of the vector */
    double steps;         /* of one chunk and one piece, that the busiest rank carries out one after the other */
    double link_bytes;    /* through the busiest port: what a rank sends, or what it receives, whichever is more */
    double reduced_bytes; /* second and later sources that the busiest rank adds up */
};

/* The cost of a vector cut as `geometry` says, elements of `element_bytes`. Errors: MEMORY, INTERNAL (a schedule that
 * deadlocks). */
enum tr_status tr_cost_of(const struct tr_schedule *schedule, const struct tr_geometry *geometry, size_t element_bytes,
                          struct tr_cost *cost);

#endif

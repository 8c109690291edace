/*
 * precedence.h - which step must come before which, and why: what plan.c turns into waits.
 *
 * Edges are kept rolled up: (rank, step, delta) -> (rank, step) stands for "piece p - delta of the one before piece p
 * of the other", for every p >= delta. Edges within a rank are not kept: its program order has them, or derive()
 * objects.
 */
#ifndef TR_PRECEDENCE_H
#define TR_PRECEDENCE_H

#include "collectives/plan.h"

struct tr_edge {
    int rank, step, delta; /* the earlier side; step may be TR_ENTRY */
    bool carried;          /* the message itself orders the two (LL): no wait needed */
    int next;              /* the next edge into the same node, or -1 */
};

/* A node is a step or a rank's exit. Rank r's step s is node first[r] + s, its exit the last one before first[r + 1].
 * */
struct tr_precedence {
    const struct tr_schedule *schedule;
    bool ll;
    int *first; /* nranks + 1 */
    int *head;  /* per node: its newest incoming edge, or -1 */
    struct tr_edge *edges;
    int nedges, capacity;
};

/* Errors: ARGUMENT (the schedule breaks a rule of schedule.h), MEMORY. Release in either case. */
enum tr_status tr_precedence_derive(struct tr_precedence *precedence, const struct tr_schedule *schedule, bool ll);
void tr_precedence_release(struct tr_precedence *precedence);

#endif

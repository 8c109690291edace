/*
 * plan.h - a schedule with its synchronisation; from it comes the program of each rank (program.h).
 *
 * Each ordered pair of ranks has one flag (per channel): the last position that the one rank announced to the other.
 * Positions grow along a rank's program:
 *
 *     entry 1,  step s in iteration i: 2 + i * stride + s,  exit: after all     (stride: steps of the longest rank)
 *
 * A wait is "until rank r has announced the position of its step s for piece p - delta"; since a rank works in order,
 * any later announcement satisfies it too. Data that has arrived and slots that are free again are the same thing.
 * Flags carry the call's epoch above the position: a wait takes a flag of this call's epoch, or of the next one (a peer is
 * never further ahead), so that a flag of an earlier call never satisfies it, however often the epochs have gone round.
 *
 * Mailboxes exist twice and alternate by the parity of the epoch. That is safe because every rank's exit follows every
 * rank's entry (check() proves it): whoever is in call n+1 knows that all have left call n-1.
 *
 * Under the LL protocols a message carries its own flag: the wait of a reader for a message in a BOX is left out. They
 * need a schedule in which every message has its own slot (spec.unique) and a vector that is one piece.
 */
#ifndef TR_PLAN_H
#define TR_PLAN_H

#include "collectives/program.h"
#include "collectives/schedule.h"

/* Step numbers that stand for a rank's entry into the call and for its exit. */
enum { TR_ENTRY = -1, TR_EXIT = -2 };

struct tr_wait {
    int rank;  /* whom */
    int step;  /* which of its steps, or TR_ENTRY */
    int delta; /* for piece p - delta; nothing to wait for while p < delta */
};

/* The synchronisation of one step (or of a rank's entry or exit). */
struct tr_sync {
    struct tr_wait *waits; /* before it */
    int nwaits;
    int *signals; /* after it: announce the position to these ranks */
    int nsignals;
};

struct tr_plan {
    const struct tr_schedule *schedule; /* not owned */
    enum tr_protocol protocol;          /* TR_PROTOCOL_LL stands for both LL protocols */
    int stride;                         /* positions an iteration */
    struct tr_rank_sync {
        struct tr_sync entry; /* signals only */
        struct tr_sync *steps;
        struct tr_sync exit; /* waits only, for the last piece (delta 0) */
    } * ranks;
};

/* Derive waits and signals from who reads what somebody else wrote. `protocol` is LL (LL128 is the same) or DIRECT. The
 * schedule must outlive the plan. Errors: ARGUMENT (a schedule that breaks the rules, or LL with reused slots), MEMORY. */
enum tr_status tr_plan_build(const struct tr_schedule *schedule, enum tr_protocol protocol, struct tr_plan **plan);
void tr_plan_free(struct tr_plan *plan);
struct tr_plan *tr_plan_copy(const struct tr_plan *plan, const struct tr_schedule *schedule);

/* Flatten one rank's part of a plan into one block; free() it. UNSUPPORTED past 255 ranks or 65535 of anything. */
enum tr_status tr_program_build(const struct tr_plan *plan, int rank, struct tr_program **program);

#endif

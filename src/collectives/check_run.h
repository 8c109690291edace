/*
 * check_run.h - one symbolic run of a plan: its events, its clocks and its memory.
 *
 * check_run.c carries the events out, check_memory.c says what they find and may do there.
 */
#ifndef TR_CHECK_RUN_H
#define TR_CHECK_RUN_H

#include "collectives/plan.h"

#include <stdint.h>

enum { TR_CHECK_MAX_RANKS = 64 };

/* A clock says for every rank how many of its events are known to be complete. Padded to a multiple of this. */
enum { TR_CLOCK_LANES = 8 };
typedef int16_t tr_tick;

/* A step of one piece, or a rank's entry or exit. `place` counts a rank's events from its entry, 0. */
struct tr_check_event {
    int rank, step, piece, place;
};

/* What a chunk holds: the reduction over `ranks` of their piece of that chunk. No ranks: nothing yet. */
struct tr_value {
    uint64_t ranks;
    int chunk, piece;
    bool final;
};

/* Who touched a location, and at which offset of the step's span. */
struct tr_touch {
    int rank, place, offset; /* rank -1: nobody */
    int next;
};

struct tr_location {
    struct tr_value value;
    struct tr_touch writer;
    int reads; /* the newest read since the last write, in tr_check_run.touches; -1: none */
    bool full; /* BOX: a message is there and not read yet */
};

/* Without lags a run of fewer pieces is the beginning of one with more, but for its exit. So one run serves them all:
 * each rank has the exits after 1, 2, .. npieces, which come last in its events and follow the last step of their last
 * piece. */
struct tr_check_run {
    const struct tr_plan *plan;
    const struct tr_schedule *s;
    int nranks, npieces, nexits;
    bool ll;
    int *first;      /* nranks + 1: each rank's first event in `events` */
    int *first_step; /* nranks + 1: each rank's first row in `place` */
    int *place;      /* rows of npieces: the place of a step's events */
    struct tr_check_event *events;
    int *done; /* per rank: events carried out */
    int width; /* ticks of a clock */
    tr_tick *clocks;
    struct tr_location *out; /* nranks x nchunks x npieces */
    struct tr_location *box; /* nranks x nslots x depth */
    struct tr_touch *touches;
    int ntouches, touches_capacity;
    int *last_visit; /* npieces x guest x host: events of guest up to that piece's last touch of host's IN or OUT */
};

static inline tr_tick *tr_check_clock(const struct tr_check_run *run, int rank, int place)
{
    return run->clocks + (size_t)(run->first[rank] + place) * (size_t)run->width;
}

static inline const struct tr_step *tr_check_step(const struct tr_check_run *run, const struct tr_check_event *event)
{
    return &run->s->ranks[event->rank].steps[event->step];
}

/* Record "rank R, step S, chunk C (piece P of N): ..." and return TR_ERR_ARGUMENT. */
enum tr_status tr_check_object(const struct tr_check_run *run, const struct tr_check_event *event, int chunk,
                               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The slot copy that `ref` names for the j-th chunk of the step. */
struct tr_location *tr_check_box(const struct tr_check_run *run, const struct tr_check_event *event,
                                 const struct tr_ref *ref, int offset);

/* Carry out the step: read, reduce, write, and object to whatever is wrong. Its clock holds what it waited for. */
enum tr_status tr_check_memory_step(struct tr_check_run *run, const struct tr_check_event *event);

/* After the run: every output is there, and every message was read. */
enum tr_status tr_check_memory_end(const struct tr_check_run *run);

/* Run the plan for `npieces` pieces; without lags for fewer ones too. */
enum tr_status tr_check_run(const struct tr_plan *plan, int npieces);

#endif

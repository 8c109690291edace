/*
 * program.c - flatten one rank's part of a plan into one relocatable block for the executors.
 */
#include "collectives/error.h"
#include "collectives/plan.h"

#include <stdlib.h>

_Static_assert(sizeof(struct tr_program) % 4 == 0 && sizeof(struct tr_program_step) % 4 == 0 &&
                   _Alignof(struct tr_program_wait) <= 4,
               "the arrays of a program follow one another without padding");

struct sizes {
    size_t nsteps, nwaits, nrefs, nsignals;
};

/* The block while it is filled: the arrays and how much of each is in use. */
struct writer {
    const struct tr_plan *plan;
    struct tr_program *program;
    struct tr_program_step *steps;
    struct tr_program_wait *waits;
    struct tr_program_ref *refs;
    uint8_t *signals;
    struct sizes used;
};

static void count_sync(struct sizes *sizes, const struct tr_sync *sync)
{
    sizes->nwaits += (size_t)sync->nwaits;
    sizes->nsignals += (size_t)sync->nsignals;
}

static struct sizes count(const struct tr_plan *plan, int rank)
{
    const struct tr_rank_steps *steps = &plan->schedule->ranks[rank];
    struct sizes sizes = {.nsteps = (size_t)steps->nsteps};
    for (int i = 0; i < steps->nsteps; i++) {
        count_sync(&sizes, &plan->ranks[rank].steps[i]);
        sizes.nrefs += (size_t)(steps->steps[i].nsrc + steps->steps[i].ndst);
    }
    count_sync(&sizes, &plan->ranks[rank].entry);
    count_sync(&sizes, &plan->ranks[rank].exit);
    return sizes;
}

static bool sync_fits(const struct tr_sync *sync)
{
    bool fits = sync->nwaits <= UINT8_MAX && sync->nsignals <= UINT8_MAX;
    for (int i = 0; i < sync->nwaits; i++)
        fits = fits && sync->waits[i].delta <= UINT8_MAX;
    return fits;
}

static bool steps_fit(const struct tr_plan *plan, int rank)
{
    const struct tr_rank_steps *steps = &plan->schedule->ranks[rank];
    bool fits = sync_fits(&plan->ranks[rank].entry) && sync_fits(&plan->ranks[rank].exit);
    for (int i = 0; i < steps->nsteps; i++)
        fits = fits && sync_fits(&plan->ranks[rank].steps[i]) && steps->steps[i].nsrc <= UINT8_MAX &&
               steps->steps[i].ndst <= UINT8_MAX;
    return fits;
}

/* Spans, lags and indices lie below nchunks, nslots and max_lag, so that these bounds cover them. */
static bool fits(const struct tr_plan *plan, int rank, const struct sizes *sizes)
{
    const struct tr_schedule *s = plan->schedule;
    return sizes->nsteps <= UINT16_MAX && sizes->nwaits <= UINT16_MAX && sizes->nrefs <= UINT16_MAX &&
           sizes->nsignals <= UINT16_MAX && s->nchunks <= UINT16_MAX && s->nslots <= UINT16_MAX &&
           s->max_lag <= UINT16_MAX && plan->stride <= UINT16_MAX && s->depth <= UINT8_MAX &&
           s->spec.nranks <= UINT8_MAX && steps_fit(plan, rank);
}

static uint8_t put_waits(struct writer *w, const struct tr_sync *sync)
{
    for (int i = 0; i < sync->nwaits; i++) {
        const struct tr_wait *wait = &sync->waits[i];
        struct tr_program_wait *to = &w->waits[w->used.nwaits++];
        to->rank = (uint8_t)wait->rank;
        to->delta = (uint8_t)wait->delta;
        to->entry = wait->step == TR_ENTRY;
        if (wait->step == TR_ENTRY)
            continue;
        int lag = w->plan->schedule->ranks[wait->rank].steps[wait->step].lag;
        to->offset = (lag - wait->delta) * w->plan->stride + wait->step;
    }
    return (uint8_t)sync->nwaits;
}

static uint8_t put_signals(struct writer *w, const struct tr_sync *sync)
{
    for (int i = 0; i < sync->nsignals; i++)
        w->signals[w->used.nsignals++] = (uint8_t)sync->signals[i];
    return (uint8_t)sync->nsignals;
}

static void put_refs(struct writer *w, const struct tr_ref *refs, int n)
{
    for (int i = 0; i < n; i++)
        w->refs[w->used.nrefs++] = (struct tr_program_ref){
            .rank = (uint8_t)refs[i].rank, .buffer = (uint8_t)refs[i].buffer, .index = (uint16_t)refs[i].index};
}

static void put_step(struct writer *w, const struct tr_step *step, const struct tr_sync *sync)
{
    struct tr_program_step *to = &w->steps[w->used.nsteps++];
    to->chunk = (uint16_t)step->chunk;
    to->span = (uint16_t)step->span;
    to->lag = (uint16_t)step->lag;
    to->nsrc = (uint8_t)step->nsrc;
    to->ndst = (uint8_t)step->ndst;
    to->final = step->final;
    to->ref = (uint16_t)w->used.nrefs;
    to->wait = (uint16_t)w->used.nwaits;
    to->signal = (uint16_t)w->used.nsignals;
    put_refs(w, &w->plan->schedule->refs[step->ref], step->nsrc + step->ndst);
    to->nwait = put_waits(w, sync);
    to->nsignal = put_signals(w, sync);
}

static struct tr_program *program_new(const struct tr_schedule *schedule, int rank, const struct sizes *sizes)
{
    size_t bytes = sizeof(struct tr_program) + sizes->nsteps * sizeof(struct tr_program_step) +
                   sizes->nwaits * sizeof(struct tr_program_wait) + sizes->nrefs * sizeof(struct tr_program_ref) +
                   sizes->nsignals;
    bytes = (bytes + 7) / 8 * 8;
    struct tr_program *program = calloc(1, bytes);
    if (!program)
        return NULL;
    program->bytes = (uint32_t)bytes;
    program->nsteps = (uint16_t)sizes->nsteps;
    program->nwaits = (uint16_t)sizes->nwaits;
    program->nrefs = (uint16_t)sizes->nrefs;
    program->nsignals = (uint16_t)sizes->nsignals;
    program->nchunks = (uint16_t)schedule->nchunks;
    program->nslots = (uint16_t)schedule->nslots;
    program->max_lag = (uint16_t)schedule->max_lag;
    program->depth = (uint8_t)schedule->depth;
    program->remote = tr_schedule_is_remote(schedule);
    program->nranks = (uint8_t)schedule->spec.nranks;
    program->rank = (uint8_t)rank;
    return program;
}

static void fill(struct writer *w, const struct tr_rank_steps *steps, const struct tr_rank_sync *sync)
{
    for (int i = 0; i < steps->nsteps; i++)
        put_step(w, &steps->steps[i], &sync->steps[i]);
    w->program->entry_signal = (uint16_t)w->used.nsignals;
    w->program->entry_nsignal = put_signals(w, &sync->entry);
    w->program->exit_wait = (uint16_t)w->used.nwaits;
    w->program->exit_nwait = put_waits(w, &sync->exit);
}

enum tr_status tr_program_build(const struct tr_plan *plan, int rank, struct tr_program **program)
{
    if (rank < 0 || rank >= plan->schedule->spec.nranks)
        return tr_error(TR_ERR_ARGUMENT, "rank %d is not in 0..%d", rank, plan->schedule->spec.nranks - 1);
    struct sizes sizes = count(plan, rank);
    if (!fits(plan, rank, &sizes))
        return tr_error(
            TR_ERR_UNSUPPORTED,
            "rank %d's program of %zu steps, %zu waits and %zu references over %d ranks is past the limits of "
            "255 ranks or 65535 of anything",
            rank, sizes.nsteps, sizes.nwaits, sizes.nrefs, plan->schedule->spec.nranks);
    struct tr_program *p = program_new(plan->schedule, rank, &sizes);
    if (!p)
        return tr_error(TR_ERR_MEMORY, "no host memory for rank %d's program; free some and try again", rank);
    p->stride = (uint16_t)plan->stride;
    struct writer w = {.plan = plan, .program = p};
    w.steps = (struct tr_program_step *)(void *)(p + 1);
    w.waits = (struct tr_program_wait *)(void *)(w.steps + sizes.nsteps);
    w.refs = (struct tr_program_ref *)(void *)(w.waits + sizes.nwaits);
    w.signals = (uint8_t *)(w.refs + sizes.nrefs);
    fill(&w, &plan->schedule->ranks[rank], &plan->ranks[rank]);
    *program = p;
    return TR_OK;
}

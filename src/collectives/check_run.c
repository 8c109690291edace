/*
 * check_run.c - carry out a plan's events, each rank as far as its waits allow, with vector clocks.
 *
 * A wait gives the clock of the very step that it names: the least that it guarantees, even if the other rank has long
 * gone on. So what one run finds holds for every interleaving.
 */
#include "collectives/check_run.h"

#include "collectives/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- The run's own memory ---------------------------------------------------------------------------------------- */

static void release(struct tr_check_run *run)
{
    free(run->first);
    free(run->first_step);
    free(run->place);
    free(run->events);
    free(run->done);
    free(run->clocks);
    free(run->out);
    free(run->box);
    free(run->touches);
    free(run->last_visit);
}

static struct tr_location *locations(size_t n)
{
    struct tr_location *array = malloc((n + 1) * sizeof *array);
    for (size_t i = 0; array && i < n; i++)
        array[i] = (struct tr_location){.writer = {.rank = -1}, .reads = -1};
    return array;
}

static bool allocate(struct tr_check_run *run)
{
    size_t n = (size_t)run->nranks, pieces = (size_t)run->npieces, nsteps = 0;
    for (int rank = 0; rank < run->nranks; rank++)
        nsteps += (size_t)run->s->ranks[rank].nsteps;
    size_t nevents = nsteps * pieces + (1 + (size_t)run->nexits) * n;
    run->width = (run->nranks + TR_CLOCK_LANES - 1) / TR_CLOCK_LANES * TR_CLOCK_LANES;
    run->first = malloc((n + 1) * sizeof *run->first);
    run->first_step = malloc((n + 1) * sizeof *run->first_step);
    run->place = malloc((nsteps * pieces + 1) * sizeof *run->place);
    run->events = malloc(nevents * sizeof *run->events);
    run->done = calloc(n, sizeof *run->done);
    run->clocks = malloc(nevents * (size_t)run->width * sizeof *run->clocks);
    run->out = locations(n * (size_t)run->s->nchunks * pieces);
    run->box = locations(n * (size_t)run->s->nslots * (size_t)run->s->depth);
    run->last_visit = calloc(pieces * n * n, sizeof *run->last_visit);
    return run->first && run->first_step && run->place && run->events && run->done && run->clocks && run->out &&
           run->box && run->last_visit;
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

static void add_event(struct tr_check_run *run, int rank, int step, int piece)
{
    int place = run->first[rank + 1]++ - run->first[rank];
    run->events[run->first[rank] + place] =
        (struct tr_check_event){.rank = rank, .step = step, .piece = piece, .place = place};
    if (step >= 0)
        run->place[(run->first_step[rank] + step) * run->npieces + piece] = place;
}

static void unroll(struct tr_check_run *run)
{
    run->first[0] = run->first_step[0] = 0;
    for (int rank = 0; rank < run->nranks; rank++) {
        const struct tr_rank_steps *steps = &run->s->ranks[rank];
        run->first_step[rank + 1] = run->first_step[rank] + steps->nsteps;
        run->first[rank + 1] = run->first[rank];
        add_event(run, rank, TR_ENTRY, 0);
        for (int i = 0; i < run->npieces + run->s->max_lag; i++)
            for (int step = 0; step < steps->nsteps; step++) {
                int piece = i - steps->steps[step].lag;
                if (piece >= 0 && piece < run->npieces)
                    add_event(run, rank, step, piece);
            }
        for (int piece = run->npieces - run->nexits; piece < run->npieces; piece++)
            add_event(run, rank, TR_EXIT, piece);
    }
}

static const struct tr_sync *sync_of(const struct tr_check_run *run, const struct tr_check_event *event)
{
    const struct tr_rank_sync *rank = &run->plan->ranks[event->rank];
    if (event->step == TR_ENTRY)
        return &rank->entry;
    return event->step == TR_EXIT ? &rank->exit : &rank->steps[event->step];
}

/* The place of the event that the wait is for, -1 when there is nothing to wait for. */
static int wait_place(const struct tr_check_run *run, const struct tr_check_event *event, const struct tr_wait *wait)
{
    if (wait->step == TR_ENTRY)
        return 0;
    if (event->piece < wait->delta)
        return -1;
    return run->place[(run->first_step[wait->rank] + wait->step) * run->npieces + event->piece - wait->delta];
}

/* The wait that the event stands at, or NULL. */
static const struct tr_wait *open_wait(const struct tr_check_run *run, const struct tr_check_event *event)
{
    const struct tr_sync *sync = sync_of(run, event);
    for (int i = 0; i < sync->nwaits; i++)
        if (wait_place(run, event, &sync->waits[i]) >= run->done[sync->waits[i].rank])
            return &sync->waits[i];
    return NULL;
}

static void join(tr_tick *restrict clock, const tr_tick *restrict other, int width)
{
    for (int block = 0; block < width; block += TR_CLOCK_LANES)
        for (int i = block; i < block + TR_CLOCK_LANES; i++)
            clock[i] = clock[i] > other[i] ? clock[i] : other[i];
}

static void start_clock(const struct tr_check_run *run, const struct tr_check_event *event)
{
    tr_tick *clock = tr_check_clock(run, event->rank, event->place);
    int before = event->step == TR_EXIT ? run->s->ranks[event->rank].nsteps * (event->piece + 1) : event->place - 1;
    if (event->step == TR_ENTRY)
        memset(clock, 0, (size_t)run->width * sizeof *clock);
    else
        memcpy(clock, tr_check_clock(run, event->rank, before), (size_t)run->width * sizeof *clock);
    const struct tr_sync *sync = sync_of(run, event);
    for (int i = 0; i < sync->nwaits; i++) {
        int place = wait_place(run, event, &sync->waits[i]);
        if (place >= 0)
            join(clock, tr_check_clock(run, sync->waits[i].rank, place), run->width);
    }
}

/* ---- LL: a message carries its flag, and so its sender's clock --------------------------------------------------- */

/* The LL message that the event lacks, with its offset in the span, or NULL. Joins the clocks of those that are there.
 * */
static const struct tr_ref *take_messages(const struct tr_check_run *run, const struct tr_check_event *event,
                                          int *offset, tr_tick *clock)
{
    const struct tr_step *t = tr_check_step(run, event);
    const struct tr_ref *src = &run->s->refs[t->ref];
    for (int i = 0; i < t->nsrc; i++)
        for (*offset = 0; *offset < t->span && src[i].buffer == TR_BOX; ++*offset) {
            const struct tr_touch *writer = &tr_check_box(run, event, &src[i], *offset)->writer;
            if (writer->rank < 0)
                return &src[i];
            if (clock)
                join(clock, tr_check_clock(run, writer->rank, writer->place), run->width);
        }
    return NULL;
}

static bool lacks_message(const struct tr_check_run *run, const struct tr_check_event *event)
{
    int offset;
    return run->ll && event->step >= 0 && take_messages(run, event, &offset, NULL);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static enum tr_status carry_out(struct tr_check_run *run, const struct tr_check_event *event)
{
    tr_tick *clock = tr_check_clock(run, event->rank, event->place);
    enum tr_status status = TR_OK;
    int offset;
    start_clock(run, event);
    if (event->step >= 0) {
        if (run->ll)
            take_messages(run, event, &offset, clock);
        status = tr_check_memory_step(run, event);
    }
    clock[event->rank] = (tr_tick)(event->place + 1);
    return status;
}

static enum tr_status run_rank(struct tr_check_run *run, int rank, bool *progress)
{
    for (int end = run->first[rank + 1] - run->first[rank]; run->done[rank] < end; run->done[rank]++) {
        const struct tr_check_event *event = &run->events[run->first[rank] + run->done[rank]];
        if (open_wait(run, event) || lacks_message(run, event))
            return TR_OK;
        enum tr_status status = carry_out(run, event);
        if (status)
            return status;
        *progress = true;
    }
    return TR_OK;
}

static enum tr_status run_all(struct tr_check_run *run)
{
    bool progress = true;
    while (progress) {
        progress = false;
        for (int rank = 0; rank < run->nranks; rank++) {
            enum tr_status status = run_rank(run, rank, &progress);
            if (status)
                return status;
        }
    }
    return TR_OK;
}

/* ---- Verdicts ---------------------------------------------------------------------------------------------------- */

/* An exit, for the sentences, as the rank's last step and its chunk. */
static enum tr_status object_to_exit(const struct tr_check_run *run, int rank, const char *what, int other)
{
    const struct tr_rank_steps *steps = &run->s->ranks[rank];
    int step = steps->nsteps - 1;
    return tr_error(TR_ERR_ARGUMENT, "rank %d may leave after its step %d (chunk %d) %s rank %d: no wait orders them",
                    rank, step, step < 0 ? -1 : steps->steps[step].chunk, what, other);
}

static enum tr_status object_to_standstill(const struct tr_check_run *run, const struct tr_check_event *event)
{
    const struct tr_wait *wait = open_wait(run, event);
    const struct tr_rank_steps *steps = &run->s->ranks[event->rank];
    struct tr_check_event at = *event;
    if (at.step == TR_EXIT)
        at.step = steps->nsteps - 1;
    int chunk = at.step < 0 ? -1 : steps->steps[at.step].chunk, offset = 0;
    if (wait)
        return tr_check_object(run, &at, chunk, "%swaits for ever for rank %d's step %d: a deadlock",
                               event->step == TR_EXIT ? "the rank's exit after it " : "", wait->rank, wait->step);
    const struct tr_ref *ref = take_messages(run, event, &offset, NULL);
    return tr_check_object(run, &at, chunk + offset, "waits for ever for a message in BOX slot %d",
                           ref->index + offset);
}

static enum tr_status check_complete(const struct tr_check_run *run)
{
    for (int rank = 0; rank < run->nranks; rank++)
        if (run->first[rank] + run->done[rank] < run->first[rank + 1])
            return object_to_standstill(run, &run->events[run->first[rank] + run->done[rank]]);
    return TR_OK;
}

/* Events of `guest` up to its last touch of host's user memory in a run that ends with `piece`. */
static int last_visit(const struct tr_check_run *run, int guest, int host, int piece)
{
    int last = 0;
    for (int p = 0; p <= piece; p++) {
        int visit = run->last_visit[(p * run->nranks + guest) * run->nranks + host];
        last = visit > last ? visit : last;
    }
    return last;
}

static enum tr_status check_exit(const struct tr_check_run *run, const struct tr_check_event *exit)
{
    const tr_tick *clock = tr_check_clock(run, exit->rank, exit->place);
    for (int other = 0; other < run->nranks; other++) {
        if (clock[other] < 1)
            return object_to_exit(run, exit->rank, "before the entry of", other);
        if (clock[other] < last_visit(run, other, exit->rank, exit->piece))
            return object_to_exit(run, exit->rank, "while its IN or OUT is still in use by", other);
    }
    return TR_OK;
}

static enum tr_status check_exits(const struct tr_check_run *run)
{
    enum tr_status status = TR_OK;
    for (int rank = 0; rank < run->nranks; rank++)
        for (int i = run->first[rank + 1] - run->nexits; i < run->first[rank + 1] && !status; i++)
            status = check_exit(run, &run->events[i]);
    return status;
}

enum tr_status tr_check_run(const struct tr_plan *plan, int npieces)
{
    struct tr_check_run run = {.plan = plan,
                               .s = plan->schedule,
                               .nranks = plan->schedule->spec.nranks,
                               .npieces = npieces,
                               .nexits = plan->schedule->max_lag ? 1 : npieces,
                               .ll = plan->protocol == TR_PROTOCOL_LL};
    enum tr_status status = TR_OK;
    if (!allocate(&run))
        status = tr_error(TR_ERR_MEMORY, "no host memory to check a schedule; free some and try again");
    if (!status) {
        unroll(&run);
        status = run_all(&run);
    }
    if (!status)
        status = check_complete(&run);
    if (!status)
        status = tr_check_memory_end(&run);
    if (!status)
        status = check_exits(&run);
    release(&run);
    return status;
}

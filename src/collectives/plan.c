/*
 * plan.c - from a schedule to waits and signals.
 *
 * The steps are unrolled for 1, 2, .. pieces into events, a rank's entry, its steps piece by piece, and its exit. The
 * edges of precedence.h and each rank's program order make them a directed acyclic graph (or a deadlock), and the waits
 * are that graph's transitive reduction, which is unique: an edge is a wait unless another path implies it. Paths are
 * found with vector clocks: clock(e)[r] is how many events of rank r are known to be complete once e is.
 */
#include "collectives/plan.h"

#include "collectives/error.h"
#include "collectives/precedence.h"

#include <stdlib.h>
#include <string.h>

/* ---- The plan's own memory --------------------------------------------------------------------------------------- */

static enum tr_status out_of_memory(void)
{
    return tr_error(TR_ERR_MEMORY, "no host memory for the waits of a schedule; free some and try again");
}

static struct tr_plan *plan_new(const struct tr_schedule *schedule, enum tr_protocol protocol)
{
    struct tr_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->schedule = schedule;
    plan->protocol = protocol;
    plan->stride = 1;
    plan->ranks = calloc((size_t)schedule->spec.nranks, sizeof *plan->ranks);
    if (!plan->ranks)
        goto free_plan;
    for (int rank = 0; rank < schedule->spec.nranks; rank++) {
        int nsteps = schedule->ranks[rank].nsteps;
        if (nsteps > plan->stride)
            plan->stride = nsteps;
        plan->ranks[rank].steps = calloc((size_t)nsteps + 1, sizeof(struct tr_sync));
        if (!plan->ranks[rank].steps)
            goto free_plan;
    }
    return plan;
free_plan:
    tr_plan_free(plan);
    return NULL;
}

static void sync_release(struct tr_sync *sync)
{
    free(sync->waits);
    free(sync->signals);
}

void tr_plan_free(struct tr_plan *plan)
{
    if (!plan)
        return;
    for (int rank = 0; plan->ranks && rank < plan->schedule->spec.nranks; rank++) {
        struct tr_rank_sync *r = &plan->ranks[rank];
        for (int step = 0; r->steps && step < plan->schedule->ranks[rank].nsteps; step++)
            sync_release(&r->steps[step]);
        sync_release(&r->entry);
        sync_release(&r->exit);
        free(r->steps);
    }
    free(plan->ranks);
    free(plan);
}

/* A block of n elements copied from `from`; NULL for n == 0 or when memory is short. */
static void *duplicate(const void *from, size_t n, size_t size)
{
    void *copy = n ? malloc(n * size) : NULL;
    if (copy)
        memcpy(copy, from, n * size);
    return copy;
}

static bool sync_copy(struct tr_sync *to, const struct tr_sync *from)
{
    to->waits = duplicate(from->waits, (size_t)from->nwaits, sizeof *from->waits);
    to->signals = duplicate(from->signals, (size_t)from->nsignals, sizeof *from->signals);
    to->nwaits = from->nwaits;
    to->nsignals = from->nsignals;
    return (to->waits || !to->nwaits) && (to->signals || !to->nsignals);
}

struct tr_plan *tr_plan_copy(const struct tr_plan *plan, const struct tr_schedule *schedule)
{
    struct tr_plan *copy = plan_new(schedule, plan->protocol);
    if (!copy)
        return NULL;
    bool ok = true;
    copy->stride = plan->stride;
    for (int rank = 0; rank < schedule->spec.nranks; rank++) {
        struct tr_rank_sync *to = &copy->ranks[rank], *from = &plan->ranks[rank];
        ok = sync_copy(&to->entry, &from->entry) && sync_copy(&to->exit, &from->exit) && ok;
        for (int step = 0; step < schedule->ranks[rank].nsteps; step++)
            ok = sync_copy(&to->steps[step], &from->steps[step]) && ok;
    }
    if (ok)
        return copy;
    tr_plan_free(copy);
    return NULL;
}

/* The array of n elements with room for one more: it grows at powers of two. NULL when memory is short. */
static void *with_room(void *array, int n, size_t size)
{
    bool full = (n & (n - 1)) == 0;
    return full ? realloc(array, (size_t)(n ? 2 * n : 1) * size) : array;
}

static enum tr_status wait_add(struct tr_sync *sync, struct tr_wait wait)
{
    for (int i = 0; i < sync->nwaits; i++) {
        const struct tr_wait *w = &sync->waits[i];
        if (w->rank == wait.rank && w->step == wait.step && w->delta == wait.delta)
            return TR_OK;
    }
    struct tr_wait *waits = with_room(sync->waits, sync->nwaits, sizeof *waits);
    if (!waits)
        return out_of_memory();
    sync->waits = waits;
    sync->waits[sync->nwaits++] = wait;
    return TR_OK;
}

static enum tr_status signal_add(struct tr_sync *sync, int rank)
{
    for (int i = 0; i < sync->nsignals; i++)
        if (sync->signals[i] == rank)
            return TR_OK;
    int *signals = with_room(sync->signals, sync->nsignals, sizeof *signals);
    if (!signals)
        return out_of_memory();
    sync->signals = signals;
    sync->signals[sync->nsignals++] = rank;
    return TR_OK;
}

/* ---- Unrolling --------------------------------------------------------------------------------------------------- */

enum { CLOCK_LANES = 4 };

/* Rank r's events are numbered from first[r] on: entry, steps in program order, exit. `at` finds a step's event: the
 * place of (node, piece) in its rank, node as in precedence.h.
 *
 * Without lags a run of fewer pieces is the beginning of one with more, but for its exit. So one run serves them all:
 * it has the exits after 1, 2, .. npieces, each of which follows the last step of its last piece. */
struct unrolled {
    const struct tr_precedence *precedence;
    struct tr_plan *plan;
    int nranks, npieces, nexits;
    int width;              /* of a clock: nranks, padded to whole lanes */
    int *first;             /* nranks + 1 */
    int *at;                /* nodes x npieces */
    int *done;              /* per rank: events processed */
    struct tr_wait *events; /* whose the event is: rank, step, and piece under the name of delta */
    int *clocks;            /* events x width */
};

static void unrolled_release(struct unrolled *u)
{
    free(u->first);
    free(u->at);
    free(u->done);
    free(u->events);
    free(u->clocks);
}

static enum tr_status unrolled_allocate(struct unrolled *u)
{
    const struct tr_precedence *p = u->precedence;
    size_t n = (size_t)u->nranks, pieces = (size_t)u->npieces, nodes = (size_t)p->first[u->nranks];
    size_t events = (nodes - n) * pieces + (1 + (size_t)u->nexits) * n;
    u->first = malloc((n + 1) * sizeof *u->first);
    u->at = malloc(nodes * pieces * sizeof *u->at);
    u->done = calloc(n, sizeof *u->done);
    u->events = malloc(events * sizeof *u->events);
    u->clocks = malloc(events * (size_t)u->width * sizeof *u->clocks);
    return u->first && u->at && u->done && u->events && u->clocks ? TR_OK : out_of_memory();
}

static void unroll_rank(struct unrolled *u, int rank)
{
    const struct tr_schedule *s = u->precedence->schedule;
    int first = u->first[rank], next = first, nsteps = s->ranks[rank].nsteps;
    u->events[next++] = (struct tr_wait){.rank = rank, .step = TR_ENTRY};
    for (int i = 0; i < u->npieces + s->max_lag; i++)
        for (int step = 0; step < nsteps; step++) {
            int piece = i - s->ranks[rank].steps[step].lag;
            if (piece < 0 || piece >= u->npieces)
                continue;
            u->at[(u->precedence->first[rank] + step) * u->npieces + piece] = next - first;
            u->events[next++] = (struct tr_wait){.rank = rank, .step = step, .delta = piece};
        }
    for (int piece = u->npieces - u->nexits; piece < u->npieces; piece++)
        u->events[next++] = (struct tr_wait){.rank = rank, .step = TR_EXIT, .delta = piece};
    u->first[rank + 1] = next;
}

/* ---- The reduction ----------------------------------------------------------------------------------------------- */

/* The event that `edge` puts before piece `piece`, by its place in its rank. */
static int edge_source(const struct unrolled *u, const struct tr_edge *edge, int piece)
{
    if (edge->step == TR_ENTRY)
        return 0;
    return u->at[(u->precedence->first[edge->rank] + edge->step) * u->npieces + piece - edge->delta];
}

static int event_node(const struct unrolled *u, const struct tr_wait *event)
{
    if (event->step == TR_EXIT)
        return u->precedence->first[event->rank + 1] - 1;
    return u->precedence->first[event->rank] + event->step;
}

static int newest_edge(const struct unrolled *u, const struct tr_wait *event)
{
    return event->step == TR_ENTRY ? -1 : u->precedence->head[event_node(u, event)];
}

static bool ready(const struct unrolled *u, const struct tr_wait *event)
{
    const struct tr_edge *edges = u->precedence->edges;
    for (int e = newest_edge(u, event); e >= 0; e = edges[e].next)
        if (edges[e].delta <= event->delta && edge_source(u, &edges[e], event->delta) >= u->done[edges[e].rank])
            return false;
    return true;
}

static int *clock_at(const struct unrolled *u, int rank, int place)
{
    return u->clocks + (size_t)(u->first[rank] + place) * (size_t)u->width;
}

static void clock_join(int *restrict clock, const int *restrict other, int width)
{
    for (int block = 0; block < width; block += CLOCK_LANES)
        for (int i = block; i < block + CLOCK_LANES; i++)
            clock[i] = clock[i] > other[i] ? clock[i] : other[i];
}

static void clock_start(const struct unrolled *u, const struct tr_wait *event, int place, int *clock)
{
    size_t bytes = (size_t)u->width * sizeof *clock;
    int nsteps = u->precedence->schedule->ranks[event->rank].nsteps;
    if (event->step == TR_ENTRY)
        memset(clock, 0, bytes);
    else
        memcpy(clock, clock_at(u, event->rank, event->step == TR_EXIT ? nsteps * (event->delta + 1) : place - 1),
               bytes);
}

/* clock = what is known before the event without waiting for anybody in particular: the past of its predecessor and
 * that of every event that an edge names, those events themselves left out unless the message carries them. */
static void join_pasts(const struct unrolled *u, const struct tr_wait *event, int *clock)
{
    const struct tr_edge *edges = u->precedence->edges;
    for (int e = newest_edge(u, event); e >= 0; e = edges[e].next) {
        const struct tr_edge *edge = &edges[e];
        if (edge->delta > event->delta || edge->step == TR_ENTRY)
            continue; /* nothing to wait for; nothing before an entry */
        int source = edge_source(u, edge, event->delta), known = clock[edge->rank];
        int seen = source + (edge->carried ? 1 : 0);
        clock_join(clock, clock_at(u, edge->rank, source), u->width);
        clock[edge->rank] = known > seen ? known : seen;
    }
}

static struct tr_sync *event_sync(const struct unrolled *u, const struct tr_wait *event)
{
    struct tr_rank_sync *rank = &u->plan->ranks[event->rank];
    return event->step == TR_EXIT ? &rank->exit : &rank->steps[event->step];
}

/* Set the event's clock and record the waits that no other path implies. */
static enum tr_status process(struct unrolled *u, int number)
{
    const struct tr_wait *event = &u->events[number];
    const struct tr_edge *edges = u->precedence->edges;
    int place = number - u->first[event->rank];
    int *clock = clock_at(u, event->rank, place);
    clock_start(u, event, place, clock);
    join_pasts(u, event, clock);
    for (int e = newest_edge(u, event); e >= 0; e = edges[e].next) {
        if (edges[e].delta > event->delta || edge_source(u, &edges[e], event->delta) < clock[edges[e].rank])
            continue;
        struct tr_wait wait = {.rank = edges[e].rank, .step = edges[e].step, .delta = edges[e].delta};
        enum tr_status status = wait_add(event_sync(u, event), wait);
        if (status)
            return status;
    }
    for (int e = newest_edge(u, event); e >= 0; e = edges[e].next) {
        int known = edges[e].delta > event->delta ? 0 : edge_source(u, &edges[e], event->delta) + 1;
        if (clock[edges[e].rank] < known)
            clock[edges[e].rank] = known;
    }
    clock[event->rank] = place + 1;
    return TR_OK;
}

static enum tr_status deadlock(const struct unrolled *u)
{
    int rank = 0;
    while (u->first[rank] + u->done[rank] == u->first[rank + 1])
        rank++;
    const struct tr_wait *event = &u->events[u->first[rank] + u->done[rank]];
    const struct tr_rank_steps *steps = &u->precedence->schedule->ranks[event->rank];
    int step = event->step == TR_EXIT ? steps->nsteps - 1 : event->step;
    return tr_error(
        TR_ERR_ARGUMENT,
        "rank %d, step %d (chunk %d, piece %d) depends on a step of another rank that depends on it in turn: "
        "the schedule deadlocks",
        event->rank, step, step < 0 ? -1 : steps->steps[step].chunk, event->delta);
}

/* Process every rank's events as far as their edges allow, round and round. */
static enum tr_status reduce(struct unrolled *u)
{
    bool progress = true, complete = false;
    while (progress) {
        progress = false;
        complete = true;
        for (int rank = 0; rank < u->nranks; rank++) {
            int number = u->first[rank] + u->done[rank], end = u->first[rank + 1];
            for (; number < end && ready(u, &u->events[number]); number++, u->done[rank]++) {
                enum tr_status status = process(u, number);
                if (status)
                    return status;
                progress = true;
            }
            complete = complete && number == end;
        }
    }
    return complete ? TR_OK : deadlock(u);
}

static enum tr_status add_waits(struct tr_plan *plan, const struct tr_precedence *precedence, int npieces)
{
    int nranks = plan->schedule->spec.nranks;
    struct unrolled u = {.precedence = precedence,
                         .plan = plan,
                         .nranks = nranks,
                         .npieces = npieces,
                         .nexits = plan->schedule->max_lag ? 1 : npieces,
                         .width = (nranks + CLOCK_LANES - 1) / CLOCK_LANES * CLOCK_LANES};
    enum tr_status status = unrolled_allocate(&u);
    if (!status) {
        u.first[0] = 0;
        for (int rank = 0; rank < u.nranks; rank++)
            unroll_rank(&u, rank);
        status = reduce(&u);
    }
    unrolled_release(&u);
    return status;
}

/* ---- Signals, and all of it -------------------------------------------------------------------------------------- */

static enum tr_status add_signals_for(struct tr_plan *plan, int rank, const struct tr_sync *sync)
{
    enum tr_status status = TR_OK;
    for (int i = 0; i < sync->nwaits && !status; i++) {
        struct tr_rank_sync *source = &plan->ranks[sync->waits[i].rank];
        int step = sync->waits[i].step;
        status = signal_add(step == TR_ENTRY ? &source->entry : &source->steps[step], rank);
    }
    return status;
}

static enum tr_status add_signals(struct tr_plan *plan)
{
    for (int rank = 0; rank < plan->schedule->spec.nranks; rank++) {
        enum tr_status status = add_signals_for(plan, rank, &plan->ranks[rank].exit);
        for (int step = 0; step < plan->schedule->ranks[rank].nsteps && !status; step++)
            status = add_signals_for(plan, rank, &plan->ranks[rank].steps[step]);
        if (status)
            return status;
    }
    return TR_OK;
}

/* Enough pieces for every pattern: a path between a step for piece p - depth and one for piece p stays within the
 * iterations of the two, so it touches no piece further than max_lag away from them. Fewer pieces lack the paths
 * through their neighbours and may need a wait more. LL is always one piece. */
static int most_pieces(const struct tr_schedule *schedule, bool ll)
{
    return ll ? 1 : schedule->depth + 2 * schedule->max_lag + 1;
}

enum tr_status tr_plan_build(const struct tr_schedule *schedule, enum tr_protocol protocol, struct tr_plan **plan)
{
    bool ll = protocol == TR_PROTOCOL_LL || protocol == TR_PROTOCOL_LL128;
    if (!ll && protocol != TR_PROTOCOL_DIRECT)
        return tr_error(TR_ERR_ARGUMENT, "a plan is for protocol LL, LL128 or direct, not %d", (int)protocol);
    struct tr_plan *built = NULL;
    struct tr_precedence precedence;
    enum tr_status status = tr_precedence_derive(&precedence, schedule, ll);
    if (status)
        goto release_precedence;
    built = plan_new(schedule, ll ? TR_PROTOCOL_LL : TR_PROTOCOL_DIRECT);
    if (!built)
        status = out_of_memory();
    int most = most_pieces(schedule, ll);
    for (int npieces = schedule->max_lag ? 1 : most; npieces <= most && !status; npieces++)
        status = add_waits(built, &precedence, npieces);
    if (!status)
        status = add_signals(built);
    if (status) {
        tr_plan_free(built);
        goto release_precedence;
    }
    *plan = built;
release_precedence:
    tr_precedence_release(&precedence);
    return status;
}

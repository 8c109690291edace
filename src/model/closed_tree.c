/*
 * closed_tree.c - the time of an all-reduce by one binary tree, or by two, by formula.
 *
 *     T = T1 + (pieces - 1) x period
 *
 * T1: one piece goes up and down. In these schedules every message goes from a step of lag l to one of lag l + 1, so that
 * the steps are walked once, lag by lag, with what each port and link still has to carry.
 *
 * period: the most that a port, a link or a rank (it adds up and sends) has to do for every piece; or what a way up the
 * tree and down again takes, by the iterations that it spans: a rank's up is followed, in its order, by its down of an
 * earlier piece, so that up over q hops, down over the same and the rank's next up are 2q + 1 iterations apart.
 */
#include "model/closed.h"

#include <math.h>
#include <stdlib.h>

/* A message or a step that is due. */
struct due {
    double time;
    int rank, step, ref;
};

struct walk {
    const struct tr_closed *c;
    const struct tr_schedule *s;
    double bytes; /* of a piece of a chunk */
    size_t nports;
    double *out, *in;       /* free from then on: nranks ports, then the links of every node */
    double *out_us, *in_us; /* what one piece keeps them busy */
    double *free, *busy;    /* the same for ranks */
    double *arrived;        /* nranks x nslots */
    struct due *steps, *messages;
    int nmessages;
    double end;
};

size_t tr_closed_tree_lag(enum tr_algorithm algorithm, int nranks)
{
    const struct tr_schedule_spec spec = {.collective = TR_ALLREDUCE, .algorithm = algorithm, .nranks = nranks};
    struct tr_schedule *schedule;
    if (tr_schedule_build(&spec, &schedule) != TR_OK)
        return 0;
    size_t lag = (size_t)schedule->max_lag;
    tr_schedule_free(schedule);
    return lag;
}

static bool walk_allocate(struct walk *w)
{
    size_t n = (size_t)w->c->n, links = w->c->nnodes > 1 ? (size_t)w->c->links : 0, nsteps = 0;
    for (int r = 0; r < w->c->n; r++)
        nsteps += (size_t)w->s->ranks[r].nsteps;
    w->nports = n + (size_t)w->c->nnodes * links;
    w->out = calloc(w->nports, sizeof *w->out);
    w->in = calloc(w->nports, sizeof *w->in);
    w->out_us = calloc(w->nports, sizeof *w->out_us);
    w->in_us = calloc(w->nports, sizeof *w->in_us);
    w->free = calloc(n, sizeof *w->free);
    w->busy = calloc(n, sizeof *w->busy);
    w->arrived = calloc(n * (size_t)w->s->nslots, sizeof *w->arrived);
    w->steps = malloc(nsteps * sizeof *w->steps);
    w->messages = malloc((size_t)w->s->nrefs * sizeof *w->messages);
    return w->out && w->in && w->out_us && w->in_us && w->free && w->busy && w->arrived && w->steps && w->messages;
}

static void walk_release(struct walk *w)
{
    free(w->out);
    free(w->in);
    free(w->out_us);
    free(w->in_us);
    free(w->free);
    free(w->busy);
    free(w->arrived);
    free(w->steps);
    free(w->messages);
}

static int compare_due(const void *left, const void *right)
{
    const struct due *a = left, *b = right;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->step != b->step ? (a->step < b->step ? -1 : 1) : a->ref - b->ref;
}

static int port_of(const struct walk *w, int rank, int peer)
{
    int node = w->c->node, links = w->c->links;
    return rank / node == peer / node ? rank : w->c->n + rank / node * links + rank % node % links;
}

static const struct tr_level *level_of(const struct walk *w, int rank, int peer)
{
    return rank / w->c->node == peer / w->c->node ? &w->c->m->inside : &w->c->m->between;
}

static const struct tr_step *step_of(const struct walk *w, const struct due *due)
{
    return &w->s->ranks[due->rank].steps[due->step];
}

/* When the step's inputs are there and the rank is free. */
static double step_start(const struct walk *w, int rank, const struct tr_step *step)
{
    double start = w->free[rank];
    for (int k = 0; k < step->nsrc; k++) {
        const struct tr_ref *ref = &w->s->refs[step->ref + k];
        if (ref->buffer == TR_BOX)
            start = fmax(start, w->arrived[rank * w->s->nslots + ref->index]);
    }
    return start;
}

static void carry_out(struct walk *w, const struct due *due)
{
    const struct tr_step *step = step_of(w, due);
    double left[2] = {0, 0};
    double reduce = w->c->m->overhead_us + tr_closed_us(w->bytes * (step->nsrc - 1), w->c->m->gamma_gbps);
    double ready = fmax(due->time, w->free[due->rank]) + reduce, end = ready;
    for (int k = step->nsrc; k < step->nsrc + step->ndst; k++) {
        int peer = w->s->refs[step->ref + k].rank, port = port_of(w, due->rank, peer);
        if (peer == due->rank)
            continue;
        const struct tr_level *level = level_of(w, due->rank, peer);
        double transfer = tr_closed_us(w->bytes, level->beta_gbps), start = fmax(ready, w->out[port]);
        w->out[port] = start + transfer;
        w->out_us[port] += transfer;
        left[level == &w->c->m->between] += transfer;
        end = fmax(end, start + transfer);
        w->messages[w->nmessages++] = (struct due){start + level->alpha_us, due->rank, due->step, step->ref + k};
    }
    w->free[due->rank] = end;
    w->busy[due->rank] += reduce + fmax(left[0], left[1]);
    w->end = fmax(w->end, end);
}

static void deliver(struct walk *w, const struct due *message)
{
    const struct tr_ref *to = &w->s->refs[message->ref];
    double transfer = tr_closed_us(w->bytes, level_of(w, message->rank, to->rank)->beta_gbps);
    int port = port_of(w, to->rank, message->rank);
    w->in[port] = fmax(w->in[port], message->time) + transfer;
    w->in_us[port] += transfer;
    w->arrived[to->rank * w->s->nslots + to->index] = w->in[port];
    w->end = fmax(w->end, w->in[port]);
}

/* The steps of one lag, then the messages that they sent, each in order of time. */
static void walk_lag(struct walk *w, int lag)
{
    size_t nsteps = 0;
    w->nmessages = 0;
    for (int r = 0; r < w->c->n; r++)
        for (int i = 0; i < w->s->ranks[r].nsteps; i++) {
            const struct tr_step *step = &w->s->ranks[r].steps[i];
            if (step->lag == lag)
                w->steps[nsteps++] = (struct due){step_start(w, r, step), r, i, 0};
        }
    qsort(w->steps, nsteps, sizeof *w->steps, compare_due);
    for (size_t i = 0; i < nsteps; i++)
        carry_out(w, &w->steps[i]);
    qsort(w->messages, (size_t)w->nmessages, sizeof *w->messages, compare_due);
    for (int i = 0; i < w->nmessages; i++)
        deliver(w, &w->messages[i]);
}

static double largest(const double *values, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, values[i]);
    return most;
}

/* The rank's way up in the tree of `chunk`: its step, or NULL at the root. */
static const struct tr_step *step_up(const struct walk *w, int rank, int chunk)
{
    for (int i = 0; i < w->s->ranks[rank].nsteps; i++) {
        const struct tr_step *step = &w->s->ranks[rank].steps[i];
        if (step->chunk == chunk && w->s->refs[step->ref].buffer == TR_IN)
            return w->s->refs[step->ref + step->nsrc].buffer == TR_BOX ? step : NULL;
    }
    return NULL;
}

/* A hop up, what its receiver does with it, and the same hop down. */
static double both_hops(const struct walk *w, int rank, int parent)
{
    const struct tr_level *level = level_of(w, rank, parent);
    return 2 * (level->alpha_us + tr_closed_us(w->bytes, level->beta_gbps)) + w->busy[parent] / 2;
}

/* The longest of a rank's ways up, each with the way down, an iteration of it. */
static double way_period(const struct walk *w, int rank, int chunk)
{
    double us = w->busy[rank], longest = 0;
    const struct tr_step *step = step_up(w, rank, chunk);
    for (int q = 1; step; q++) {
        int parent = w->s->refs[step->ref + step->nsrc].rank;
        us += both_hops(w, rank, parent);
        longest = fmax(longest, us / (2 * q + 1));
        rank = parent;
        step = step_up(w, rank, chunk);
    }
    return longest;
}

static double period(const struct walk *w)
{
    double most = fmax(largest(w->out_us, w->nports), largest(w->in_us, w->nports));
    most = fmax(most, largest(w->busy, (size_t)w->c->n));
    for (int r = 0; r < w->c->n; r++)
        for (int chunk = 0; chunk < w->s->nchunks; chunk++)
            most = fmax(most, way_period(w, r, chunk));
    return most;
}

double tr_closed_tree(const struct tr_closed *c)
{
    const struct tr_schedule_spec spec = {.collective = TR_ALLREDUCE, .algorithm = c->algorithm, .nranks = c->n};
    struct tr_schedule *schedule;
    if (tr_schedule_build(&spec, &schedule) != TR_OK)
        return NAN;
    struct walk w = {.c = c, .s = schedule, .bytes = (c->bytes * (c->npieces - 1) + c->last) / c->npieces};
    double us = NAN;
    if (walk_allocate(&w)) {
        for (int lag = 0; lag <= schedule->max_lag; lag++)
            walk_lag(&w, lag);
        us = w.end + (c->npieces - 1) * period(&w);
    }
    walk_release(&w);
    tr_schedule_free(schedule);
    return us;
}

/*
 * closed_recursive.c - the time of recursive halving and doubling by formula.
 *
 * Stage by stage, for every rank: a message leaves when the rank has what it sends and its port is free, and the partner
 * goes on when it is there. That is 2 log2 N stages of N ranks, where the simulator has N^2 slots. Ranks, and the link that
 * they share, are taken in the order of their numbers; a message meets nobody at the receiver's port, since it has one
 * partner at a time. Ranks and chunks are numbered as in recursive.c.
 */
#include "model/closed.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STAGES = 31 };

struct halving {
    const struct tr_closed *c;
    double bytes; /* of a chunk */
    int active, stages, extra;
    bool per_rank; /* a chunk a rank rather than one an active rank */
    bool last_piece;
    double *now;  /* per rank: free, and has what it needs to go on */
    double *out;  /* per port, then per link: free from then on */
    double *left; /* active x stages: when the newest message to that stage's partner has arrived */
    double *odd;  /* per rank: what the even one of its pair sent has arrived */
};

static int rank_of(const struct halving *h, int j)
{
    return j < h->extra ? 2 * j : j + h->extra;
}

static int first_chunk(const struct halving *h, int j)
{
    return h->per_rank ? rank_of(h, j) : j;
}

/* Chunks of the active ranks from `low` on, up to `end`. */
static double chunks_of(const struct halving *h, int low, int end)
{
    int all = h->per_rank ? h->c->n : h->active;
    return (end < h->active ? first_chunk(h, end) : all) - first_chunk(h, low);
}

static bool is_folded(const struct halving *h, int j)
{
    return j < h->extra;
}

/* A step on `chunks` that adds `sources` to its first. */
static double step_us(const struct halving *h, double chunks, double sources)
{
    return chunks * h->c->m->overhead_us + tr_closed_us(chunks * h->bytes * sources, h->c->m->gamma_gbps);
}

/* Send from `from` to `to`, not before `ready`; sets when it has left, returns when it has arrived. */
static double send(struct halving *h, int from, int to, double chunks, double ready, double *left)
{
    const struct tr_closed *c = h->c;
    bool inside = from / c->node == to / c->node;
    const struct tr_level *level = inside ? &c->m->inside : &c->m->between;
    double *port = &h->out[inside ? from : c->n + from / c->node * c->links + from % c->node % c->links];
    *port = fmax(*port, ready) + tr_closed_us(chunks * h->bytes, level->beta_gbps);
    *left = fmax(*left, *port);
    return *port + level->alpha_us;
}

/* Even and odd rank of a pair exchange halves; the odd one sums its half and gives it back. Sets when the even rank has
 * each half: in `now` the first, in `odd` of the even rank the second. */
static void fold(struct halving *h)
{
    for (int j = 0; j < h->extra; j++) {
        int even = rank_of(h, j), odd = even + 1;
        double half = chunks_of(h, 0, h->active / 2), rest = chunks_of(h, h->active / 2, h->active);
        double left = 0, odd_left = 0;
        double there = send(h, even, odd, rest, h->now[even] + step_us(h, rest, 0), &left);
        double here = send(h, odd, even, half, h->now[odd] + step_us(h, half, 0), &odd_left);
        double summed = fmax(there, odd_left) + step_us(h, rest, 1);
        h->odd[even] = send(h, odd, even, rest, summed, &odd_left);
        h->now[odd] = odd_left;
        h->now[even] = left;
        h->odd[odd] = here; /* the first half at the even rank */
    }
}

/* The even rank of a pair has from its odd one what it needs of the chunks from `chunk` on. */
static double folded(const struct halving *h, int j, double chunk)
{
    int even = rank_of(h, j);
    return is_folded(h, j) ? h->odd[chunk < first_chunk(h, h->active / 2) ? even + 1 : even] : 0;
}

/* What a step of `own` reduces beside what the stages brought: a folded rank has its pair's part of the first half. */
static double own_sources(const struct halving *h, int j, double chunk)
{
    return is_folded(h, j) && chunk < first_chunk(h, h->active / 2) ? 1 : 0;
}

static void halve_stage(struct halving *h, int t, double *arrived)
{
    int half = h->active >> (t + 1);
    for (int j = 0; j < h->active; j++) {
        int r = rank_of(h, j), block = (j ^ half) & ~(half - 1); /* what the partner keeps */
        double first = first_chunk(h, block), chunks = chunks_of(h, block, block + half);
        double ready = fmax(h->now[r], folded(h, j, first)) + step_us(h, chunks, t + own_sources(h, j, first));
        double left = ready;
        arrived[j ^ half] = send(h, r, rank_of(h, j ^ half), chunks, ready, &left);
        h->now[r] = left;
    }
    for (int j = 0; j < h->active; j++)
        h->now[rank_of(h, j)] = fmax(h->now[rank_of(h, j)], arrived[j]);
}

static void halve(struct halving *h)
{
    if (h->c->collective == TR_ALLGATHER)
        return;
    fold(h);
    for (int t = 0; t < h->stages; t++)
        halve_stage(h, t, h->left);
}

/* A step of rank j: `chunks` to the partners of stages from `first` on, and to the odd rank of its pair. */
static void forward(struct halving *h, int j, double chunks, int first, bool to_odd)
{
    int r = rank_of(h, j);
    bool last = first >= h->stages && !(to_odd && is_folded(h, j));
    double ready = h->now[r] + (last && h->c->remote ? 0 : chunks * h->c->m->overhead_us), left = ready;
    for (int u = first; u < h->stages; u++)
        h->left[(size_t)(j ^ 1 << u) * MAX_STAGES + (size_t)u] =
            send(h, r, rank_of(h, j ^ 1 << u), chunks, ready, &left);
    if (to_odd && is_folded(h, j))
        h->odd[r + 1] = send(h, r, r + 1, chunks, ready, &left);
    h->now[r] = left;
}

/* The reduction's last step, or the own chunk of an all-gather. */
static void finish_own(struct halving *h, int j)
{
    int r = rank_of(h, j);
    double sources = h->stages + own_sources(h, j, first_chunk(h, j));
    h->now[r] = fmax(h->now[r], folded(h, j, first_chunk(h, j)));
    if (h->c->collective == TR_REDUCE_SCATTER && is_folded(h, j)) {
        double left = 0;
        h->now[r] += step_us(h, 1, sources);
        h->odd[r + 1] = send(h, r, r + 1, 1, h->now[r], &left);
        h->now[r] = left;
    }
    if (h->c->collective != TR_ALLGATHER)
        h->now[r] += step_us(h, 1, sources);
    if (h->c->collective == TR_ALLREDUCE)
        h->now[r] -= h->c->m->overhead_us; /* of the same step that forward() goes on with */
}

static void start_doubling(struct halving *h, int j)
{
    int r = rank_of(h, j);
    double left = h->now[r + (is_folded(h, j) ? 1 : 0)], arrived = 0;
    if (h->per_rank && is_folded(h, j))
        arrived = send(h, r + 1, r, 1, h->now[r + 1], &left);
    forward(h, j, 1, 0, true);
    if (h->per_rank && is_folded(h, j)) {
        h->now[r] = fmax(h->now[r], arrived);
        forward(h, j, 1, 0, false);
    }
}

/* Registered, what the last stage brings is already where it belongs, and the next piece does not wait for it. */
static bool waits(const struct halving *h, int j, int u)
{
    return u + 1 < h->stages || !h->c->remote || h->last_piece || is_folded(h, j);
}

static void double_stage(struct halving *h, int u)
{
    for (int j = 0; j < h->active; j++)
        if (waits(h, j, u))
            h->now[rank_of(h, j)] = fmax(h->now[rank_of(h, j)], h->left[(size_t)j * MAX_STAGES + (size_t)u]);
    for (int j = 0; j < h->active; j++) {
        int low = (j ^ 1 << u) >> u << u;
        double chunks = chunks_of(h, low, low + (1 << u));
        forward(h, j, chunks, u + 1, true);
    }
}

/* A folded rank copies what it got out of its mailbox, unless that was written where it belongs. */
static double latest(const struct halving *h)
{
    double end = 0, copied = h->per_rank ? h->c->n - 1 : h->active;
    if (h->c->collective == TR_REDUCE_SCATTER)
        copied = 1;
    double copies = h->c->remote ? 0 : copied * h->c->m->overhead_us;
    for (int r = 0; r < h->c->n; r++)
        end = fmax(end, h->now[r]);
    for (int j = 0; j < h->extra; j++)
        end = fmax(end, h->odd[rank_of(h, j) + 1] + copies);
    return end;
}

static double piece_us(struct halving *h)
{
    const struct tr_closed *c = h->c;
    for (int r = 0; r < c->n; r++)
        h->now[r] = h->odd[r] = 0;
    for (int p = 0; p < c->n + c->nnodes * c->links; p++)
        h->out[p] = 0;
    halve(h);
    for (int j = 0; j < h->active; j++)
        finish_own(h, j);
    if (c->collective == TR_REDUCE_SCATTER)
        return latest(h);
    for (int j = 0; j < h->active; j++)
        start_doubling(h, j);
    for (int u = 0; u < h->stages; u++)
        double_stage(h, u);
    return latest(h);
}

double tr_closed_recursive(const struct tr_closed *c)
{
    struct halving h = {.c = c, .active = 1, .per_rank = c->collective != TR_ALLREDUCE};
    for (; 2 * h.active <= c->n; h.stages++)
        h.active *= 2;
    h.extra = c->n - h.active;
    size_t n = (size_t)c->n;
    h.now = malloc(n * sizeof *h.now);
    h.odd = malloc(n * sizeof *h.odd);
    h.out = malloc((n + (size_t)c->nnodes * (size_t)(c->links > 0 ? c->links : 1)) * sizeof *h.out);
    h.left = malloc((size_t)h.active * MAX_STAGES * sizeof *h.left);
    double us = NAN;
    if (h.now && h.odd && h.out && h.left) {
        h.bytes = c->bytes;
        us = c->npieces > 1 ? (c->npieces - 1) * piece_us(&h) : 0;
        h.bytes = c->last;
        h.last_piece = true;
        us += piece_us(&h);
    }
    free(h.now);
    free(h.odd);
    free(h.out);
    free(h.left);
    return us;
}

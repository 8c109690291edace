/*
 * recursive.c - recursive halving, then doubling (Thakur, Rabenseifner, Gropp 2005).
 *
 * Halving, 4 ranks: in each stage a rank sends the half of its range that its partner keeps.
 *
 *     stage 0, distance 2      stage 1, distance 1      rank r ends with chunk r, summed
 *     0: keeps 0 1             0: keeps 0
 *     1: keeps 0 1             1: keeps 1
 *     2: keeps 2 3             2: keeps 2
 *     3: keeps 2 3             3: keeps 3
 *
 * Nothing is summed before it must be sent on: a step's sources are the rank's IN and what the earlier stages brought
 * for the same chunks. Doubling runs the stages backwards, and a chunk is passed to all later partners as soon as it is
 * there. 2 log2 N messages, 2 (N-1)/N of the vector.
 *
 * Other rank counts than powers of two, as Rabenseifner does it: of the first 2e ranks, e = N - 2^k, each odd one folds
 * into the even one before it. They exchange halves, each sums one, the even rank goes on for both and at the end hands
 * the odd rank its result. The 2^k active ranks are numbered j = 0, 1, ...
 */
#include "collectives/schedule.h"

enum { MAX_STAGES = 31 };

struct halving {
    struct tr_schedule *s;
    int active; /* 2^stages ranks go on after folding */
    int stages;
    int extra;     /* e: active ranks below this one stand for two */
    int chunks;    /* of the vector */
    bool per_rank; /* chunk c belongs to rank c (reduce-scatter, all-gather) rather than to active rank c */
    int halve_slot; /* slots: [0, halve_slot) folding, then halving, then from double_slot on chunk c at double_slot + c */
    int double_slot;
};

static struct halving describe(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    struct halving h = {.s = s, .active = 1, .per_rank = s->spec.collective != TR_ALLREDUCE};
    while (2 * h.active <= n) {
        h.active *= 2;
        h.stages++;
    }
    h.extra = n - h.active;
    h.chunks = h.per_rank ? n : h.active;
    if (s->spec.collective != TR_ALLGATHER) {
        h.halve_slot = h.extra ? h.chunks : 0;
        h.double_slot = h.halve_slot + h.chunks;
    }
    s->nchunks = h.chunks;
    return h;
}

static int rank_of(const struct halving *h, int j)
{
    return j < h->extra ? 2 * j : j + h->extra;
}

static bool is_folded(const struct halving *h, int j)
{
    return j < h->extra;
}

/* First chunk of active rank j; its last is before first_chunk(j + 1). */
static int first_chunk(const struct halving *h, int j)
{
    if (!h->per_rank)
        return j;
    return j < h->extra ? 2 * j : j + h->extra;
}

/* ---- Folding ----------------------------------------------------------------------------------------------------- */

/* The even rank of pair j sums the first half of the chunks, the odd one the second and sends it back. */
static void emit_fold(const struct halving *h, int j)
{
    struct tr_schedule *s = h->s;
    int even = rank_of(h, j), odd = even + 1, half = first_chunk(h, h->active / 2), rest = h->chunks - half;
    tr_emit_step(s, even, half, rest, 0);
    tr_emit_src(s, even, TR_IN, half);
    tr_emit_dst(s, odd, TR_BOX, half);
    tr_emit_step(s, odd, 0, half, 0);
    tr_emit_src(s, odd, TR_IN, 0);
    tr_emit_dst(s, even, TR_BOX, 0);
    tr_emit_step(s, odd, half, rest, 0);
    tr_emit_src(s, odd, TR_BOX, half);
    tr_emit_src(s, odd, TR_IN, half);
    tr_emit_dst(s, even, TR_BOX, half);
}

/* ---- Halving ----------------------------------------------------------------------------------------------------- */

struct stage {
    int first; /* first chunk that the rank kept in this stage */
    int slot;  /* where the partner's part of that chunk arrives */
};

/* All that rank j has of the chunks from c on after `done` stages. */
static void emit_partial(const struct halving *h, int j, int c, const struct stage *stage, int done)
{
    struct tr_schedule *s = h->s;
    int r = rank_of(h, j), half = first_chunk(h, h->active / 2);
    if (!is_folded(h, j) || c < half)
        tr_emit_src(s, r, TR_IN, c);
    if (is_folded(h, j))
        tr_emit_src(s, r, TR_BOX, c);
    for (int t = 0; t < done; t++)
        tr_emit_src(s, r, TR_BOX, stage[t].slot + c - stage[t].first);
}

/* Rank j's sends of all stages; leaves in `stage` where what it received stands. */
static void emit_halving(const struct halving *h, int j, struct stage *stage)
{
    int low = 0, high = h->active, slot = h->halve_slot;
    for (int t = 0; t < h->stages; t++) {
        int half = (high - low) / 2, middle = low + half;
        bool keeps_low = j < middle;
        int send = first_chunk(h, keeps_low ? middle : low);
        int send_end = first_chunk(h, keeps_low ? high : middle);
        tr_emit_step(h->s, rank_of(h, j), send, send_end - send, 0);
        emit_partial(h, j, send, stage, t);
        tr_emit_dst(h->s, rank_of(h, j ^ half), TR_BOX, slot);
        if (keeps_low)
            high = middle;
        else
            low = middle;
        stage[t] = (struct stage){.first = first_chunk(h, low), .slot = slot};
        slot += first_chunk(h, high) - first_chunk(h, low);
    }
}

/* ---- Doubling ---------------------------------------------------------------------------------------------------- */

static void emit_delivery(const struct halving *h, int rank, int c)
{
    bool remote = h->s->spec.remote;
    tr_emit_dst(h->s, rank, remote ? TR_OUT : TR_BOX, remote ? c : h->double_slot + c);
}

/* Chunks from c on, ready at rank j: to the partners of stages first_stage, ... and to its folded neighbour. */
static void emit_forward(const struct halving *h, int j, int c, int first_stage, bool to_folded)
{
    for (int u = first_stage; u < h->stages; u++)
        emit_delivery(h, rank_of(h, j ^ (1 << u)), c);
    if (to_folded && is_folded(h, j))
        emit_delivery(h, rank_of(h, j) + 1, c);
}

/* Take in `span` delivered chunks from c on: into OUT (unless they were delivered there) and on to later partners. */
static void emit_arrival(const struct halving *h, int j, int c, int span, int next_stage, bool to_folded)
{
    struct tr_schedule *s = h->s;
    int r = rank_of(h, j);
    bool remote = s->spec.remote;
    if (remote && next_stage >= h->stages && !(to_folded && is_folded(h, j)))
        return;
    tr_emit_step(s, r, c, span, 0);
    tr_emit_src(s, r, remote ? TR_OUT : TR_BOX, remote ? c : h->double_slot + c);
    if (!remote)
        tr_emit_dst(s, r, TR_OUT, c);
    emit_forward(h, j, c, next_stage, to_folded);
}

static void emit_doubling(const struct halving *h, int j)
{
    for (int u = 0; u < h->stages; u++) {
        int partner = j ^ (1 << u), low = partner >> u << u;
        int c = first_chunk(h, low), span = first_chunk(h, low + (1 << u)) - c;
        emit_arrival(h, j, c, span, u + 1, true);
    }
}

/* The odd rank of pair j moves what was delivered to its mailbox, chunks c .. c + span, into OUT. */
static void emit_folded_arrival(const struct halving *h, int j, int c, int span)
{
    int odd = rank_of(h, j) + 1;
    if (h->s->spec.remote || span == 0)
        return;
    tr_emit_step(h->s, odd, c, span, 0);
    tr_emit_src(h->s, odd, TR_BOX, h->double_slot + c);
    tr_emit_dst(h->s, odd, TR_OUT, c);
}

/* ---- The collectives --------------------------------------------------------------------------------------------- */

void tr_recursive_allreduce(struct tr_schedule *s)
{
    struct halving h = describe(s);
    struct stage stage[MAX_STAGES];
    for (int j = 0; j < h.active; j++) {
        if (is_folded(&h, j))
            emit_fold(&h, j);
        emit_halving(&h, j, stage);
        tr_emit_step(s, rank_of(&h, j), j, 1, 0);
        emit_partial(&h, j, j, stage, h.stages);
        tr_emit_dst(s, rank_of(&h, j), TR_OUT, j);
        emit_forward(&h, j, j, 0, true);
        tr_emit_final(s);
        emit_doubling(&h, j);
        if (is_folded(&h, j))
            emit_folded_arrival(&h, j, 0, h.chunks);
    }
}

void tr_recursive_reduce_scatter(struct tr_schedule *s)
{
    struct halving h = describe(s);
    struct stage stage[MAX_STAGES];
    for (int j = 0; j < h.active; j++) {
        if (is_folded(&h, j))
            emit_fold(&h, j);
        emit_halving(&h, j, stage);
        int r = rank_of(&h, j), odd = r + 1;
        if (is_folded(&h, j)) {
            tr_emit_step(s, r, odd, 1, 0);
            emit_partial(&h, j, odd, stage, h.stages);
            tr_emit_dst(s, odd, s->spec.remote ? TR_OUT : TR_BOX, s->spec.remote ? 0 : h.halve_slot);
            tr_emit_final(s);
        }
        tr_emit_step(s, r, r, 1, 0);
        emit_partial(&h, j, r, stage, h.stages);
        tr_emit_dst(s, r, TR_OUT, 0);
        tr_emit_final(s);
        if (is_folded(&h, j) && !s->spec.remote)
            tr_emit_copy(s, odd, odd, (struct tr_ref){odd, TR_BOX, h.halve_slot}, (struct tr_ref){odd, TR_OUT, 0});
    }
}

void tr_recursive_allgather(struct tr_schedule *s)
{
    struct halving h = describe(s);
    for (int j = 0; j < h.active; j++) {
        int r = rank_of(&h, j), odd = r + 1;
        if (is_folded(&h, j)) {
            tr_emit_copy(s, odd, odd, (struct tr_ref){odd, TR_IN, 0}, (struct tr_ref){odd, TR_OUT, odd});
            emit_delivery(&h, r, odd);
        }
        tr_emit_step(s, r, r, 1, 0);
        tr_emit_src(s, r, TR_IN, 0);
        tr_emit_dst(s, r, TR_OUT, r);
        emit_forward(&h, j, r, 0, true);
        if (is_folded(&h, j))
            emit_arrival(&h, j, odd, 1, 0, false);
        emit_doubling(&h, j);
        if (is_folded(&h, j)) {
            emit_folded_arrival(&h, j, 0, r + 1);
            emit_folded_arrival(&h, j, odd + 1, s->spec.nranks - odd - 1);
        }
    }
}

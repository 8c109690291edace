/*
 * twoshot.c - two direct exchanges: rank r collects and reduces chunk r, then hands the result to everybody.
 *
 * Two messages of latency and 2 (N-1)/N of the vector sent by every rank, as little as a ring, where every pair of ranks
 * has a path of its own. With registered buffers an all-reduce is a single step a rank:
 *
 *     {IN of every rank, chunk r} -> OUT of every rank, chunk r
 */
#include "collectives/schedule.h"

static void set_depth(struct tr_schedule *s)
{
    s->depth = s->spec.unique || s->spec.remote ? 1 : 2;
}

/* {IN of rank r, chunk q} -> q's slot for r, for every other q. */
static void emit_scatter(struct tr_schedule *s, int r)
{
    for (int d = 1; d < s->spec.nranks; d++) {
        int q = tr_rank_after(s, r, d);
        tr_emit_copy(s, r, q, (struct tr_ref){r, TR_IN, q}, (struct tr_ref){q, TR_BOX, tr_peer_slot(r, q)});
    }
}

/* Begin the step that reduces chunk r at rank r. */
static void emit_reduction(struct tr_schedule *s, int r)
{
    tr_emit_step(s, r, r, 1, 0);
    for (int q = 0; q < s->spec.nranks && s->spec.remote; q++)
        tr_emit_src(s, q, TR_IN, r);
    if (!s->spec.remote)
        tr_emit_sources_in_rank_order(s, r, r, 0);
}

static void allreduce_staged_rank(struct tr_schedule *s, int r)
{
    int n = s->spec.nranks, second = n - 1; /* the slots of the second exchange follow those of the first */
    emit_scatter(s, r);
    emit_reduction(s, r);
    tr_emit_dst(s, r, TR_OUT, r);
    for (int d = 1; d < n; d++) {
        int q = tr_rank_after(s, r, d);
        tr_emit_dst(s, q, TR_BOX, second + tr_peer_slot(r, q));
    }
    tr_emit_final(s);
    for (int d = 1; d < n; d++) {
        int q = tr_rank_after(s, r, -d);
        tr_emit_copy(s, r, q, (struct tr_ref){r, TR_BOX, second + tr_peer_slot(q, r)}, (struct tr_ref){r, TR_OUT, q});
    }
}

void tr_twoshot_allreduce(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    s->nchunks = n;
    set_depth(s);
    for (int r = 0; r < n; r++) {
        if (!s->spec.remote) {
            allreduce_staged_rank(s, r);
            continue;
        }
        emit_reduction(s, r);
        for (int d = 0; d < n; d++)
            tr_emit_dst(s, tr_rank_after(s, r, d), TR_OUT, r);
        tr_emit_final(s);
    }
}

/* Chunk q reaches rank q, which passes it on (van de Geijn's scatter and all-gather); the root keeps its own chunk's part.
 * Slots: one from each rank for its chunk (the root's slot: the root's chunk), and one for the own chunk. */
static void broadcast_staged(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root, own = n - 1;
    for (int d = 1; d < n; d++) {
        int q = tr_rank_after(s, root, d);
        tr_emit_copy(s, root, q, (struct tr_ref){root, TR_IN, q}, (struct tr_ref){q, TR_BOX, own});
        tr_emit_dst(s, root, TR_OUT, q);
    }
    for (int d = 0; d < n; d++) {
        int r = tr_rank_after(s, root, d);
        tr_emit_step(s, r, r, 1, 0);
        tr_emit_src(s, r, r == root ? TR_IN : TR_BOX, r == root ? r : own);
        tr_emit_dst(s, r, TR_OUT, r);
        for (int e = 1; e < n; e++) {
            int q = tr_rank_after(s, r, e);
            if (q != root)
                tr_emit_dst(s, q, TR_BOX, tr_peer_slot(r, q));
        }
        for (int e = 1; e < n && r != root; e++) {
            int q = tr_rank_after(s, r, -e);
            tr_emit_copy(s, r, q, (struct tr_ref){r, TR_BOX, tr_peer_slot(q, r)}, (struct tr_ref){r, TR_OUT, q});
        }
    }
}

static void broadcast_remote(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root;
    for (int d = 1; d < n; d++) {
        int q = tr_rank_after(s, root, d);
        tr_emit_copy(s, root, q, (struct tr_ref){root, TR_IN, q}, (struct tr_ref){q, TR_OUT, q});
        tr_emit_dst(s, root, TR_OUT, q);
    }
    for (int d = 0; d < n; d++) {
        int r = tr_rank_after(s, root, d);
        if (r != root && n == 2)
            continue; /* nobody else is left to serve */
        tr_emit_step(s, r, r, 1, 0);
        tr_emit_src(s, r, r == root ? TR_IN : TR_OUT, r);
        if (r == root)
            tr_emit_dst(s, r, TR_OUT, r);
        for (int e = 1; e < n; e++) {
            int q = tr_rank_after(s, r, e);
            if (q != root)
                tr_emit_dst(s, q, TR_OUT, r);
        }
    }
}

void tr_twoshot_broadcast(struct tr_schedule *s)
{
    s->nchunks = s->spec.nranks;
    set_depth(s);
    if (s->spec.remote)
        broadcast_remote(s);
    else
        broadcast_staged(s);
}

/* Each rank reduces its chunk, then the root gathers them. */
void tr_twoshot_reduce(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root, second = n - 1;
    s->nchunks = n;
    set_depth(s);
    for (int r = 0; r < n; r++) {
        bool straight = r == root || s->spec.remote;
        if (!s->spec.remote)
            emit_scatter(s, r);
        emit_reduction(s, r);
        tr_emit_dst(s, root, straight ? TR_OUT : TR_BOX, straight ? r : second + tr_peer_slot(r, root));
        tr_emit_final(s);
    }
    for (int d = 1; d < n && !s->spec.remote; d++) {
        int q = tr_rank_after(s, root, d);
        tr_emit_copy(s, root, q, (struct tr_ref){root, TR_BOX, second + tr_peer_slot(q, root)},
                     (struct tr_ref){root, TR_OUT, q});
    }
}

/*
 * oneshot.c - one exchange: every rank sends to every other directly, and each finishes on its own.
 *
 * One message of latency whatever the number of ranks. All-reduce moves the whole vector to N-1 peers, which only pays
 * while it is short; reduce-scatter, all-gather, broadcast and reduce send no byte more than they must.
 * Peers are visited in rotated order, so that no rank is everybody's first target.
 */
#include "collectives/schedule.h"

/* Unless each message has its own slot, slots are doubled: a sender may run one piece ahead of its reader. */
static void set_depth(struct tr_schedule *s)
{
    s->depth = s->spec.unique || s->spec.remote ? 1 : 2;
}

/* The slot of every other rank that belongs to rank r. */
static void emit_to_peers(struct tr_schedule *s, int r)
{
    for (int d = 1; d < s->spec.nranks; d++) {
        int q = tr_rank_after(s, r, d);
        tr_emit_dst(s, q, TR_BOX, tr_peer_slot(r, q));
    }
}

/* {own IN} -> OUT `index` of every rank, own OUT first. */
static void emit_to_all_outs(struct tr_schedule *s, int r, int index)
{
    for (int d = 0; d < s->spec.nranks; d++)
        tr_emit_dst(s, tr_rank_after(s, r, d), TR_OUT, index);
}

void tr_oneshot_allreduce(struct tr_schedule *s)
{
    s->nchunks = 1;
    s->depth = s->spec.unique ? 1 : 2;
    for (int r = 0; r < s->spec.nranks; r++) {
        tr_emit_step(s, r, 0, 1, 0);
        tr_emit_src(s, r, TR_IN, 0);
        emit_to_peers(s, r);
        tr_emit_step(s, r, 0, 1, 0);
        tr_emit_sources_in_rank_order(s, r, 0, 0);
        tr_emit_dst(s, r, TR_OUT, 0);
        tr_emit_final(s);
    }
}

void tr_oneshot_reduce_scatter(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    s->nchunks = n;
    set_depth(s);
    for (int r = 0; r < n; r++) {
        for (int d = 1; d < n && !s->spec.remote; d++) {
            int q = tr_rank_after(s, r, d);
            tr_emit_copy(s, r, q, (struct tr_ref){r, TR_IN, q}, (struct tr_ref){q, TR_BOX, tr_peer_slot(r, q)});
        }
        tr_emit_step(s, r, r, 1, 0);
        for (int q = 0; q < n && s->spec.remote; q++)
            tr_emit_src(s, q, TR_IN, r);
        if (!s->spec.remote)
            tr_emit_sources_in_rank_order(s, r, r, 0);
        tr_emit_dst(s, r, TR_OUT, 0);
        tr_emit_final(s);
    }
}

void tr_oneshot_allgather(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    s->nchunks = n;
    set_depth(s);
    for (int r = 0; r < n; r++) {
        tr_emit_step(s, r, r, 1, 0);
        tr_emit_src(s, r, TR_IN, 0);
        if (s->spec.remote) {
            emit_to_all_outs(s, r, r);
            continue;
        }
        tr_emit_dst(s, r, TR_OUT, r);
        emit_to_peers(s, r);
        for (int d = 1; d < n; d++) {
            int q = tr_rank_after(s, r, -d);
            tr_emit_copy(s, r, q, (struct tr_ref){r, TR_BOX, tr_peer_slot(q, r)}, (struct tr_ref){r, TR_OUT, q});
        }
    }
}

void tr_oneshot_broadcast(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root;
    s->nchunks = 1;
    set_depth(s);
    tr_emit_step(s, root, 0, 1, 0);
    tr_emit_src(s, root, TR_IN, 0);
    if (s->spec.remote) {
        emit_to_all_outs(s, root, 0);
        return;
    }
    tr_emit_dst(s, root, TR_OUT, 0);
    for (int d = 1; d < n; d++)
        tr_emit_dst(s, tr_rank_after(s, root, d), TR_BOX, 0);
    for (int d = 1; d < n; d++) {
        int r = tr_rank_after(s, root, d);
        tr_emit_copy(s, r, 0, (struct tr_ref){r, TR_BOX, 0}, (struct tr_ref){r, TR_OUT, 0});
    }
}

void tr_oneshot_reduce(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root;
    s->nchunks = 1;
    set_depth(s);
    for (int r = 0; r < n && !s->spec.remote; r++)
        if (r != root)
            tr_emit_copy(s, r, 0, (struct tr_ref){r, TR_IN, 0}, (struct tr_ref){root, TR_BOX, tr_peer_slot(r, root)});
    tr_emit_step(s, root, 0, 1, 0);
    for (int q = 0; q < n && s->spec.remote; q++)
        tr_emit_src(s, q, TR_IN, 0);
    if (!s->spec.remote)
        tr_emit_sources_in_rank_order(s, root, 0, 0);
    tr_emit_dst(s, root, TR_OUT, 0);
    tr_emit_final(s);
}

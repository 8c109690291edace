/*
 * ring.c - the ring (Patarasuk and Yuan 2009) and, for rooted collectives, the pipelined chain.
 *
 * Four ranks, the chunk that each sends in step k of an all-reduce (r - k modulo 4); the sums go once round, then the
 * results:
 *
 *     rank      k=0   k=1   k=2 | k=3   k=4   k=5
 *       0        0     3     2  |  1     0     3
 *       1        1     0     3  |  2     1     0
 *       2        2     1     0  |  3     2     1
 *       3        3     2     1  |  0     3     2
 *              reduce-scatter   |  all-gather
 *
 * Every rank sends 2 (N-1)/N of the vector, the least possible; it takes 2 (N-1) messages one after the other.
 */
#include "collectives/schedule.h"

/* A message is in flight while the next is reduced; four slots keep the link busy. */
enum { RING_SLOTS = 4 };

/* Set how many slots a piece's `messages` share and how deep each is; the slot of message k is k % the result. */
static int ring_slots(struct tr_schedule *s, int messages)
{
    if (s->spec.unique)
        return messages;
    int slots = messages < RING_SLOTS ? messages : RING_SLOTS;
    s->depth = RING_SLOTS / slots;
    return slots;
}

/* {own slot of message k-1, own IN} -> slot of message k at next. Message 0 comes from IN alone. */
static void emit_reduce_hop(struct tr_schedule *s, int rank, int chunk, int k, int slots)
{
    tr_emit_step(s, rank, chunk, 1, 0);
    if (k > 0)
        tr_emit_src(s, rank, TR_BOX, (k - 1) % slots);
    tr_emit_src(s, rank, TR_IN, chunk);
}

static void allreduce_rank(struct tr_schedule *s, int r, int slots)
{
    int n = s->spec.nranks, next = tr_rank_after(s, r, 1);
    bool remote = s->spec.remote;
    for (int k = 0; k < n - 1; k++) {
        emit_reduce_hop(s, r, tr_rank_after(s, r, -k), k, slots);
        tr_emit_dst(s, next, TR_BOX, k % slots);
    }
    for (int k = n - 1; k <= 2 * n - 2; k++) {
        int c = tr_rank_after(s, r, -k);
        bool first = k == n - 1, last = k == 2 * n - 2;
        if (first) {
            emit_reduce_hop(s, r, c, k, slots);
        } else if (remote && last) {
            break; /* the previous rank wrote it into OUT */
        } else {
            tr_emit_step(s, r, c, 1, 0);
            tr_emit_src(s, r, remote ? TR_OUT : TR_BOX, remote ? c : (k - 1) % slots);
        }
        if (first || !remote)
            tr_emit_dst(s, r, TR_OUT, c);
        if (!last)
            tr_emit_dst(s, next, remote ? TR_OUT : TR_BOX, remote ? c : k % slots);
        if (first)
            tr_emit_final(s);
    }
}

void tr_ring_allreduce(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    s->nchunks = n;
    int slots = ring_slots(s, s->spec.remote ? n - 1 : 2 * (n - 1));
    for (int r = 0; r < n; r++)
        allreduce_rank(s, r, slots);
}

void tr_ring_reduce_scatter(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    s->nchunks = n;
    int slots = ring_slots(s, n - 1);
    for (int r = 0; r < n; r++)
        for (int k = 0; k < n; k++) {
            emit_reduce_hop(s, r, tr_rank_after(s, r, -1 - k), k, slots);
            if (k < n - 1) {
                tr_emit_dst(s, tr_rank_after(s, r, 1), TR_BOX, k % slots);
            } else {
                tr_emit_dst(s, r, TR_OUT, 0);
                tr_emit_final(s);
            }
        }
}

/* Registered: each rank writes straight into the next one's OUT and forwards from its own. */
static void allgather_remote(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < n - 1; k++) {
            int c = tr_rank_after(s, r, -k);
            tr_emit_step(s, r, c, 1, 0);
            tr_emit_src(s, r, k ? TR_OUT : TR_IN, k ? c : 0);
            if (k == 0)
                tr_emit_dst(s, r, TR_OUT, c);
            tr_emit_dst(s, tr_rank_after(s, r, 1), TR_OUT, c);
        }
}

void tr_ring_allgather(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    s->nchunks = n;
    if (s->spec.remote) {
        allgather_remote(s);
        return;
    }
    int slots = ring_slots(s, n - 1);
    for (int r = 0; r < n; r++)
        for (int k = 0; k < n; k++) {
            int c = tr_rank_after(s, r, -k);
            tr_emit_step(s, r, c, 1, 0);
            if (k == 0)
                tr_emit_src(s, r, TR_IN, 0);
            else
                tr_emit_src(s, r, TR_BOX, (k - 1) % slots);
            tr_emit_dst(s, r, TR_OUT, c);
            if (k < n - 1)
                tr_emit_dst(s, tr_rank_after(s, r, 1), TR_BOX, k % slots);
        }
}

/* root -> root+1 -> ... -> root-1, piece after piece. */
void tr_ring_broadcast(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root;
    s->nchunks = 1;
    ring_slots(s, 1);
    for (int d = 0; d < n; d++) {
        int r = tr_rank_after(s, root, d);
        tr_emit_step(s, r, 0, 1, 0);
        tr_emit_src(s, r, d ? TR_BOX : TR_IN, 0);
        tr_emit_dst(s, r, TR_OUT, 0);
        if (d < n - 1)
            tr_emit_dst(s, tr_rank_after(s, r, 1), TR_BOX, 0);
    }
}

/* root+1 -> root+2 -> ... -> root, adding up on the way. */
void tr_ring_reduce(struct tr_schedule *s)
{
    int n = s->spec.nranks, root = s->spec.root;
    s->nchunks = 1;
    int slots = ring_slots(s, 1);
    for (int d = 0; d < n; d++) {
        int r = tr_rank_after(s, root, d + 1);
        emit_reduce_hop(s, r, 0, d, slots);
        if (d < n - 1) {
            tr_emit_dst(s, tr_rank_after(s, r, 1), TR_BOX, 0);
        } else {
            tr_emit_dst(s, root, TR_OUT, 0);
            tr_emit_final(s);
        }
    }
}

/*
 * tree.c - one binary tree, pipelined over the pieces of the vector.
 *
 * Seven ranks with root 0; v is the rank counted from the root, its children are 2v+1 and 2v+2:
 *
 *              0
 *           /     \
 *          1       2
 *         / \     / \
 *        3   4   5   6
 *
 * All-reduce: sums go up, results come down, both at once on different pieces. 2 log2 N messages of latency; an inner
 * rank receives the vector twice and sends it three times, so it is not bandwidth-optimal.
 */
#include "collectives/tree.h"

#include <stdlib.h>

void tr_tree_finish(struct tr_tree_node *nodes, int n)
{
    for (int r = 0; r < n; r++)
        nodes[r].nchildren = 0;
    for (int r = 0; r < n; r++) {
        if (nodes[r].parent < 0)
            continue;
        struct tr_tree_node *parent = &nodes[nodes[r].parent];
        nodes[r].place = parent->nchildren;
        parent->child[parent->nchildren++] = r;
    }
    for (int r = 0; r < n; r++) {
        nodes[r].depth = 0;
        for (int up = nodes[r].parent; up >= 0; up = nodes[up].parent)
            nodes[r].depth++;
    }
}

void tr_tree_measure(struct tr_tree_node *nodes, int count)
{
    int deepest = 0;
    for (int i = 0; i < count; i++)
        deepest = nodes[i].depth > deepest ? nodes[i].depth : deepest;
    for (int i = 0; i < count; i++)
        nodes[i].deepest = deepest;
}

void tr_tree_set_depth(struct tr_schedule *s)
{
    s->depth = s->spec.unique ? 1 : 2;
}

static void emit_to_children(struct tr_schedule *s, const struct tr_tree_node *node, int slot)
{
    for (int i = 0; i < node->nchildren; i++)
        tr_emit_dst(s, node->child[i], TR_BOX, slot + TR_TREE_CHILDREN);
}

/* {own IN, children's sums} -> parent; at the root -> OUT and, in an all-reduce, down to the children at once. */
void tr_tree_emit_up(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot)
{
    const struct tr_tree_node *node = &nodes[rank];
    tr_emit_step(s, rank, chunk, 1, node->deepest - node->depth);
    tr_emit_src(s, rank, TR_IN, chunk);
    for (int i = 0; i < node->nchildren; i++)
        tr_emit_src(s, rank, TR_BOX, slot + i);
    if (node->parent >= 0) {
        tr_emit_dst(s, node->parent, TR_BOX, slot + node->place);
        return;
    }
    tr_emit_dst(s, rank, TR_OUT, chunk);
    if (s->spec.collective == TR_ALLREDUCE)
        emit_to_children(s, node, slot);
    tr_emit_final(s);
}

static void emit_forward(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot,
                         int lag)
{
    tr_emit_step(s, rank, chunk, 1, lag);
    tr_emit_src(s, rank, TR_BOX, slot + TR_TREE_CHILDREN);
    tr_emit_dst(s, rank, TR_OUT, chunk);
    emit_to_children(s, &nodes[rank], slot);
}

void tr_tree_emit_down(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot)
{
    if (nodes[rank].parent >= 0)
        emit_forward(s, nodes, rank, chunk, slot, nodes[rank].deepest + nodes[rank].depth);
}

void tr_tree_emit_broadcast(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot)
{
    if (nodes[rank].parent >= 0) {
        emit_forward(s, nodes, rank, chunk, slot, nodes[rank].depth);
        return;
    }
    tr_emit_step(s, rank, chunk, 1, 0);
    tr_emit_src(s, rank, TR_IN, chunk);
    tr_emit_dst(s, rank, TR_OUT, chunk);
    emit_to_children(s, &nodes[rank], slot);
}

/* The tree of the picture. NULL, and the schedule marked, when memory is short. */
static struct tr_tree_node *binary_tree(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    struct tr_tree_node *nodes = calloc((size_t)n, sizeof *nodes);
    if (!nodes) {
        s->out_of_memory = true;
        return NULL;
    }
    for (int v = 0; v < n; v++)
        nodes[tr_rank_after(s, s->spec.root, v)].parent = v ? tr_rank_after(s, s->spec.root, (v - 1) / 2) : -1;
    tr_tree_finish(nodes, n);
    tr_tree_measure(nodes, n);
    s->nchunks = 1;
    tr_tree_set_depth(s);
    return nodes;
}

void tr_tree_allreduce(struct tr_schedule *s)
{
    struct tr_tree_node *nodes = binary_tree(s);
    for (int r = 0; nodes && r < s->spec.nranks; r++) {
        tr_tree_emit_up(s, nodes, r, 0, 0);
        tr_tree_emit_down(s, nodes, r, 0, 0);
    }
    free(nodes);
}

void tr_tree_broadcast(struct tr_schedule *s)
{
    struct tr_tree_node *nodes = binary_tree(s);
    for (int r = 0; nodes && r < s->spec.nranks; r++)
        tr_tree_emit_broadcast(s, nodes, r, 0, 0);
    free(nodes);
}

void tr_tree_reduce(struct tr_schedule *s)
{
    struct tr_tree_node *nodes = binary_tree(s);
    for (int r = 0; nodes && r < s->spec.nranks; r++)
        tr_tree_emit_up(s, nodes, r, 0, 0);
    free(nodes);
}

/*
 * dtree.c - two binary trees, half of the vector on each (Sanders, Speck, Traeff 2009).
 *
 * In a single tree the leaves, half of the ranks, only send up and never forward. Here the leaves of one tree are the
 * inner nodes of the other, so both directions of every link carry about the same. The first tree numbers the nodes in
 * order, with the parent found from the lowest set bit; the second is its mirror image (an even number of nodes) or the
 * same tree shifted by one (odd):
 *
 *         0                              7
 *          \                            /
 *           4                          3
 *         /   \                      /   \
 *        2     6                    5     1
 *       / \   / \                  / \   / \
 *      1   3 5   7                6   4 2   0
 *
 * All-reduce spans all ranks with both trees. A broadcast or reduce has a root that must feed or drain both: the trees
 * then span the other ranks, and the root is the parent of both tree roots.
 */
#include "collectives/tree.h"

#include <stdlib.h>

enum { TREES = 2 };

/* Parent of node v in the in-order tree of n nodes whose root is 0; -1 for the root. */
static int in_order_parent(int v, int n)
{
    if (v == 0)
        return -1;
    int lowest = v & -v;
    int up = (v ^ lowest) | (lowest << 1);
    return up < n ? up : v ^ lowest;
}

/* The node of tree t that stands where the in-order tree has v: itself, or its place in the mirrored or shifted copy. */
static int tree_name(int t, int v, int n)
{
    if (t == 0)
        return v;
    return n % 2 ? (v + 1) % n : n - 1 - v;
}

/* Fill tree t. with_root: its nodes are the ranks other than the root, which becomes the parent of the topmost. */
static void fill_tree(struct tr_schedule *s, struct tr_tree_node *nodes, int t, bool with_root)
{
    int n = s->spec.nranks, root = s->spec.root;
    int count = with_root ? n - 1 : n, first = with_root ? root + 1 : 0;
    if (with_root)
        nodes[root].parent = -1;
    for (int v = 0; v < count; v++) {
        int up = in_order_parent(v, count);
        int rank = (first + tree_name(t, v, count)) % n;
        if (up >= 0)
            nodes[rank].parent = (first + tree_name(t, up, count)) % n;
        else
            nodes[rank].parent = with_root ? root : -1;
    }
    tr_tree_finish(nodes, n);
}

/* Both trees, n nodes each, one after the other. NULL, and the schedule marked, when memory is short. */
static struct tr_tree_node *two_trees(struct tr_schedule *s)
{
    int n = s->spec.nranks;
    struct tr_tree_node *nodes = calloc(TREES * (size_t)n, sizeof *nodes);
    if (!nodes) {
        s->out_of_memory = true;
        return NULL;
    }
    for (int t = 0; t < TREES; t++)
        fill_tree(s, nodes + t * n, t, s->spec.collective != TR_ALLREDUCE);
    tr_tree_measure(nodes, TREES * n);
    s->nchunks = TREES;
    tr_tree_set_depth(s);
    return nodes;
}

typedef void emit_fn(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot);

static void emit_both(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, emit_fn *emit)
{
    for (int t = 0; t < TREES; t++)
        emit(s, nodes + t * s->spec.nranks, rank, t, t * TR_TREE_SLOTS);
}

void tr_dtree_allreduce(struct tr_schedule *s)
{
    struct tr_tree_node *nodes = two_trees(s);
    for (int r = 0; nodes && r < s->spec.nranks; r++) {
        emit_both(s, nodes, r, tr_tree_emit_up);
        emit_both(s, nodes, r, tr_tree_emit_down);
    }
    free(nodes);
}

void tr_dtree_broadcast(struct tr_schedule *s)
{
    struct tr_tree_node *nodes = two_trees(s);
    for (int r = 0; nodes && r < s->spec.nranks; r++)
        emit_both(s, nodes, r, tr_tree_emit_broadcast);
    free(nodes);
}

void tr_dtree_reduce(struct tr_schedule *s)
{
    struct tr_tree_node *nodes = two_trees(s);
    for (int r = 0; nodes && r < s->spec.nranks; r++)
        emit_both(s, nodes, r, tr_tree_emit_up);
    free(nodes);
}

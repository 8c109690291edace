/* tree.h - a rooted tree over the ranks, and the pipelined steps that run along it; tree.c and dtree.c build trees. */
#ifndef TR_TREE_H
#define TR_TREE_H

#include "collectives/schedule.h"

enum { TR_TREE_CHILDREN = 2 };

struct tr_tree_node {
    int parent; /* -1 at the root */
    int child[TR_TREE_CHILDREN];
    int nchildren;
    int place;   /* which of its parent's children it is */
    int depth;   /* hops from the root */
    int deepest; /* the largest depth in the trees of the schedule */
};

/* `nodes` has one node for each of n ranks with `parent` set; fill in the rest but `deepest`. */
void tr_tree_finish(struct tr_tree_node *nodes, int n);

/* Set `deepest` in all `count` nodes of a schedule's trees. */
void tr_tree_measure(struct tr_tree_node *nodes, int count);

/* Slots that one tree takes at a rank: one for each child's sum on the way up, one for the result on the way down. */
enum { TR_TREE_SLOTS = TR_TREE_CHILDREN + 1 };

/*
 * One rank's steps on `chunk` along a tree whose slots begin at `slot`. Every hop takes one iteration, so that no step waits
 * for another rank's step of the same iteration and two trees do not stall each other:
 *
 *     up:    lag deepest - depth    leaves of the lowest level first, the root last
 *     down:  lag deepest + depth
 */
void tr_tree_emit_up(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot);
void tr_tree_emit_down(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot);
void tr_tree_emit_broadcast(struct tr_schedule *s, const struct tr_tree_node *nodes, int rank, int chunk, int slot);

/* Set the schedule's depth: slots are doubled so that a sender runs one piece ahead of its reader. */
void tr_tree_set_depth(struct tr_schedule *s);

#endif

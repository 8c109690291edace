/*
 * p2p_memory.h - the memory that p2p_bench moves bytes between. A rank's area, which all ranks map:
 *
 *     { posted, taken } x nranks | abort | slots
 *
 * posted counts the messages that the rank of that index has sent here, taken those of this rank that it has done with;
 * each on a line of its own. CPU ranks: two slots are shared, a source and a sink of two slots are private. GPU ranks: one
 * slot is the source and one the sink.
 */
#ifndef BENCH_P2P_MEMORY_H
#define BENCH_P2P_MEMORY_H

#include "bench/p2p.h"

enum { P2P_LINE = 128 }; /* what two ranks write lies this far apart */

/* Allocate and exchange; lowers a size that was not asked for to what fits. Collective; ends the run if memory lacks. */
void p2p_memory_open(struct p2p *p2p);
void p2p_memory_close(struct p2p *p2p);

/* In the area of rank `at`: the counts that `other` keeps there. */
static inline char *p2p_posted_line(const struct p2p *p2p, int at, int other)
{
    return p2p->areas[at] + 2 * P2P_LINE * (size_t)other;
}

static inline char *p2p_taken_line(const struct p2p *p2p, int at, int other)
{
    return p2p_posted_line(p2p, at, other) + P2P_LINE;
}

static inline char *p2p_abort_line(const struct p2p *p2p, int at)
{
    return p2p_posted_line(p2p, at, p2p->nranks);
}

/* The slots of rank `at` that all can reach. */
static inline char *p2p_shared_at(const struct p2p *p2p, int at)
{
    return p2p->areas[at] + (p2p->shared - p2p->area);
}

#endif

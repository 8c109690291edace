/*
 * p2p_turns.h - which pairs run when. A turn is a set of pairs that share no rank: one pair, or, together, as many as there
 * are. Over all turns every ordered pair comes once.
 */
#ifndef BENCH_P2P_TURNS_H
#define BENCH_P2P_TURNS_H

#include <stdbool.h>
#include <stdint.h>

int p2p_turn_count(int nranks, bool together);

/* The pair of `turn` that `rank` belongs to; false if it idles. */
bool p2p_turn_pair(int nranks, bool together, int turn, int rank, int *from, int *to);

/* Put 0 .. n - 1 into an order that depends on `seed` alone (Fisher and Yates). */
void p2p_shuffle(uint64_t seed, int *order, int n);

/* One seed from several numbers. */
uint64_t p2p_mix(uint64_t a, uint64_t b);

#endif

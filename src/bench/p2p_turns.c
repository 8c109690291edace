/* p2p_turns.c - which pairs run when, and in which order things are done. Pure arithmetic. */
#include "bench/p2p_turns.h"

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

/* With an odd number of ranks a rank that is not there joins, and its partner idles. */
static int even(int nranks)
{
    return nranks + nranks % 2;
}

int p2p_turn_count(int nranks, bool together)
{
    return together ? 2 * (even(nranks) - 1) : nranks * (nranks - 1);
}

/* The circle method: in round r of n - 1 rounds, the last rank meets r, and i meets j where i + j = 2r modulo n - 1. */
static int partner(int n, int round, int rank)
{
    if (rank == n - 1)
        return round;
    int other = (2 * round - rank + (n - 1)) % (n - 1);
    return other == rank ? n - 1 : other;
}

static bool pair_together(int nranks, int turn, int rank, int *from, int *to)
{
    int other = partner(even(nranks), turn / 2, rank);
    if (other >= nranks)
        return false;
    bool upwards = turn % 2 == 0;
    *from = (rank < other) == upwards ? rank : other;
    *to = *from == rank ? other : rank;
    return true;
}

bool p2p_turn_pair(int nranks, bool together, int turn, int rank, int *from, int *to)
{
    if (together)
        return pair_together(nranks, turn, rank, from, to);
    int sender = turn / (nranks - 1), rest = turn % (nranks - 1);
    int receiver = rest < sender ? rest : rest + 1;
    if (rank != sender && rank != receiver)
        return false;
    *from = sender;
    *to = receiver;
    return true;
}

/* ---- Order ------------------------------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t p2p_mix(uint64_t a, uint64_t b)
{
    uint64_t state = a ^ next(&b);
    return next(&state);
}

void p2p_shuffle(uint64_t seed, int *order, int n)
{
    for (int i = 0; i < n; i++) {
        int j = (int)(next(&seed) % (uint64_t)(i + 1));
        order[i] = order[j];
        order[j] = i;
    }
}

/* random.c - random numbers for the order of the contenders. */
#include "bench/random.h"

uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    uint64_t excess = (UINT64_MAX % bound + 1) % bound; /* numbers past the last whole multiple of bound */
    uint64_t drawn;
    do
        drawn = random_next(random);
    while (excess && drawn > UINT64_MAX - excess);
    return drawn % bound;
}

void random_order(struct random *random, int *order, int n)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)random_below(random, (uint64_t)i + 1);
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

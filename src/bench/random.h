/* random.h - random numbers for the order of the contenders: the same from the same seed on every rank and machine. */
#ifndef BENCH_RANDOM_H
#define BENCH_RANDOM_H

#include <stdint.h>

/* SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014): 64 bits of
 * state, full period, passes BigCrush. */
struct random {
    uint64_t state; /* the seed */
};

uint64_t random_next(struct random *random);

/* Uniform in 0 .. bound - 1, bound > 0, without bias: what would favour small numbers is drawn again. */
uint64_t random_below(struct random *random, uint64_t bound);

/* 0 .. n - 1 in a random order, each as likely as any other (Fisher and Yates, Durstenfeld). */
void random_order(struct random *random, int *order, int n);

#endif

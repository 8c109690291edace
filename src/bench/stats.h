/* stats.h - statistics over a few samples. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include "bench/bench.h"

/* Sorts `samples` (n > 0). */
struct bench_stats stats_of(double *samples, int n);

#endif

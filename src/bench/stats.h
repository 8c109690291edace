/* stats.h - statistics over the samples of a point: quantiles, and an interval of the median. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include "bench/bench.h"

/* Sorts `samples` (n > 0). A quantile q is the sample of rank ceil(q n): p99 of fewer than 100 samples is the largest. */
struct bench_stats stats_of(double *samples, int n);

/*
 * The interval of a median, from n sorted samples: [sample `low`, sample n - 1 - low], counted from 0. It is the
 * narrowest symmetric one that holds the median of any continuous distribution with a probability of at least 0.95; the
 * exact probability is returned. Fewer than 6 samples have none: then it is all of them, and the probability says how
 * little that is (n = 5: 0.9375, n = 1: 0).
 */
double stats_median_interval(int n, int *low);

/* Half the width of the median's interval over the median: how exactly the median is known. INFINITY where the samples
 * are too few for 95%, or the median is 0. */
double stats_share(const struct bench_stats *stats);

#endif

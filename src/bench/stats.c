/* stats.c - statistics over a few samples. */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int clamp(double index, int n)
{
    return index < 0 ? 0 : index > n - 1 ? n - 1 : (int)index;
}

struct bench_stats stats_of(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof *samples, compare);
    double half_width = 0.98 * sqrt(n); /* 1.96 standard deviations of a binomial with p = 1/2 */
    return (struct bench_stats){
        .n = n,
        .median = 0.5 * (samples[(n - 1) / 2] + samples[n / 2]),
        .min = samples[0],
        .max = samples[n - 1],
        .p95 = samples[clamp(ceil(0.95 * n) - 1, n)],
        .ci_low = samples[clamp(floor(0.5 * n - half_width), n)],
        .ci_high = samples[clamp(ceil(0.5 * n + half_width), n)],
    };
}

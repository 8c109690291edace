/* stats.c - statistics over the samples of a point. */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

static const double level = 0.95;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q)
{
    int rank = (int)ceil(q * n - 1e-9);
    return sorted[rank < 1 ? 0 : rank > n ? n - 1 : rank - 1];
}

enum { MOST_EXACT = 1000 }; /* 2^-1000 is still a normal double */

/*
 * The number of samples below the median is binomial with p = 1/2, so the interval misses it with probability
 * 2 P(B <= low): H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed. (2003), section 7.1; for benchmarks: T. Hoefler
 * and R. Belli, Scientific Benchmarking of Parallel Computing Systems (SC 2015), rule 5.
 */
static double exact_interval(int n, int *low)
{
    double term = ldexp(1, -n), below = term; /* P(B = k), P(B <= k) */
    int k = 0;
    for (;; k++) {
        double next = term * (n - k) / (k + 1);
        if (2 * (below + next) > 1 - level || 2 * (k + 1) >= n - 1)
            break;
        term = next;
        below += next;
    }
    *low = k;
    return fmax(0, 1 - 2 * below);
}

/* The same by the normal distribution, with the correction for continuity; its deviation is sqrt(n) / 2. */
static double normal_interval(int n, int *low)
{
    *low = (int)floor(0.5 * n - 0.5 - 0.98 * sqrt(n));
    return erf((0.5 * n - 0.5 - *low) / (0.5 * sqrt(n)) / sqrt(2));
}

double stats_median_interval(int n, int *low)
{
    return n <= MOST_EXACT ? exact_interval(n, low) : normal_interval(n, low);
}

struct bench_stats stats_of(double *samples, int n)
{
    int low;
    qsort(samples, (size_t)n, sizeof *samples, compare);
    double ci_level = stats_median_interval(n, &low);
    return (struct bench_stats){
        .n = n,
        .median = 0.5 * (samples[(n - 1) / 2] + samples[n / 2]),
        .min = samples[0],
        .max = samples[n - 1],
        .p5 = quantile(samples, n, 0.05),
        .p95 = quantile(samples, n, 0.95),
        .p99 = quantile(samples, n, 0.99),
        .ci_low = samples[low],
        .ci_high = samples[n - 1 - low],
        .ci_level = ci_level,
    };
}

double stats_share(const struct bench_stats *stats)
{
    if (!(stats->ci_level >= level) || !(stats->median > 0))
        return INFINITY;
    return 0.5 * (stats->ci_high - stats->ci_low) / stats->median;
}

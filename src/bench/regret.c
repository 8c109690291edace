/* regret.c - what it costs to leave the choice to `auto`. */
#include "bench/regret.h"
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool counts(const struct bench_contender *contender, const struct bench_result *result)
{
    return !contender->peer && result->state == BENCH_MEASURED;
}

/* Plain `auto`, as a caller gets it who asks for nothing; -1: not measured. */
static int find_auto(const struct bench_contender *contenders, int ncontenders, const struct bench_point *point)
{
    for (int c = 0; c < ncontenders; c++)
        if (contenders[c].algorithm == TR_ALGORITHM_AUTO && contenders[c].protocol == TR_PROTOCOL_AUTO &&
            contenders[c].channels == 0 && counts(&contenders[c], &point->results[c]))
            return c;
    return -1;
}

static bool ran_the_same(const struct bench_result *a, const struct bench_result *b)
{
    return a->resolved.algorithm == b->resolved.algorithm && a->resolved.protocol == b->resolved.protocol &&
           a->resolved.channels == b->resolved.channels;
}

/* Statistics over the samples of all that ran what `chosen` ran. n = 0: no memory. */
static struct bench_stats pool(const struct bench_contender *contenders, int ncontenders,
                               const struct bench_point *point, int chosen, const double *const *samples, int nsamples)
{
    struct bench_stats stats = {0};
    size_t bytes = (size_t)nsamples * sizeof(double);
    double *pooled = malloc((size_t)ncontenders * bytes);
    int n = 0;
    if (!pooled)
        return stats;
    for (int c = 0; c < ncontenders; c++)
        if (counts(&contenders[c], &point->results[c]) && ran_the_same(&point->results[c], &point->results[chosen])) {
            memcpy(pooled + n, samples[c], bytes);
            n += nsamples;
        }
    stats = stats_of(pooled, n);
    free(pooled);
    return stats;
}

/* The best of ours that ran something else; -1: none did. */
static int best_other(const struct bench_contender *contenders, int ncontenders, const struct bench_point *point,
                      int chosen)
{
    int best = -1;
    const struct bench_result *results = point->results;
    for (int c = 0; c < ncontenders; c++)
        if (counts(&contenders[c], &results[c]) && !ran_the_same(&results[c], &results[chosen]) &&
            (best < 0 || results[c].time.median < results[best].time.median))
            best = c;
    return best;
}

struct bench_regret regret_of(const struct bench_contender *contenders, int ncontenders,
                              const struct bench_point *point, const double *const *samples, int nsamples)
{
    struct bench_regret regret = {.best = -1};
    int chosen = find_auto(contenders, ncontenders, point);
    if (chosen < 0 || point->shape.count == 0)
        return regret;
    int best = best_other(contenders, ncontenders, point, chosen);
    struct bench_stats mine = pool(contenders, ncontenders, point, chosen, samples, nsamples);
    if (best < 0 || mine.n == 0 || !(point->results[best].time.median > 0))
        return regret;
    const struct bench_stats *other = &point->results[best].time;
    return (struct bench_regret){
        .known = true,
        .best = best,
        .same = mine.median <= other->median,
        .auto_us = mine.median,
        .best_us = fmin(mine.median, other->median),
        .value = fmax(0, mine.median / other->median - 1),
        .low = fmax(0, mine.ci_low / other->ci_high - 1),
    };
}

struct regret_summary regret_summarize(const struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    struct regret_summary summary = {0};
    double *values = malloc(((size_t)bench->npoints + 1) * sizeof *values);
    if (!values)
        return summary;
    for (int p = 0; p < bench->npoints; p++) {
        const struct bench_point *point = bench->points[p];
        if (point->datatype != datatype || point->op != op || !point->regret.known)
            continue;
        values[summary.npoints++] = point->regret.value;
        summary.worst_low = fmax(summary.worst_low, point->regret.low);
        if (summary.npoints == 1 || point->regret.value > summary.worst) {
            summary.worst = point->regret.value;
            summary.worst_bytes = point->shape.bytes;
        }
    }
    if (summary.npoints)
        summary.median = stats_of(values, summary.npoints).median;
    free(values);
    return summary;
}

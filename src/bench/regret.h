/*
 * regret.h - what it costs to leave the choice to `auto`: its time over the best measured of ours, less 1.
 *
 * Noise alone must not make a regret: `auto` runs what some contender runs, too, and the less of two noisy medians of the
 * same thing is below either. So auto's samples are pooled with those of all contenders that ran the same algorithm,
 * protocol and channels, and the pool is compared with the best of the others; a pool that is faster has no regret.
 */
#ifndef BENCH_REGRET_H
#define BENCH_REGRET_H

#include "bench/bench.h"

/* Of a measured point; `samples` by contender, `nsamples` each. Unknown where plain `auto` or any other contender of ours
 * was not measured, or memory lacks. */
struct bench_regret regret_of(const struct bench_contender *contenders, int ncontenders,
                              const struct bench_point *point, const double *const *samples, int nsamples);

/* Over the sizes of a sweep. */
struct regret_summary {
    int npoints; /* 0: no regret is known */
    double median, worst;
    size_t worst_bytes;
    double worst_low; /* the largest of what is beyond the intervals */
};

struct regret_summary regret_summarize(const struct bench *bench, enum tr_datatype datatype, enum tr_op op);

#endif

/* fits.h - T(m) = alpha + m / beta of each contender over the sizes of a sweep (model/fit.h). */
#ifndef BENCH_FITS_H
#define BENCH_FITS_H

#include "bench/bench.h"
#include "model/fit.h"

/* One contender's fit. */
struct bench_fit {
    bool known;
    char why[256]; /* not known */
    struct tr_fit fit;
    struct tr_fit_point *points; /* measured, in the sweep's order; those that failed their check are not among them */
    int npoints;
};

/* Fit a contender's medians for a datatype and operation; `fit->points` is the caller's to free. False: no memory. */
bool fits_compute(const struct bench *bench, int contender, enum tr_datatype datatype, enum tr_op op,
                  struct bench_fit *fit);

#endif

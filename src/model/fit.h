/*
 * fit.h - T(m) = alpha + m / beta, fitted to measured points in pieces. Pure arithmetic.
 *
 * A fit minimises the sum of |T(m) / measured - 1| (least absolute relative deviations: decades of m weigh alike, and a few
 * outliers do not move it). Where a protocol switches or a cache ends, one line does not do: the breakpoints are found by
 * dynamic programming over the points. Intervals are 95%, by bootstrap over residuals.
 */
#ifndef TR_FIT_H
#define TR_FIT_H

#include "treering.h"

#include <stdbool.h>

/* A fitted value and its 95% interval. */
struct tr_interval {
    double value, low, high;
};

struct tr_fit_point {
    double bytes, us; /* bytes >= 0, us > 0; points that failed their check are left out by the caller */
};

/* One piece: T(m) = alpha + m / beta for from_bytes <= m <= to_bytes. */
struct tr_segment {
    double from_bytes, to_bytes; /* the smallest and the largest point that it was fitted to */
    int npoints;
    struct tr_interval alpha_us;   /* >= 0 */
    struct tr_interval beta_gbps;  /* 10^9 bytes a second; INFINITY where the time does not grow */
    struct tr_interval half_bytes; /* m_1/2 = alpha x beta */
};

enum { TR_FIT_MAX_SEGMENTS = 6 };

struct tr_fit {
    int nsegments;
    struct tr_segment segments[TR_FIT_MAX_SEGMENTS]; /* by size */
    double median_residual, largest_residual;        /* |T(m) / measured - 1| over the points */
};

/* Fit; the points may come in any order and a size several times. Errors: ARGUMENT (fewer than 3 sizes, or a value out of
 * range), MEMORY. The same points and seed give the same fit. */
enum tr_status tr_fit_curve(const struct tr_fit_point *points, int npoints, unsigned seed, struct tr_fit *fit);

/* The fitted time at a size, microseconds; beyond the points the outer pieces go on. */
double tr_fit_predict(const struct tr_fit *fit, double bytes);

#endif

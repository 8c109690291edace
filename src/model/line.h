/* line.h - one line T(m) = alpha + m x slope of least absolute relative deviations, alpha and slope not negative. */
#ifndef TR_LINE_H
#define TR_LINE_H

#include "model/fit.h"

struct tr_line {
    double alpha; /* us */
    double slope; /* us a byte */
    double loss;  /* sum of |T(m) / measured - 1| */
};

/* A crossing of a line with a point, and what it weighs. */
struct tr_weighted {
    double value, weight;
};

/* Fit `n` > 0 points; `scratch` has room for n. */
struct tr_line tr_line_fit(const struct tr_fit_point *points, int n, struct tr_weighted *scratch);

static inline double tr_line_at(const struct tr_line *line, double bytes)
{
    return line->alpha + line->slope * bytes;
}

#endif

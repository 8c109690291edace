/* regression.h - T = sum of x_j c_j, of least absolute relative deviations, no c_j negative. */
#ifndef TR_REGRESSION_H
#define TR_REGRESSION_H

enum { TR_TERMS = 5 }; /* launch, messages, steps, link bytes, reduced bytes */

struct tr_observation {
    double x[TR_TERMS]; /* >= 0 */
    double us;          /* > 0 */
};

struct tr_regression {
    double c[TR_TERMS]; /* >= 0 */
    double loss;        /* sum of |T / us - 1| */
};

/* Fit `n` observations; terms whose bit in `left_out` is set stay 0, and so do those that are 0 in all observations. */
struct tr_regression tr_regression_fit(const struct tr_observation *observations, int n, unsigned left_out);

double tr_regression_at(const struct tr_regression *regression, const struct tr_observation *observation);

#endif

/* p2p_outlier.c - the modified z-score. */
#include "bench/p2p_outlier.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double median_of(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}

/* What |x - median| is divided by to give the score; 0: all values are the same. */
static double scale_of(const struct p2p_value *values, int n, double median, double *scratch)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        scratch[i] = fabs(values[i].x - median);
        sum += scratch[i];
    }
    double mad = median_of(scratch, n);
    return mad > 0 ? mad / 0.6745 : 1.2533 * sum / n;
}

bool p2p_find_outliers(struct p2p_value *values, int n)
{
    double *scratch = n >= P2P_OUTLIER_LEAST ? malloc((size_t)n * sizeof *scratch) : NULL;
    for (int i = 0; i < n; i++) {
        values[i].outlier = false;
        values[i].score = 0;
        if (scratch)
            scratch[i] = values[i].x;
    }
    if (!scratch)
        return false;
    double median = median_of(scratch, n);
    double scale = scale_of(values, n, median, scratch);
    for (int i = 0; i < n && scale > 0; i++) {
        values[i].score = (values[i].x - median) / scale;
        values[i].outlier = values[i].score > P2P_OUTLIER_SCORE && values[i].low > median * (1 + P2P_OUTLIER_SHARE);
    }
    free(scratch);
    return true;
}

/* fit.c - a curve of lines: sort the points, cut (breakpoints.c), bound (bootstrap.c), predict. */
#include "model/fit.h"
#include "collectives/error.h"
#include "model/bootstrap.h"
#include "model/breakpoints.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    const struct tr_fit_point *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? 1 : -1;
    return (x->us > y->us) - (x->us < y->us);
}

static enum tr_status check_points(const struct tr_fit_point *points, int n)
{
    for (int i = 0; i < n; i++)
        if (!(points[i].bytes >= 0 && points[i].bytes <= 1e18 && points[i].us >= 1e-9 && points[i].us <= 1e15))
            return tr_error(TR_ERR_ARGUMENT, "point %d, %g bytes in %g us, cannot be fitted: leave it out", i,
                            points[i].bytes, points[i].us);
    return TR_OK;
}

static enum tr_status check_sizes(const struct tr_fit_point *sorted, int n)
{
    int sizes = n > 0;
    for (int i = 1; i < n; i++)
        sizes += sorted[i].bytes != sorted[i - 1].bytes;
    if (sizes < 3)
        return tr_error(TR_ERR_ARGUMENT, "a fit needs points of at least 3 sizes, not %d: measure more", sizes);
    return TR_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void set_residuals(const struct tr_fit_point *points, int n, double *residuals, struct tr_fit *fit)
{
    for (int i = 0; i < n; i++)
        residuals[i] = fabs(tr_fit_predict(fit, points[i].bytes) / points[i].us - 1);
    qsort(residuals, (size_t)n, sizeof *residuals, by_value);
    fit->median_residual = (residuals[(n - 1) / 2] + residuals[n / 2]) / 2;
    fit->largest_residual = residuals[n - 1];
}

static enum tr_status fit_sorted(const struct tr_fit_point *points, int n, unsigned seed, double *residuals,
                                 struct tr_fit *fit)
{
    struct tr_piece pieces[TR_FIT_MAX_SEGMENTS];
    struct tr_fit made = {0};
    enum tr_status status = tr_breakpoints_find(points, n, pieces, &made.nsegments);
    if (status == TR_OK)
        status = tr_bootstrap(points, n, pieces, made.nsegments, seed, made.segments);
    if (status != TR_OK)
        return status;
    for (int k = 0; k < made.nsegments; k++) {
        const struct tr_piece *piece = &pieces[k];
        made.segments[k].from_bytes = points[piece->first].bytes;
        made.segments[k].to_bytes = points[piece->first + piece->npoints - 1].bytes;
        made.segments[k].npoints = piece->npoints;
    }
    set_residuals(points, n, residuals, &made);
    *fit = made;
    return TR_OK;
}

enum tr_status tr_fit_curve(const struct tr_fit_point *points, int npoints, unsigned seed, struct tr_fit *fit)
{
    if (npoints < 3)
        return tr_error(TR_ERR_ARGUMENT, "a fit needs points of at least 3 sizes, not %d points: measure more",
                        npoints);
    enum tr_status status = check_points(points, npoints);
    if (status != TR_OK)
        return status;
    struct tr_fit_point *sorted = calloc((size_t)npoints, sizeof *sorted);
    double *residuals = calloc((size_t)npoints, sizeof *residuals);
    if (!sorted || !residuals) {
        status = tr_error(TR_ERR_MEMORY, "no memory to fit %d points: fit fewer", npoints);
        goto free_buffers;
    }
    memcpy(sorted, points, (size_t)npoints * sizeof *sorted);
    qsort(sorted, (size_t)npoints, sizeof *sorted, by_size);
    status = check_sizes(sorted, npoints);
    if (status == TR_OK)
        status = fit_sorted(sorted, npoints, seed, residuals, fit);
free_buffers:
    free(residuals);
    free(sorted);
    return status;
}

/* us at `bytes`; 10^9 bytes a second are 10^3 bytes a us. */
static double at(const struct tr_segment *segment, double bytes)
{
    return segment->alpha_us.value + bytes / (segment->beta_gbps.value * 1e3);
}

/* Between the last point of a piece and the first of the next, where nothing was measured, the time goes from the one to
 * the other as a power of the size. */
static double between(const struct tr_segment *lower, const struct tr_segment *upper, double bytes)
{
    double from = at(lower, lower->to_bytes), to = at(upper, upper->from_bytes);
    double share = log(bytes / lower->to_bytes) / log(upper->from_bytes / lower->to_bytes);
    return from * pow(to / from, share);
}

double tr_fit_predict(const struct tr_fit *fit, double bytes)
{
    int k = 0;
    while (k < fit->nsegments - 1 && bytes >= fit->segments[k + 1].from_bytes)
        k++;
    const struct tr_segment *segment = &fit->segments[k];
    if (k < fit->nsegments - 1 && bytes > segment->to_bytes)
        return between(segment, segment + 1, bytes);
    return at(segment, bytes);
}

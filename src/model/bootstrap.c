/*
 * bootstrap.c - intervals by the residual bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
 * chapters 9 and 13).
 *
 * A replicate draws, for every point, one of the deviations log(measured / T(m)) of all pieces, multiplies it into T(m)
 * and fits anew; the interval of a coefficient runs from the 2nd to the 98th percentile of its replicates, a little more
 * than 95%, since breakpoints were chosen as well. Few points need two corrections: a line lets its own points deviate too little, by sqrt(n / (n - 2 k)) for k pieces, and a median
 * of few different values jumps, so that noise of a kernel's width is added to each (the smoothed bootstrap: Hall,
 * DiCiccio and Romano, On smoothing and the bootstrap, 1989).
 */
#include "model/bootstrap.h"
#include "collectives/error.h"

#include <math.h>
#include <stdlib.h>

enum { REPLICATES = 999, OUTSIDE = 20 }; /* the 20th smallest and the 20th largest bound the interval */

struct bootstrap {
    const struct tr_fit_point *points;
    int n;
    double *deviations; /* of all points */
    double width;       /* of the kernel */
    struct tr_fit_point *drawn;
    struct tr_weighted *scratch;
    double *alpha, *slope, *half; /* by replicate */
    unsigned short random[3];
};

/* us x 10^9 bytes a second, in bytes. */
static const double bytes_per_us_gbps = 1e3;

static double gbps(double slope)
{
    return slope > 0 ? 1 / (slope * bytes_per_us_gbps) : INFINITY;
}

static double half(double alpha, double slope)
{
    return slope > 0 ? alpha / slope : INFINITY;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The percentile interval, which always holds the value itself. */
static struct tr_interval interval(double value, double *replicates)
{
    qsort(replicates, REPLICATES, sizeof *replicates, by_value);
    return (struct tr_interval){value, fmin(value, replicates[OUTSIDE - 1]),
                                fmax(value, replicates[REPLICATES - OUTSIDE])};
}

/* Standard normal, by the polar method of Marsaglia (1964). */
static double normal(unsigned short random[3])
{
    double x, y, square;
    do {
        x = 2 * erand48(random) - 1;
        y = 2 * erand48(random) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    return x * sqrt(-2 * log(square) / square);
}

/* Deviations, widened; their spread is the median of the absolute ones, over that of a normal variable. */
static void prepare(struct bootstrap *b, const struct tr_piece *pieces, int npieces)
{
    int free_points = b->n - 2 * npieces;
    double widen = sqrt(b->n / fmax(1, free_points));
    double *sizes = b->alpha; /* REPLICATES or n, whichever is more */
    for (int k = 0; k < npieces; k++)
        for (int i = pieces[k].first; i < pieces[k].first + pieces[k].npoints; i++) {
            b->deviations[i] = widen * log(b->points[i].us / tr_line_at(&pieces[k].line, b->points[i].bytes));
            sizes[i] = fabs(b->deviations[i]);
        }
    qsort(sizes, (size_t)b->n, sizeof *sizes, by_value);
    double spread = sizes[b->n / 2] / 0.6745;
    b->width = 0.9 * spread * pow(b->n, -0.2); /* Silverman 1986, 3.31 */
}

static void draw(struct bootstrap *b, const struct tr_piece *piece)
{
    for (int i = 0; i < piece->npoints; i++) {
        const struct tr_fit_point *point = &b->points[piece->first + i];
        int from = (int)(erand48(b->random) * b->n);
        double deviation = b->deviations[from] + b->width * normal(b->random);
        b->drawn[i] = (struct tr_fit_point){point->bytes, tr_line_at(&piece->line, point->bytes) * exp(deviation)};
    }
}

static void bound(struct bootstrap *b, const struct tr_piece *piece, struct tr_segment *segment)
{
    for (int i = 0; i < REPLICATES; i++) {
        draw(b, piece);
        struct tr_line line = tr_line_fit(b->drawn, piece->npoints, b->scratch);
        b->alpha[i] = line.alpha;
        b->slope[i] = line.slope;
        b->half[i] = half(line.alpha, line.slope);
    }
    const struct tr_line *line = &piece->line;
    segment->alpha_us = interval(line->alpha, b->alpha);
    segment->half_bytes = interval(half(line->alpha, line->slope), b->half);
    struct tr_interval slope = interval(line->slope, b->slope);
    segment->beta_gbps = (struct tr_interval){gbps(slope.value), gbps(slope.high), gbps(slope.low)};
}

enum tr_status tr_bootstrap(const struct tr_fit_point *points, int n, const struct tr_piece *pieces, int npieces,
                            unsigned seed, struct tr_segment *segments)
{
    struct bootstrap b = {
        .points = points, .n = n, .random = {0x330E, (unsigned short)seed, (unsigned short)(seed >> 16)}};
    enum tr_status status = TR_OK;
    size_t room = (size_t)(n > REPLICATES ? n : REPLICATES);
    double *numbers = calloc(3 * room + (size_t)n, sizeof *numbers);
    b.drawn = calloc((size_t)n, sizeof *b.drawn);
    b.scratch = calloc((size_t)n, sizeof *b.scratch);
    if (!numbers || !b.drawn || !b.scratch) {
        status = tr_error(TR_ERR_MEMORY, "no memory to bound the fit of %d points: fit fewer", n);
        goto free_buffers;
    }
    b.alpha = numbers;
    b.slope = numbers + room;
    b.half = numbers + 2 * room;
    b.deviations = numbers + 3 * room;
    prepare(&b, pieces, npieces);
    for (int k = 0; k < npieces; k++)
        bound(&b, &pieces[k], &segments[k]);
free_buffers:
    free(b.scratch);
    free(b.drawn);
    free(numbers);
    return status;
}

/* fits.c - alpha and beta of each contender. */
#include "bench/fits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the bootstrap: the same points always give the same intervals. */
enum { SEED = 1 };

static bool usable(const struct bench_point *point, int contender, enum tr_datatype datatype, enum tr_op op)
{
    const struct bench_result *result = &point->results[contender];
    return point->datatype == datatype && point->op == op && point->shape.count > 0 &&
           result->state == BENCH_MEASURED && result->time.median > 0;
}

/* A fit fails where it is made, not on a rank. */
static const char *without_place(const struct bench *bench, const char *sentence)
{
    char place[128];
    int length = snprintf(place, sizeof place, "rank %d on %s: ", bench->rank, bench->info.host);
    return strncmp(sentence, place, (size_t)length) == 0 ? sentence + length : sentence;
}

bool fits_compute(const struct bench *bench, int contender, enum tr_datatype datatype, enum tr_op op,
                  struct bench_fit *fit)
{
    *fit = (struct bench_fit){.points = calloc((size_t)bench->npoints + 1, sizeof *fit->points)};
    if (!fit->points)
        return false;
    for (int p = 0; p < bench->npoints; p++)
        if (usable(bench->points[p], contender, datatype, op))
            fit->points[fit->npoints++] = (struct tr_fit_point){(double)bench->points[p]->shape.bytes,
                                                                bench->points[p]->results[contender].time.median};
    fit->known = tr_fit_curve(fit->points, fit->npoints, SEED, &fit->fit) == TR_OK;
    if (!fit->known)
        snprintf(fit->why, sizeof fit->why, "%s", without_place(bench, tr_last_error()));
    return true;
}

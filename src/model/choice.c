/*
 * choice.c - the fastest curve at each size.
 *
 * Rows are found once, on a grid of sizes, so that a call only looks one up. A curve serves the sizes that it was measured
 * at; one that was measured as far as any serves all beyond as well, and one that begins where the first do all before. A
 * row changes hands only for a gain above the noise of the fits, and not beyond what was measured.
 */
#include "model/choice.h"

#include "collectives/error.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_AN_OCTAVE = 8,
    OCTAVES = 44, /* 1 byte to 16 TiB */
    MOST_ROWS = STEPS_AN_OCTAVE * OCTAVES
};
static const double least_gain = 0.02; /* of the time, to change from one row to the next */

struct table {
    struct tr_choice *rows;
    int nrows;
};

struct tr_chooser {
    struct tr_curve *curves;
    int ncurves;
    struct table tables[TR_COLLECTIVE_COUNT][2]; /* plain, registered */
};

static bool is_for(const struct tr_curve *curve, enum tr_collective collective, bool registered)
{
    return curve->collective == collective && curve->registered == registered && curve->fit.nsegments > 0;
}

static double largest_measured(const struct tr_curve *curve)
{
    return curve->fit.segments[curve->fit.nsegments - 1].to_bytes;
}

static double smallest_measured(const struct tr_curve *curve)
{
    return curve->fit.segments[0].from_bytes;
}

/* The smallest and the largest size at which any curve for this was measured. */
struct range {
    double first, last;
};

static struct range sweep_range(const struct tr_chooser *chooser, enum tr_collective collective, bool registered)
{
    struct range range = {INFINITY, 0};
    for (int i = 0; i < chooser->ncurves; i++)
        if (is_for(&chooser->curves[i], collective, registered)) {
            range.first = fmin(range.first, smallest_measured(&chooser->curves[i]));
            range.last = fmax(range.last, largest_measured(&chooser->curves[i]));
        }
    return range;
}

static bool serves(const struct tr_curve *curve, double bytes, struct range sweep)
{
    double first = smallest_measured(curve), last = largest_measured(curve);
    return (bytes >= first || first <= sweep.first) && (bytes <= last || last >= sweep.last);
}

static bool agrees(const struct tr_curve *curve, const struct tr_tuning *fixed)
{
    return (fixed->algorithm == TR_ALGORITHM_AUTO || fixed->algorithm == curve->algorithm) &&
           (fixed->protocol == TR_PROTOCOL_AUTO || fixed->protocol == curve->protocol) &&
           (fixed->channels == 0 || curve->channels == 0 || fixed->channels == curve->channels);
}

/* The fastest curve that serves a size; `held` (may be NULL) stays unless another gains enough. */
static const struct tr_curve *fastest(const struct tr_chooser *chooser, enum tr_collective collective, bool registered,
                                      double bytes, const struct tr_tuning *fixed, const struct tr_curve *held)
{
    struct range sweep = sweep_range(chooser, collective, registered);
    double least = INFINITY, of_held = INFINITY;
    const struct tr_curve *best = NULL;
    for (int i = 0; i < chooser->ncurves; i++) {
        const struct tr_curve *curve = &chooser->curves[i];
        if (!is_for(curve, collective, registered) || !agrees(curve, fixed) || !serves(curve, bytes, sweep))
            continue;
        double us = tr_fit_predict(&curve->fit, bytes);
        if (curve == held)
            of_held = us;
        if (us < least) {
            least = us;
            best = curve;
        }
    }
    return least > of_held * (1 - least_gain) ? held : best;
}

static double grid(int i)
{
    return exp2((double)i / STEPS_AN_OCTAVE);
}

static enum tr_status fill(const struct tr_chooser *chooser, enum tr_collective collective, bool registered,
                           struct table *table)
{
    static const struct tr_tuning nothing_fixed = {0};
    struct tr_choice rows[MOST_ROWS];
    int nrows = 0;
    const struct tr_curve *held = NULL;
    double last = sweep_range(chooser, collective, registered).last;
    for (int i = 0; i < MOST_ROWS && (i == 0 || grid(i - 1) < last); i++) {
        const struct tr_curve *best = fastest(chooser, collective, registered, grid(i), &nothing_fixed, held);
        if (!best) /* between two ranges of sizes that were measured: what won last stays */
            best = held;
        if (!best)
            continue;
        if (best != held)
            rows[nrows++].curve = best;
        rows[nrows - 1].max_bytes = (size_t)grid(i);
        held = best;
    }
    if (nrows == 0)
        return TR_OK;
    rows[nrows - 1].max_bytes = SIZE_MAX;
    table->rows = malloc((size_t)nrows * sizeof *rows);
    if (!table->rows)
        return tr_error(TR_ERR_MEMORY, "no memory for the %d rows of a model's choices", nrows);
    memcpy(table->rows, rows, (size_t)nrows * sizeof *rows);
    table->nrows = nrows;
    return TR_OK;
}

static enum tr_status fill_tables(struct tr_chooser *chooser)
{
    enum tr_status status = TR_OK;
    for (int c = 0; c < TR_COLLECTIVE_COUNT && status == TR_OK; c++)
        for (int registered = 0; registered < 2 && status == TR_OK; registered++)
            status = fill(chooser, (enum tr_collective)c, registered, &chooser->tables[c][registered]);
    return status;
}

enum tr_status tr_chooser_create(const struct tr_curve *curves, int ncurves, struct tr_chooser **out)
{
    struct tr_chooser *chooser = calloc(1, sizeof *chooser);
    struct tr_curve *copy = malloc(((size_t)ncurves + 1) * sizeof *copy);
    if (!chooser || !copy) {
        free(chooser);
        free(copy);
        return tr_error(TR_ERR_MEMORY, "no memory for the %d curves of a model", ncurves);
    }
    memcpy(copy, curves, (size_t)ncurves * sizeof *copy);
    chooser->curves = copy;
    chooser->ncurves = ncurves;
    enum tr_status status = fill_tables(chooser);
    if (status != TR_OK) {
        tr_chooser_free(chooser);
        return status;
    }
    *out = chooser;
    return TR_OK;
}

void tr_chooser_free(struct tr_chooser *chooser)
{
    if (!chooser)
        return;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int registered = 0; registered < 2; registered++)
            free(chooser->tables[c][registered].rows);
    free(chooser->curves);
    free(chooser);
}

int tr_chooser_rows(const struct tr_chooser *chooser, enum tr_collective collective, bool registered,
                    const struct tr_choice **rows)
{
    *rows = chooser->tables[collective][registered].rows;
    return chooser->tables[collective][registered].nrows;
}

static const struct tr_curve *look_up(const struct table *table, size_t bytes)
{
    for (int i = 0; i < table->nrows; i++)
        if (bytes <= table->rows[i].max_bytes)
            return table->rows[i].curve;
    return NULL;
}

bool tr_chooser_pick(const struct tr_chooser *chooser, enum tr_collective collective, size_t bytes, bool registered,
                     struct tr_tuning *tuning)
{
    bool free_choice =
        tuning->algorithm == TR_ALGORITHM_AUTO && tuning->protocol == TR_PROTOCOL_AUTO && tuning->channels == 0;
    const struct tr_curve *curve = free_choice ? look_up(&chooser->tables[collective][registered], bytes)
                                               : fastest(chooser, collective, registered, (double)bytes, tuning, NULL);
    if (!curve)
        return false;
    tuning->algorithm = curve->algorithm;
    tuning->protocol = curve->protocol;
    if (!tuning->channels)
        tuning->channels = curve->channels;
    return true;
}

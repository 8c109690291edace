/*
 * segmentation.c - cut a row of places into pieces.
 *
 * For every number of pieces dynamic programming finds the cuts of least loss among all (Bai and Perron, Computation and
 * analysis of multiple structural change models, 2003; for least absolute deviations Bai, Estimation of multiple-regime
 * regressions, 1998). How many pieces there are is decided by Schwarz's criterion with the likelihood of absolute
 * deviations (Yao, Estimating the number of change-points via Schwarz' criterion, 1988):
 *
 *     2 n log(mean deviation) + (t + 1) k log n          k pieces of t coefficients and a cut each
 *
 * in which the mean is taken over n - (t + 1) k points, since k pieces let so many fewer deviate, and is never less than
 * what clocks repeat.
 */
#include "model/segmentation.h"

#include <math.h>

static const double repeatable = 0.01; /* a relative deviation of less is no reason for another piece */

struct search {
    const struct tr_segmentation *in;
    double loss[TR_MAX_PIECES + 1][TR_MAX_PLACES + 1]; /* of what lies before a place, cut into k pieces */
    int before[TR_MAX_PIECES + 1][TR_MAX_PLACES + 1];  /* the place where the last of them begins */
};

/* The best way to cut what lies before `to` into k pieces. */
static void extend(struct search *s, int k, int to)
{
    s->loss[k][to] = INFINITY;
    for (int from = 0; from < to; from++) {
        double loss = s->loss[k - 1][from] + s->in->loss[from * (s->in->nplaces + 1) + to];
        if (loss < s->loss[k][to]) {
            s->loss[k][to] = loss;
            s->before[k][to] = from;
        }
    }
}

static double criterion(const struct search *s, int k)
{
    double n = s->in->n, used = (s->in->terms + 1) * k, loss = s->loss[k][s->in->nplaces];
    double mean = n > used ? loss / (n - used) : INFINITY;
    return 2 * n * log(fmax(mean, repeatable)) + used * log(n);
}

int tr_segmentation_cut(const struct tr_segmentation *segmentation, int places[static TR_MAX_PIECES + 1])
{
    struct search s = {.in = segmentation};
    int end = segmentation->nplaces, best = 1;
    for (int to = 0; to <= end; to++)
        s.loss[0][to] = to == 0 ? 0 : INFINITY;
    for (int k = 1; k <= segmentation->most; k++) {
        for (int to = 0; to <= end; to++)
            extend(&s, k, to);
        if (criterion(&s, k) < criterion(&s, best))
            best = k;
    }
    places[best] = end;
    for (int k = best; k > 0; k--)
        places[k - 1] = s.before[k][places[k]];
    return best;
}

/*
 * line.c - one line of least absolute relative deviations, exactly.
 *
 * The loss is convex and piecewise linear in (alpha, slope), so some line that goes through two points (the origin counts,
 * where alpha = 0, and so does a point infinitely far to the right, where the slope is 0) attains the minimum. Among all
 * lines through one given point the best is a weighted median of slopes. Descent (Bloomfield and Steiger, Least Absolute
 * Deviations, 1983): take the best line through a point, turn it about each point that it meets, and stop when no turn
 * improves it. Every fold of the loss that meets in the current line is tried, so a stop is a minimum, ties included.
 */
#include "model/line.h"

#include <math.h>

static const double rounding = 1e-12; /* relative, of a loss */
static const double meets = 1e-6;     /* a relative deviation of less counts as a meeting; too many cost time alone */

/* The value below and above which at most half of the weight lies (0 without any weight). Reorders `w`. */
static double weighted_median(struct tr_weighted *w, int n)
{
    double below = 0, total = 0;
    for (int i = 0; i < n; i++)
        total += w[i].weight;
    int from = 0, to = n;
    while (to - from > 1) {
        double pivot = w[from + (to - from) / 2].value, less = 0, equal = 0;
        int a = from, b = from, c = to; /* [from, a) is less, [a, b) equal, [c, to) more */
        while (b < c) {
            struct tr_weighted x = w[b];
            if (x.value > pivot) {
                w[b] = w[--c];
                w[c] = x;
            } else if (x.value < pivot) {
                w[b++] = w[a];
                w[a++] = x;
                less += x.weight;
            } else {
                b++;
                equal += x.weight;
            }
        }
        if (a > from && below + less >= total / 2) {
            to = a;
        } else if (c == to || below + less + equal >= total / 2) {
            return pivot;
        } else {
            below += less + equal;
            from = c;
        }
    }
    return n ? w[from].value : 0;
}

static double loss_of(const struct tr_line *line, const struct tr_fit_point *points, int n)
{
    double loss = 0;
    for (int i = 0; i < n; i++)
        loss += fabs(tr_line_at(line, points[i].bytes) / points[i].us - 1);
    return loss;
}

/* The best of the lines through a point; the origin, (0, 0), may be that point. */
static struct tr_line turned_about(struct tr_fit_point pivot, const struct tr_fit_point *points, int n,
                                   struct tr_weighted *scratch)
{
    int used = 0;
    for (int i = 0; i < n; i++) {
        double run = points[i].bytes - pivot.bytes;
        if (run != 0)
            scratch[used++] = (struct tr_weighted){(points[i].us - pivot.us) / run, fabs(run) / points[i].us};
    }
    double slope = fmax(0, weighted_median(scratch, used));
    if (pivot.bytes > 0)
        slope = fmin(slope, pivot.us / pivot.bytes); /* alpha >= 0 */
    struct tr_line line = {fmax(0, pivot.us - slope * pivot.bytes), slope, 0};
    line.loss = loss_of(&line, points, n);
    return line;
}

static struct tr_line level(const struct tr_fit_point *points, int n, struct tr_weighted *scratch)
{
    for (int i = 0; i < n; i++)
        scratch[i] = (struct tr_weighted){points[i].us, 1 / points[i].us};
    struct tr_line line = {weighted_median(scratch, n), 0, 0};
    line.loss = loss_of(&line, points, n);
    return line;
}

static bool keep_better(struct tr_line *best, struct tr_line other)
{
    if (!(other.loss < best->loss * (1 - rounding)))
        return false;
    *best = other;
    return true;
}

/* Turn the line about each point that it meets, until a turn improves it. */
static bool improve(struct tr_line *line, const struct tr_fit_point *points, int n, struct tr_weighted *scratch)
{
    const struct tr_fit_point origin = {0, 0};
    for (int i = 0; i < n; i++)
        if (fabs(tr_line_at(line, points[i].bytes) / points[i].us - 1) <= meets &&
            keep_better(line, turned_about(points[i], points, n, scratch)))
            return true;
    return keep_better(line, level(points, n, scratch)) || keep_better(line, turned_about(origin, points, n, scratch));
}

struct tr_line tr_line_fit(const struct tr_fit_point *points, int n, struct tr_weighted *scratch)
{
    const struct tr_fit_point origin = {0, 0};
    struct tr_line line = level(points, n, scratch);
    keep_better(&line, turned_about(origin, points, n, scratch));
    while (line.loss > 0 && improve(&line, points, n, scratch))
        ;
    return line;
}

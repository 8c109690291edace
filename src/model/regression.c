/*
 * regression.c - several terms at once, of least absolute relative deviations, none negative.
 *
 * Least squares, weighted anew by the inverse of each deviation until the weights settle (iteratively reweighted least
 * squares: Schlossmacher 1973). Under the condition that no coefficient is negative the least squares are those of one of
 * the 31 sets of terms that may differ from 0 (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23): all
 * are tried. A set whose terms cannot be told apart has no solution and is passed over.
 */
#include "model/regression.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ROUNDS = 60, SETS = 1 << TR_TERMS };
static const double least_pivot = 1e-9;     /* of a scaled column, what others leave of it: less is nothing */
static const double least_deviation = 1e-4; /* relative; smaller ones weigh alike */

/* The normal equations of sum of w (sum of x_j c_j / us - 1)^2, columns scaled to the same norm. */
struct normal {
    double a[TR_TERMS][TR_TERMS], b[TR_TERMS], norm[TR_TERMS];
};

static void add_up(const struct tr_observation *o, int n, const struct tr_regression *last, bool first,
                   struct normal *normal)
{
    memset(normal, 0, sizeof *normal);
    for (int i = 0; i < n; i++) {
        double deviation = fabs(tr_regression_at(last, &o[i]) / o[i].us - 1);
        double w = first ? 1 : 1 / fmax(deviation, least_deviation);
        for (int j = 0; j < TR_TERMS; j++) {
            double x = w * o[i].x[j] / o[i].us;
            normal->b[j] += x;
            for (int k = 0; k <= j; k++)
                normal->a[j][k] += x * o[i].x[k] / o[i].us;
        }
    }
    for (int j = 0; j < TR_TERMS; j++)
        normal->norm[j] = sqrt(normal->a[j][j]);
}

/* Solve for the terms of `set` by Cholesky's decomposition; false: they cannot be told apart, or one would be negative. */
static bool solve(const struct normal *normal, unsigned set, double c[static TR_TERMS])
{
    double l[TR_TERMS][TR_TERMS] = {0}, y[TR_TERMS] = {0};
    int terms[TR_TERMS], n = 0;
    for (int j = 0; j < TR_TERMS; j++)
        if (set >> j & 1)
            terms[n++] = j;
    for (int i = 0; i < n; i++) {
        double scale = normal->norm[terms[i]];
        for (int j = 0; j <= i; j++) {
            double sum = normal->a[terms[i]][terms[j]] / scale / normal->norm[terms[j]];
            for (int k = 0; k < j; k++)
                sum -= l[i][k] * l[j][k];
            if (i == j && !(sum > least_pivot))
                return false;
            l[i][j] = i == j ? sqrt(sum) : sum / l[j][j];
        }
        y[i] = normal->b[terms[i]] / scale;
        for (int k = 0; k < i; k++)
            y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    memset(c, 0, TR_TERMS * sizeof *c);
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            y[i] -= l[k][i] * y[k];
        y[i] /= l[i][i];
        c[terms[i]] = y[i] / normal->norm[terms[i]];
        if (!(c[terms[i]] >= 0))
            return false;
    }
    return true;
}

/* What least squares explain: c a c - 2 c b, less for better. */
static double badness(const struct normal *normal, const double c[static TR_TERMS])
{
    double sum = 0;
    for (int j = 0; j < TR_TERMS; j++) {
        double row = normal->a[j][j] * c[j];
        for (int k = 0; k < j; k++)
            row += 2 * normal->a[j][k] * c[k];
        sum += c[j] * row - 2 * c[j] * normal->b[j];
    }
    return sum;
}

static void best_set(const struct normal *normal, unsigned left_out, double c[static TR_TERMS])
{
    double best = 0, tried[TR_TERMS];
    memset(c, 0, TR_TERMS * sizeof *c);
    for (unsigned set = 1; set < SETS; set++) {
        bool allowed = !(set & left_out);
        for (int j = 0; j < TR_TERMS; j++)
            allowed = allowed && (!(set >> j & 1) || normal->norm[j] > 0);
        if (!allowed || !solve(normal, set, tried) || !(badness(normal, tried) < best))
            continue;
        best = badness(normal, tried);
        memcpy(c, tried, sizeof tried);
    }
}

double tr_regression_at(const struct tr_regression *regression, const struct tr_observation *observation)
{
    double us = 0;
    for (int j = 0; j < TR_TERMS; j++)
        us += regression->c[j] * observation->x[j];
    return us;
}

struct tr_regression tr_regression_fit(const struct tr_observation *observations, int n, unsigned left_out)
{
    struct tr_regression best = {.loss = INFINITY}, now = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct normal normal;
        double last = now.loss;
        add_up(observations, n, &now, round == 0, &normal);
        best_set(&normal, left_out, now.c);
        now.loss = 0;
        for (int i = 0; i < n; i++)
            now.loss += fabs(tr_regression_at(&now, &observations[i]) / observations[i].us - 1);
        if (now.loss < best.loss)
            best = now;
        if (round > 0 && fabs(now.loss - last) <= 1e-6 * last)
            break;
    }
    return best;
}

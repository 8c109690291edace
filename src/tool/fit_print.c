/* fit_print.c - a fitted model for people: units, intervals, theory beside measurement, crossovers. */
#include "bench/sizes.h"
#include "tool/fit.h"
#include "tool/points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Figures ----------------------------------------------------------------------------------------------------- */

enum { CELL = 40 };

/* "3.5 [3.4, 3.7]". */
static const char *interval_text(const struct tr_interval *interval, char cell[static CELL])
{
    snprintf(cell, CELL, "%.3g [%.3g, %.3g]", interval->value, interval->low, interval->high);
    return cell;
}

static const char *bytes_text(double bytes, char cell[static SIZE_TEXT])
{
    if (bytes < 1e18)
        return size_format((size_t)bytes, cell);
    snprintf(cell, SIZE_TEXT, "any");
    return cell;
}

static void print_machine(const struct tr_model *model, int npriced)
{
    const struct tr_machine *m = &model->machine;
    printf("%d ranks, %s memory", m->nranks, tr_memory_name(m->memory));
    if (m->ranks_on_device > 1)
        printf(", %d ranks share a GPU", m->ranks_on_device);
    printf(", %s on %s; %d points of our algorithms; %s\n", m->name, m->host, npriced, model->origin);
}

/* ---- The machine ------------------------------------------------------------------------------------------------- */

static void print_parameters(const struct tr_model *model)
{
    char launch[CELL], alpha[CELL], overhead[CELL], beta[CELL], gamma[CELL], from[SIZE_TEXT], to[SIZE_TEXT];
    printf(
        "\nThe machine: T = launch + messages x alpha + steps x overhead + link bytes / beta + reduced bytes / gamma\n"
        "(95%% intervals; 0 us and inf GB/s: costs nothing that can be told from the rest)\n\n"
        "%-8s %-12s %-6s %-22s %-22s %-22s %-22s %-22s %s\n",
        "protocol", "bytes", "points", "launch us", "alpha us", "overhead us", "beta GB/s", "gamma GB/s",
        "off by: median, worst");
    for (int i = 0; i < model->nparameters; i++) {
        const struct tr_parameters *p = &model->parameters[i];
        printf("%-8s %5s..%-5s %6d %-22s %-22s %-22s %-22s %-22s %.0f%%, %.0f%%\n", tr_protocol_name(p->protocol),
               bytes_text(p->from_bytes, from), bytes_text(p->to_bytes, to), p->npoints,
               interval_text(&p->launch_us, launch), interval_text(&p->alpha_us, alpha),
               interval_text(&p->overhead_us, overhead), interval_text(&p->beta_gbps, beta),
               interval_text(&p->gamma_gbps, gamma), 100 * p->median_residual, 100 * p->largest_residual);
    }
}

/* ---- Curves ------------------------------------------------------------------------------------------------------ */

static void print_curve(const struct tr_curve *curve)
{
    char alpha[CELL], beta[CELL], half[CELL], from[SIZE_TEXT], to[SIZE_TEXT];
    for (int k = 0; k < curve->fit.nsegments; k++) {
        const struct tr_segment *s = &curve->fit.segments[k];
        printf("%-14s %-10s %-9s %-8s %5s..%-5s %6d %-24s %-24s %-28s", tr_collective_name(curve->collective),
               points_buffers(curve->registered), tr_algorithm_name(curve->algorithm),
               tr_protocol_name(curve->protocol), bytes_text(s->from_bytes, from), bytes_text(s->to_bytes, to),
               s->npoints, interval_text(&s->alpha_us, alpha), interval_text(&s->beta_gbps, beta),
               interval_text(&s->half_bytes, half));
        if (k == 0)
            printf(" %.0f%%, %.0f%%", 100 * curve->fit.median_residual, 100 * curve->fit.largest_residual);
        putchar('\n');
    }
}

static void print_curves(const struct tr_model *model)
{
    printf("\nEach way to run a collective: T(m) = alpha + m / beta, in pieces; m_1/2 = alpha x beta\n\n"
           "%-14s %-10s %-9s %-8s %-12s %-6s %-24s %-24s %-28s %s\n",
           "collective", "buffers", "algorithm", "protocol", "bytes", "points", "alpha us", "beta GB/s", "m_1/2 bytes",
           "off by: median, worst");
    for (int i = 0; i < model->ncurves; i++)
        print_curve(&model->curves[i]);
}

/* ---- Theory beside measurement ----------------------------------------------------------------------------------- */

/* The row of a curve's smallest and largest size: coefficients, predicted and measured. */
static void print_point(const struct tr_model *model, const struct tr_priced *p)
{
    char bytes[SIZE_TEXT];
    double predicted = points_predict(model, p);
    printf("%-14s %-10s %-9s %-8s %6s %8.0f %6.0f %7.2f m %9.2f m ", tr_collective_name(p->collective),
           points_buffers(p->registered), tr_algorithm_name(p->algorithm), tr_protocol_name(p->protocol),
           bytes_text(p->bytes, bytes), p->cost.messages, p->cost.steps, p->cost.link_bytes / p->bytes,
           p->cost.reduced_bytes / p->bytes);
    if (isnan(predicted))
        printf("%12s %12.2f\n", "-", p->us);
    else
        printf("%12.2f %12.2f %+6.0f%%\n", predicted, p->us, 100 * (predicted / p->us - 1));
}

static void print_theory(const struct tr_model *model, const struct tr_priced *priced, int npriced)
{
    printf("\nTheory beside measurement, at each way's smallest and largest size m; the coefficients are the "
           "schedules'\n\n"
           "%-14s %-10s %-9s %-8s %6s %8s %6s %9s %11s %12s %12s %7s\n",
           "collective", "buffers", "algorithm", "protocol", "bytes", "messages", "steps", "link", "reduced",
           "predicted us", "measured us", "");
    for (int c = 0; c < model->ncurves; c++) {
        const struct tr_priced *smallest = NULL, *largest = NULL;
        for (const struct tr_priced *p = priced; p < priced + npriced; p++) {
            if (!points_belongs(&model->curves[c], p))
                continue;
            if (!smallest || p->bytes < smallest->bytes)
                smallest = p;
            if (!largest || p->bytes > largest->bytes)
                largest = p;
        }
        print_point(model, smallest);
        print_point(model, largest);
    }
}

/* ---- Crossovers -------------------------------------------------------------------------------------------------- */

static const double least_gain = 0.02; /* of the time: less does not make another the fastest */

typedef double time_of(const struct tr_model *model, const struct tr_priced *priced);

static double measured(const struct tr_model *model, const struct tr_priced *p)
{
    (void)model;
    return p->us;
}

/* The fastest at a size; `held` stays unless another gains enough. */
static enum tr_algorithm fastest(const struct tr_model *model, const struct tr_priced *at, int n, double bytes,
                                 time_of *time, enum tr_algorithm held)
{
    double least = INFINITY, of_held = INFINITY;
    enum tr_algorithm best = held;
    for (int i = 0; i < n; i++) {
        double us = time(model, &at[i]);
        if (at[i].bytes != bytes || isnan(us))
            continue;
        if (at[i].algorithm == held)
            of_held = fmin(of_held, us);
        if (us < least) {
            least = us;
            best = at[i].algorithm;
        }
    }
    return least > of_held * (1 - least_gain) ? held : best;
}

/* "oneshot, from 128K twoshot". `of` are sorted by size. */
static void print_winners(const char *what, const struct tr_model *model, const struct tr_priced *of, int n,
                          time_of *time)
{
    enum tr_algorithm held = TR_ALGORITHM_AUTO;
    char bytes[SIZE_TEXT];
    printf("  %-10s", what);
    for (int i = 0; i < n; i++) {
        if (i > 0 && of[i].bytes == of[i - 1].bytes)
            continue;
        enum tr_algorithm best = fastest(model, of, n, of[i].bytes, time, held);
        if (best == held)
            continue;
        if (held == TR_ALGORITHM_AUTO)
            printf(" %s", tr_algorithm_name(best));
        else
            printf(", from %s %s", bytes_text(of[i].bytes, bytes), tr_algorithm_name(best));
        held = best;
    }
    putchar('\n');
}

static int by_size(const void *a, const void *b)
{
    double x = ((const struct tr_priced *)a)->bytes, y = ((const struct tr_priced *)b)->bytes;
    return (x > y) - (x < y);
}

static void print_crossovers_of(const struct tr_model *model, const struct tr_priced *priced, int npriced,
                                enum tr_collective collective, bool registered, struct tr_priced *some)
{
    int n = 0;
    for (int i = 0; i < npriced; i++)
        if (priced[i].collective == collective && priced[i].registered == registered)
            some[n++] = priced[i];
    if (n == 0)
        return;
    qsort(some, (size_t)n, sizeof *some, by_size);
    printf("%s, %s\n", tr_collective_name(collective), points_buffers(registered));
    print_winners("measured", model, some, n, measured);
    print_winners("points_predicted", model, some, n, points_predict);
}

static void print_crossovers(const struct tr_model *model, const struct tr_priced *priced, int npriced)
{
    struct tr_priced *some = calloc((size_t)npriced + 1, sizeof *some);
    if (!some)
        return;
    printf("\nThe fastest of our algorithms, and from which size another is faster (by 2%% or more)\n\n");
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int registered = 0; registered < 2; registered++)
            print_crossovers_of(model, priced, npriced, (enum tr_collective)c, registered, some);
    free(some);
}

void fit_print(const struct tr_model *model, const struct tr_priced *priced, int npriced)
{
    print_machine(model, npriced);
    print_parameters(model);
    print_curves(model);
    print_theory(model, priced, npriced);
    points_print_errors(model, priced, npriced);
    print_crossovers(model, priced, npriced);
}

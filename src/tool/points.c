/* points.c - measured points beside what a model says of them. */
#include "tool/points.h"

#include <math.h>
#include <stdio.h>

double points_predict(const struct tr_model *model, const struct tr_priced *p)
{
    const struct tr_parameters *parameters = tr_model_parameters(model, p->protocol, p->bytes);
    return parameters ? tr_machine_predict(parameters, &p->cost) : NAN;
}

bool points_belongs(const struct tr_curve *curve, const struct tr_priced *p)
{
    return curve->collective == p->collective && curve->registered == p->registered &&
           curve->algorithm == p->algorithm && curve->protocol == p->protocol &&
           (curve->channels == p->fixed_channels || curve->channels == p->channels);
}

const char *points_buffers(bool registered)
{
    return registered ? "registered" : "plain";
}

struct tally {
    double worst;
    int n, near; /* within 25% */
};

static void count(struct tally *tally, double predicted, double us)
{
    double off = fabs(predicted / us - 1);
    if (isnan(off))
        return;
    tally->n++;
    tally->near += off <= 0.25;
    tally->worst = fmax(tally->worst, off);
}

static void print_tally(const char *what, enum tr_collective collective, bool registered, const struct tally *tally)
{
    if (tally->n > 0)
        printf("%-14s %-10s %-10s %6d %10d %9.0f%%\n", tr_collective_name(collective), points_buffers(registered), what,
               tally->n, tally->near, 100 * tally->worst);
}

static void print_errors_of(const struct tr_model *model, const struct tr_priced *priced, int npriced,
                            enum tr_collective collective, bool registered)
{
    struct tally theory = {0}, curves = {0};
    for (const struct tr_priced *p = priced; p < priced + npriced; p++) {
        if (p->collective != collective || p->registered != registered)
            continue;
        if (p->best)
            count(&theory, points_predict(model, p), p->us);
        for (int c = 0; c < model->ncurves; c++)
            if (points_belongs(&model->curves[c], p))
                count(&curves, tr_fit_predict(&model->curves[c].fit, p->bytes), p->us);
    }
    print_tally("parameters", collective, registered, &theory);
    print_tally("curves", collective, registered, &curves);
}

void points_print_errors(const struct tr_model *model, const struct tr_priced *priced, int npriced)
{
    printf("\nPredicted against measured\n\n%-14s %-10s %-10s %6s %10s %10s\n", "collective", "buffers", "by", "points",
           "within 25%", "worst off");
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int registered = 0; registered < 2; registered++)
            print_errors_of(model, priced, npriced, (enum tr_collective)c, registered);
}

/* machine.c - one alpha, beta, gamma, overhead and launch cost, fitted to all algorithms at once. */
#include "model/machine.h"
#include "collectives/error.h"
#include "model/regression.h"
#include "model/segmentation.h"
#include "model/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Prices ------------------------------------------------------------------------------------------------------ */

static enum tr_status check_same_machine(const struct tr_result_file *a, const struct tr_result_file *b)
{
    const struct tr_machine *x = &a->machine, *y = &b->machine;
    if (strcmp(x->host, y->host) == 0 && strcmp(x->name, y->name) == 0 && x->memory == y->memory &&
        x->nranks == y->nranks && x->ranks_on_device == y->ranks_on_device)
        return TR_OK;
    return tr_error(
        TR_ERR_ARGUMENT,
        "%s (%d ranks, %s memory, %s on %s) and %s (%d ranks, %s memory, %s on %s) are not of one machine and "
        "launch: fit them apart",
        a->path, x->nranks, tr_memory_name(x->memory), x->name, x->host, b->path, y->nranks, tr_memory_name(y->memory),
        y->name, y->host);
}

/* AUTO runs what another contender runs as well. */
static bool is_ours(const struct tr_result *result)
{
    return result->measured && !result->peer && strcmp(result->contender, "auto") != 0 && result->median_us > 0 &&
           result->bytes > 0;
}

static enum tr_status price(const struct tr_result_file *file, const struct tr_result *result, struct tr_priced *priced)
{
    const struct tr_workload workload = {
        .memory = file->machine.memory,
        .collective = file->collective,
        .algorithm = result->algorithm,
        .protocol = result->protocol,
        .channels = result->channels,
        .nranks = file->machine.nranks,
        .registered = file->registered,
        .oversubscribed = file->cpus > 0 && file->machine.nranks > file->cpus,
        .bytes = result->bytes,
        .element_bytes = tr_datatype_size(result->datatype),
    };
    *priced = (struct tr_priced){.collective = file->collective,
                                 .registered = file->registered,
                                 .algorithm = result->algorithm,
                                 .protocol = result->protocol,
                                 .channels = result->channels,
                                 .fixed_channels = file->fixed_channels ? result->channels : 0,
                                 .bytes = (double)result->bytes,
                                 .us = result->median_us};
    return tr_workload_cost(&workload, &priced->cost);
}

static enum tr_status price_file(const struct tr_result_file *file, struct tr_priced *priced, int *npriced)
{
    enum tr_status status = TR_OK;
    for (int i = 0; i < file->nresults && status == TR_OK; i++) {
        if (!is_ours(&file->results[i]))
            continue;
        status = price(file, &file->results[i], &priced[*npriced]);
        if (status == TR_OK)
            ++*npriced;
        else
            status = tr_error(status, "%s: %s with %s at %zu bytes cannot be priced: %s", file->path,
                              tr_collective_name(file->collective), file->results[i].contender, file->results[i].bytes,
                              tr_last_error());
    }
    return status;
}

static bool differ_in_channels_alone(const struct tr_priced *a, const struct tr_priced *b)
{
    return a->collective == b->collective && a->registered == b->registered && a->algorithm == b->algorithm &&
           a->protocol == b->protocol && a->bytes == b->bytes && a->channels != b->channels;
}

static void mark_best(struct tr_priced *priced, int n)
{
    for (int i = 0; i < n; i++) {
        priced[i].best = true;
        for (int j = 0; j < n && priced[i].best; j++)
            priced[i].best = !differ_in_channels_alone(&priced[i], &priced[j]) || priced[i].us <= priced[j].us;
    }
}

enum tr_status tr_machine_price(struct tr_result_file *const files[], int nfiles, struct tr_priced **priced,
                                int *npriced)
{
    size_t room = 1;
    enum tr_status status = TR_OK;
    for (int i = 0; i < nfiles && status == TR_OK; i++) {
        status = check_same_machine(files[0], files[i]);
        room += (size_t)files[i]->nresults;
    }
    if (status != TR_OK)
        return status;
    struct tr_priced *made = calloc(room, sizeof *made);
    if (!made)
        return tr_error(TR_ERR_MEMORY, "no memory for the prices of %zu results: give fewer files", room);
    int n = 0;
    for (int i = 0; i < nfiles && status == TR_OK; i++)
        status = price_file(files[i], made, &n);
    if (status != TR_OK) {
        free(made);
        return status;
    }
    mark_best(made, n);
    *priced = made;
    *npriced = n;
    return TR_OK;
}

/* ---- Observations of one protocol, by size ----------------------------------------------------------------------- */

enum {
    REPLICATES = 199,            /* the 5th smallest and the 5th largest bound an interval */
    LEAST_POINTS = 3 * TR_TERMS, /* in a range, where there are several */
    LEAST_SIZES = 3,             /* different ones */
    MOST_RANGES = 4
};

struct observations {
    struct tr_observation *all, *drawn;
    double *bytes;
    int n;
    int place[TR_MAX_PLACES + 1]; /* the first observation of a size; the last is n */
    int nplaces;
    double *replicates[TR_TERMS];
    unsigned short random[3];
};

static struct tr_observation observe(const struct tr_priced *p)
{
    return (struct tr_observation){{1, p->cost.messages, p->cost.steps, p->cost.link_bytes, p->cost.reduced_bytes},
                                   p->us};
}

static int by_size(const void *a, const void *b)
{
    const struct tr_priced *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? 1 : -1;
    return (x->us > y->us) - (x->us < y->us);
}

/* `sorted` are of one protocol, by size. */
static void take(const struct tr_priced *sorted, int n, struct observations *o)
{
    int sizes = 0, size = 0;
    for (int i = 0; i < n; i++)
        sizes += i == 0 || sorted[i].bytes != sorted[i - 1].bytes;
    int stride = (sizes + TR_MAX_PLACES - 1) / TR_MAX_PLACES;
    o->n = n;
    o->nplaces = 0;
    for (int i = 0; i < n; i++) {
        o->all[i] = observe(&sorted[i]);
        o->bytes[i] = sorted[i].bytes;
        if ((i == 0 || sorted[i].bytes != sorted[i - 1].bytes) && size++ % stride == 0)
            o->place[o->nplaces++] = i;
    }
    o->place[o->nplaces] = n;
}

/* Cut into ranges of sizes; returns how many, with their first places and the end. */
static int find_ranges(const struct observations *o, double *loss, int places[static TR_MAX_PIECES + 1])
{
    for (int from = 0; from < o->nplaces; from++)
        for (int to = from + 1; to <= o->nplaces; to++) {
            int first = o->place[from], n = o->place[to] - first;
            bool enough = (n >= LEAST_POINTS && to - from >= LEAST_SIZES) || n == o->n;
            loss[from * (o->nplaces + 1) + to] = enough ? tr_regression_fit(&o->all[first], n, 0).loss : INFINITY;
        }
    const struct tr_segmentation cut = {loss, o->nplaces, o->n, TR_TERMS, MOST_RANGES};
    return tr_segmentation_cut(&cut, places);
}

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Draw points anew, with those that deviate as they do (the pairs bootstrap: Efron and Tibshirani 1993, 9.5). */
static void bootstrap(struct observations *o, int first, int n, const struct tr_regression *best,
                      struct tr_interval intervals[static TR_TERMS])
{
    enum { OUTSIDE = (REPLICATES + 1) / 40 };
    for (int i = 0; i < REPLICATES; i++) {
        for (int k = 0; k < n; k++)
            o->drawn[k] = o->all[first + (int)(erand48(o->random) * n)];
        struct tr_regression fit = tr_regression_fit(o->drawn, n, 0);
        for (int j = 0; j < TR_TERMS; j++)
            o->replicates[j][i] = fit.c[j];
    }
    for (int j = 0; j < TR_TERMS; j++) {
        qsort(o->replicates[j], REPLICATES, sizeof *o->replicates[j], by_value);
        intervals[j] = (struct tr_interval){best->c[j], fmin(best->c[j], o->replicates[j][OUTSIDE - 1]),
                                            fmax(best->c[j], o->replicates[j][REPLICATES - OUTSIDE])};
    }
}

/* Where the points do without a term by Schwarz's criterion, what the others then are is possible too. */
static void admit_other_ways(const struct observations *o, int first, int n, const struct tr_regression *best,
                             struct tr_interval intervals[static TR_TERMS])
{
    for (unsigned term = 0; term < TR_TERMS; term++) {
        struct tr_regression without = tr_regression_fit(&o->all[first], n, 1u << term);
        if (best->loss > 0 && !(2 * n * log(without.loss / best->loss) <= log(n)))
            continue;
        for (int j = 0; j < TR_TERMS; j++) {
            intervals[j].low = fmin(intervals[j].low, without.c[j]);
            intervals[j].high = fmax(intervals[j].high, without.c[j]);
        }
    }
}

/* us a byte to 10^9 bytes a second. */
static double gbps(double slope)
{
    return slope > 0 ? 1e-3 / slope : INFINITY;
}

static struct tr_interval rate(const struct tr_interval *slope)
{
    return (struct tr_interval){gbps(slope->value), gbps(slope->high), gbps(slope->low)};
}

static void set_residuals(struct observations *o, int first, int n, const struct tr_regression *best,
                          struct tr_parameters *parameters)
{
    double *deviations = o->replicates[0]; /* has room for all points */
    for (int i = 0; i < n; i++)
        deviations[i] = fabs(tr_regression_at(best, &o->all[first + i]) / o->all[first + i].us - 1);
    qsort(deviations, (size_t)n, sizeof *deviations, by_value);
    parameters->median_residual = (deviations[(n - 1) / 2] + deviations[n / 2]) / 2;
    parameters->largest_residual = deviations[n - 1];
}

static struct tr_parameters fit_range(struct observations *o, enum tr_protocol protocol, int first, int n)
{
    struct tr_interval intervals[TR_TERMS];
    struct tr_regression best = tr_regression_fit(&o->all[first], n, 0);
    bootstrap(o, first, n, &best, intervals);
    admit_other_ways(o, first, n, &best, intervals);
    struct tr_parameters parameters = {
        .protocol = protocol,
        .from_bytes = o->bytes[first],
        .to_bytes = o->bytes[first + n - 1],
        .launch_us = intervals[0],
        .alpha_us = intervals[1],
        .overhead_us = intervals[2],
        .beta_gbps = rate(&intervals[3]),
        .gamma_gbps = rate(&intervals[4]),
        .npoints = n,
    };
    set_residuals(o, first, n, &best, &parameters);
    return parameters;
}

/* ---- All protocols ----------------------------------------------------------------------------------------------- */

/* Appends the ranges of a protocol. */
static void fit_protocol(struct observations *o, double *loss, enum tr_protocol protocol,
                         struct tr_parameters *parameters, int *nparameters)
{
    int places[TR_MAX_PIECES + 1];
    if (o->n <= TR_TERMS || o->nplaces < LEAST_SIZES)
        return;
    int ranges = find_ranges(o, loss, places);
    for (int k = 0; k < ranges; k++) {
        int first = o->place[places[k]];
        parameters[(*nparameters)++] = fit_range(o, protocol, first, o->place[places[k + 1]] - first);
    }
}

static void fit_protocols(struct tr_priced *sorted, int npriced, struct observations *o, struct tr_priced *some,
                          double *loss, struct tr_parameters *parameters, int *nparameters)
{
    for (int p = TR_PROTOCOL_AUTO + 1; p < TR_PROTOCOL_COUNT; p++) {
        int n = 0;
        for (int i = 0; i < npriced; i++)
            if (sorted[i].best && sorted[i].protocol == (enum tr_protocol)p)
                some[n++] = sorted[i];
        take(some, n, o);
        fit_protocol(o, loss, (enum tr_protocol)p, parameters, nparameters);
    }
}

enum tr_status tr_machine_fit(const struct tr_priced *priced, int npriced, unsigned seed,
                              struct tr_parameters **parameters, int *nparameters)
{
    size_t n = (size_t)npriced + 1, places = TR_MAX_PLACES + 1, room = n > REPLICATES ? n : REPLICATES;
    struct observations o = {.random = {0x330E, (unsigned short)seed, (unsigned short)(seed >> 16)}};
    enum tr_status status = TR_OK;
    int made = 0;
    struct tr_parameters *fitted = calloc((TR_PROTOCOL_COUNT - 1) * MOST_RANGES, sizeof *fitted);
    struct tr_priced *sorted = calloc(2 * n, sizeof *sorted);
    double *numbers = calloc(n + TR_TERMS * room + places * places, sizeof *numbers);
    o.all = calloc(2 * n, sizeof *o.all);
    if (!fitted || !sorted || !numbers || !o.all) {
        status = tr_error(TR_ERR_MEMORY, "no memory to fit %d points: fit fewer", npriced);
        free(fitted);
        goto free_buffers;
    }
    o.drawn = o.all + n;
    o.bytes = numbers;
    for (int j = 0; j < TR_TERMS; j++)
        o.replicates[j] = numbers + n + (size_t)j * room;
    memcpy(sorted, priced, (size_t)npriced * sizeof *sorted);
    qsort(sorted, (size_t)npriced, sizeof *sorted, by_size);
    fit_protocols(sorted, npriced, &o, sorted + n, numbers + n + TR_TERMS * room, fitted, &made);
    *parameters = fitted;
    *nparameters = made;
free_buffers:
    free(o.all);
    free(numbers);
    free(sorted);
    return status;
}

double tr_machine_predict(const struct tr_parameters *p, const struct tr_cost *cost)
{
    return p->launch_us.value + cost->messages * p->alpha_us.value + cost->steps * p->overhead_us.value +
           cost->link_bytes / p->beta_gbps.value * 1e-3 + cost->reduced_bytes / p->gamma_gbps.value * 1e-3;
}

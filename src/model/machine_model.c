/* machine_model.c - the model of a machine from result files: its parameters, and the curve of each way to run. */
#include "collectives/error.h"
#include "model/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_way(const struct tr_priced *a, const struct tr_priced *b)
{
    return a->collective == b->collective && a->registered == b->registered && a->algorithm == b->algorithm &&
           a->protocol == b->protocol && a->fixed_channels == b->fixed_channels;
}

static bool is_first_of_its_way(const struct tr_priced *priced, int i)
{
    for (int k = 0; k < i; k++)
        if (same_way(&priced[k], &priced[i]))
            return false;
    return true;
}

static int count_sizes(const struct tr_fit_point *points, int n)
{
    int sizes = 0;
    for (int i = 0; i < n; i++) {
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new = is_new && points[k].bytes != points[i].bytes;
        sizes += is_new;
    }
    return sizes;
}

/* Append the curve of the way that priced[first] is the first of, unless it has too few sizes. */
static enum tr_status add_curve(const struct tr_priced *priced, int npriced, int first, unsigned seed,
                                struct tr_fit_point *points, struct tr_model *model)
{
    const struct tr_priced *way = &priced[first];
    int n = 0;
    for (int i = first; i < npriced; i++)
        if (same_way(way, &priced[i]))
            points[n++] = (struct tr_fit_point){priced[i].bytes, priced[i].us};
    if (count_sizes(points, n) < 3)
        return TR_OK;
    struct tr_curve curve = {.collective = way->collective,
                             .registered = way->registered,
                             .algorithm = way->algorithm,
                             .protocol = way->protocol,
                             .channels = way->fixed_channels};
    enum tr_status status = tr_fit_curve(points, n, seed, &curve.fit);
    if (status == TR_OK)
        model->curves[model->ncurves++] = curve;
    return status;
}

static enum tr_status add_curves(const struct tr_priced *priced, int npriced, unsigned seed, struct tr_model *model)
{
    enum tr_status status = TR_OK;
    model->curves = calloc((size_t)npriced + 1, sizeof *model->curves);
    struct tr_fit_point *points = calloc((size_t)npriced + 1, sizeof *points);
    if (!model->curves || !points)
        status = tr_error(TR_ERR_MEMORY, "no memory for curves of %d points: fit fewer", npriced);
    for (int i = 0; i < npriced && status == TR_OK; i++)
        if (is_first_of_its_way(priced, i))
            status = add_curve(priced, npriced, i, seed, points, model);
    free(points);
    return status;
}

/* "N runs: a.json, b.json", as many names as there is room for. */
static void name_origin(struct tr_result_file *const files[], int nfiles, char *origin, size_t size)
{
    size_t used = (size_t)snprintf(origin, size, "%d run%s:", nfiles, nfiles == 1 ? "" : "s");
    for (int i = 0; i < nfiles; i++) {
        const char *slash = strrchr(files[i]->path, '/'), *name = slash ? slash + 1 : files[i]->path;
        if (used + strlen(name) + 6 >= size) {
            snprintf(origin + used, size - used, " ...");
            return;
        }
        used += (size_t)snprintf(origin + used, size - used, "%s %s", i == 0 ? "" : ",", name);
    }
}

enum tr_status tr_machine_model(struct tr_result_file *const files[], int nfiles, const struct tr_priced *priced,
                                int npriced, unsigned seed, struct tr_model **model)
{
    struct tr_model *made = calloc(1, sizeof *made);
    if (!made)
        return tr_error(TR_ERR_MEMORY, "no memory for a model: free some");
    made->machine = files[0]->machine;
    made->ranks_per_node = files[0]->machine.nranks;
    name_origin(files, nfiles, made->origin, sizeof made->origin);
    enum tr_status status = add_curves(priced, npriced, seed, made);
    if (status == TR_OK)
        status = tr_machine_fit(priced, npriced, seed, &made->parameters, &made->nparameters);
    if (status == TR_OK)
        *model = made;
    else
        tr_model_free(made);
    return status;
}

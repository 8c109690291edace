/* model_file.c - the model of a machine as JSON, described in docs/model.md: reading, writing, freeing. */
#include "collectives/error.h"
#include "model/file.h"
#include "model/model.h"
#include "model/reader.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NEWEST_VERSION = 1,
    MOST_BYTES = 8 << 20, /* of a file; the curves of three collectives take 100 KiB */
    MOST_PARAMETERS = 1000,
    MOST_CURVES = 10000,
    MOST_RANKS = 1 << 20,
    MOST_POINTS = 1 << 30,
    MOST_CHANNELS = 1 << 16
};
static const char schema[] = "treering-model";

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static struct tr_interval read_interval(const struct tr_node *object, const char *key)
{
    struct tr_node node = tr_read_object(object, key);
    struct tr_interval interval;
    interval.value = tr_read_number(&node, "value", 0, INFINITY);
    interval.low = tr_read_number(&node, "low", 0, INFINITY);
    interval.high = tr_read_number(&node, "high", 0, INFINITY);
    if (!(interval.low <= interval.value && interval.value <= interval.high))
        tr_refuse(&node, "has a value of %g outside its interval from %g to %g", interval.value, interval.low,
                  interval.high);
    return interval;
}

/* The cost of a message or a launch is finite. */
static struct tr_interval read_finite(const struct tr_node *object, const char *key)
{
    struct tr_interval interval = read_interval(object, key);
    struct tr_node node = tr_member(object, key);
    if (!isfinite(interval.value))
        tr_refuse(&node, "has no finite value");
    return interval;
}

/* Nothing is transferred at 0 bytes a second. */
static struct tr_interval read_rate(const struct tr_node *object, const char *key)
{
    struct tr_interval interval = read_interval(object, key);
    struct tr_node node = tr_member(object, key);
    if (!(interval.value > 0))
        tr_refuse(&node, "has a value of 0, where a rate must be more");
    return interval;
}

static void read_range(const struct tr_node *object, double *from_bytes, double *to_bytes)
{
    *from_bytes = tr_read_number(object, "from_bytes", 0, DBL_MAX);
    *to_bytes = tr_read_number(object, "to_bytes", 0, INFINITY);
    if (!(*from_bytes <= *to_bytes))
        tr_refuse(object, "runs from %g to %g bytes, which is no range", *from_bytes, *to_bytes);
}

static void read_machine(const struct tr_node *root, struct tr_machine *machine)
{
    struct tr_node object = tr_read_object(root, "machine");
    machine->memory = tr_read_memory(&object, "memory");
    tr_read_text(&object, "name", machine->name, sizeof machine->name);
    tr_read_text(&object, "host", machine->host, sizeof machine->host);
    machine->nranks = (int)tr_read_whole(&object, "nranks", 1, MOST_RANKS);
    machine->ranks_on_device = (int)tr_read_whole(&object, "ranks_on_device", 0, MOST_RANKS);
}

static void read_between(const struct tr_node *root, struct tr_between *between)
{
    if (!tr_member(root, "between").value)
        return;
    struct tr_node object = tr_read_object(root, "between");
    between->alpha_us = tr_read_number(&object, "alpha_us", 0, DBL_MAX);
    between->beta_gbps = tr_read_number(&object, "beta_gbps", DBL_MIN, INFINITY);
    between->links_per_node = (int)tr_read_whole(&object, "links_per_node", 1, MOST_RANKS);
}

static void read_parameters(const struct tr_node *object, struct tr_parameters *parameters)
{
    parameters->protocol = tr_read_protocol(object, "protocol");
    read_range(object, &parameters->from_bytes, &parameters->to_bytes);
    parameters->launch_us = read_finite(object, "launch_us");
    parameters->alpha_us = read_finite(object, "alpha_us");
    parameters->overhead_us = read_finite(object, "overhead_us");
    parameters->beta_gbps = read_rate(object, "beta_gbps");
    parameters->gamma_gbps = read_rate(object, "gamma_gbps");
    parameters->npoints = (int)tr_read_whole(object, "npoints", 0, MOST_POINTS);
    parameters->median_residual = tr_read_number(object, "median_residual", 0, DBL_MAX);
    parameters->largest_residual = tr_read_number(object, "largest_residual", 0, DBL_MAX);
}

static void check_ranges(const struct tr_node *array, const struct tr_parameters *parameters, int last)
{
    for (int i = 0; i < last; i++) {
        struct tr_node item = {array->reader, array, NULL, (size_t)last, NULL};
        if (parameters[i].protocol == parameters[last].protocol &&
            parameters[i].from_bytes <= parameters[last].to_bytes &&
            parameters[last].from_bytes <= parameters[i].to_bytes)
            tr_refuse(&item, "has sizes in common with parameters[%d] of the same protocol", i);
    }
}

static enum tr_status read_all_parameters(const struct tr_node *root, struct tr_model *model)
{
    struct tr_node array = tr_read_array(root, "parameters", MOST_PARAMETERS);
    size_t n = tr_array_length(&array);
    model->parameters = calloc(n + 1, sizeof *model->parameters);
    if (!model->parameters)
        return tr_error(TR_ERR_MEMORY, "no memory for the %zu parameters in %.300s: free some", n, root->reader->path);
    for (size_t i = 0; i < n && tr_reader_good(root->reader); i++) {
        struct tr_node item = tr_read_item(&array, i);
        read_parameters(&item, &model->parameters[i]);
        check_ranges(&array, model->parameters, (int)i);
        model->nparameters++;
    }
    return root->reader->status;
}

static void read_segment(const struct tr_node *object, struct tr_segment *segment)
{
    read_range(object, &segment->from_bytes, &segment->to_bytes);
    segment->npoints = (int)tr_read_whole(object, "npoints", 0, MOST_POINTS);
    segment->alpha_us = read_finite(object, "alpha_us");
    segment->beta_gbps = read_rate(object, "beta_gbps");
    segment->half_bytes = read_interval(object, "half_bytes");
}

static void read_fit(const struct tr_node *curve, struct tr_fit *fit)
{
    struct tr_node segments = tr_read_array(curve, "segments", TR_FIT_MAX_SEGMENTS);
    fit->nsegments = (int)tr_array_length(&segments);
    if (fit->nsegments == 0)
        tr_refuse(&segments, "is empty");
    for (int k = 0; k < fit->nsegments; k++) {
        struct tr_node item = tr_read_item(&segments, (size_t)k);
        read_segment(&item, &fit->segments[k]);
        if (k > 0 && !(fit->segments[k - 1].to_bytes < fit->segments[k].from_bytes))
            tr_refuse(&item, "begins at %g bytes, before the segment before it ends", fit->segments[k].from_bytes);
    }
    fit->median_residual = tr_read_number(curve, "median_residual", 0, DBL_MAX);
    fit->largest_residual = tr_read_number(curve, "largest_residual", 0, DBL_MAX);
}

static void read_curve(const struct tr_node *object, struct tr_curve *curve)
{
    curve->collective = tr_read_collective(object, "collective");
    curve->registered = tr_read_boolean(object, "registered");
    curve->algorithm = tr_read_algorithm(object, "algorithm");
    curve->protocol = tr_read_protocol(object, "protocol");
    curve->channels = (int)tr_read_whole(object, "channels", 0, MOST_CHANNELS);
    read_fit(object, &curve->fit);
}

static enum tr_status read_curves(const struct tr_node *root, struct tr_model *model)
{
    struct tr_node array = tr_read_array(root, "curves", MOST_CURVES);
    size_t n = tr_array_length(&array);
    model->curves = calloc(n + 1, sizeof *model->curves);
    if (!model->curves)
        return tr_error(TR_ERR_MEMORY, "no memory for the %zu curves in %.300s: free some", n, root->reader->path);
    for (size_t i = 0; i < n && tr_reader_good(root->reader); i++) {
        struct tr_node item = tr_read_item(&array, i);
        read_curve(&item, &model->curves[i]);
        model->ncurves++;
    }
    return root->reader->status;
}

static enum tr_status read_model(const struct tr_node *root, struct tr_model *model)
{
    tr_read_schema(root, schema, NEWEST_VERSION);
    tr_read_text(root, "origin", model->origin, sizeof model->origin);
    read_machine(root, &model->machine);
    model->ranks_per_node = (int)tr_read_whole(root, "ranks_per_node", 1, MOST_RANKS);
    read_between(root, &model->between);
    enum tr_status status = read_all_parameters(root, model);
    return status == TR_OK ? read_curves(root, model) : status;
}

enum tr_status tr_model_parse(const char *path, const char *text, size_t length, struct tr_model **model)
{
    struct tr_reader reader;
    enum tr_status status =
        tr_reader_open(&reader, path, "write it anew with treering fit or treering tune", text, length);
    if (status != TR_OK)
        return status;
    struct tr_node root = tr_reader_root(&reader);
    struct tr_model *made = calloc(1, sizeof *made);
    if (!made) {
        status = tr_error(TR_ERR_MEMORY, "no memory for what %.300s holds: free some", path);
        goto close_reader;
    }
    status = read_model(&root, made);
    if (status == TR_OK)
        *model = made;
    else
        tr_model_free(made);
close_reader:
    tr_reader_close(&reader);
    return status;
}

enum tr_status tr_model_read(const char *path, struct tr_model **model)
{
    char *text;
    size_t length;
    enum tr_status status = tr_file_text(path, MOST_BYTES, &text, &length);
    if (status != TR_OK)
        return status;
    status = tr_model_parse(path, text, length, model);
    free(text);
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* Null stands for infinity, which JSON does not have. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *interval_json(struct tr_interval interval)
{
    return json_pack("{s:o, s:o, s:o}", "value", number(interval.value), "low", number(interval.low), "high",
                     number(interval.high));
}

static json_t *machine_json(const struct tr_machine *machine)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:i}", "memory", tr_memory_name(machine->memory), "name", machine->name,
                     "host", machine->host, "nranks", machine->nranks, "ranks_on_device", machine->ranks_on_device);
}

static json_t *between_json(const struct tr_between *between)
{
    if (between->links_per_node == 0)
        return json_null();
    return json_pack("{s:f, s:o, s:i}", "alpha_us", between->alpha_us, "beta_gbps", number(between->beta_gbps),
                     "links_per_node", between->links_per_node);
}

static json_t *parameters_json(const struct tr_parameters *p)
{
    return json_pack("{s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:f, s:f}", "protocol",
                     tr_protocol_name(p->protocol), "from_bytes", p->from_bytes, "to_bytes", number(p->to_bytes),
                     "launch_us", interval_json(p->launch_us), "alpha_us", interval_json(p->alpha_us), "overhead_us",
                     interval_json(p->overhead_us), "beta_gbps", interval_json(p->beta_gbps), "gamma_gbps",
                     interval_json(p->gamma_gbps), "npoints", p->npoints, "median_residual", p->median_residual,
                     "largest_residual", p->largest_residual);
}

static json_t *segments_json(const struct tr_fit *fit)
{
    json_t *array = json_array();
    for (int k = 0; k < fit->nsegments; k++) {
        const struct tr_segment *s = &fit->segments[k];
        json_array_append_new(array, json_pack("{s:f, s:o, s:i, s:o, s:o, s:o}", "from_bytes", s->from_bytes,
                                               "to_bytes", number(s->to_bytes), "npoints", s->npoints, "alpha_us",
                                               interval_json(s->alpha_us), "beta_gbps", interval_json(s->beta_gbps),
                                               "half_bytes", interval_json(s->half_bytes)));
    }
    return array;
}

static json_t *curve_json(const struct tr_curve *curve)
{
    return json_pack("{s:s, s:b, s:s, s:s, s:i, s:f, s:f, s:o}", "collective", tr_collective_name(curve->collective),
                     "registered", curve->registered, "algorithm", tr_algorithm_name(curve->algorithm), "protocol",
                     tr_protocol_name(curve->protocol), "channels", curve->channels, "median_residual",
                     curve->fit.median_residual, "largest_residual", curve->fit.largest_residual, "segments",
                     segments_json(&curve->fit));
}

/* NULL: no memory, or a text that is no UTF-8. */
static json_t *model_json(const struct tr_model *model)
{
    json_t *parameters = json_array(), *curves = json_array();
    bool good = true;
    for (int i = 0; i < model->nparameters; i++)
        good = json_array_append_new(parameters, parameters_json(&model->parameters[i])) == 0 && good;
    for (int i = 0; i < model->ncurves; i++)
        good = json_array_append_new(curves, curve_json(&model->curves[i])) == 0 && good;
    json_t *root = json_pack("{s:s, s:i, s:s, s:o, s:i, s:o, s:o, s:o}", "schema", schema, "schema_version",
                             NEWEST_VERSION, "origin", model->origin, "machine", machine_json(&model->machine),
                             "ranks_per_node", model->ranks_per_node, "between", between_json(&model->between),
                             "parameters", parameters, "curves", curves);
    if (root && good)
        return root;
    json_decref(root);
    return NULL;
}

enum tr_status tr_model_write(const struct tr_model *model, const char *path)
{
    json_t *root = model_json(model);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    enum tr_status status = TR_OK;
    if (text)
        status = tr_file_write(path, text, strlen(text));
    else
        status = tr_error(TR_ERR_MEMORY, "no memory to write the model to %.300s, or a text in it is no UTF-8", path);
    free(text);
    json_decref(root);
    return status;
}

/* ---- Use --------------------------------------------------------------------------------------------------------- */

void tr_model_free(struct tr_model *model)
{
    if (!model)
        return;
    free(model->parameters);
    free(model->curves);
    free(model);
}

/* How many times the size lies outside the range; 1 inside. */
static double distance(const struct tr_parameters *range, double bytes)
{
    if (bytes < range->from_bytes)
        return range->from_bytes / fmax(bytes, DBL_MIN);
    return bytes > range->to_bytes ? bytes / range->to_bytes : 1;
}

const struct tr_parameters *tr_model_parameters(const struct tr_model *model, enum tr_protocol protocol, double bytes)
{
    const struct tr_parameters *best = NULL;
    for (const struct tr_parameters *p = model->parameters; p < model->parameters + model->nparameters; p++)
        if (p->protocol == protocol && (!best || distance(p, bytes) < distance(best, bytes)))
            best = p;
    return best;
}

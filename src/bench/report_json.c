/* report_json.c - the JSON file, described in docs/results.md. Raise SCHEMA_VERSION when a field changes its meaning. */
#include "bench/backend.h"
#include "bench/environment.h"
#include "bench/place.h"
#include "bench/report.h"
#include "bench/report_json.h"

#include <math.h>

enum { SCHEMA_VERSION = 2 };

static struct report_file file;
static json_t *root; /* NULL: no file asked for */

static bool json_open(struct bench *bench, char *why, size_t size)
{
    return !bench->options.json_path || report_file_open(&file, bench->options.json_path, why, size);
}

json_t *json_text_of(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}

json_t *json_size_of(size_t bytes)
{
    return json_integer((json_int_t)bytes);
}

json_t *json_finite(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* A whole number as an integer, else a real. */
static json_t *number_of(double number)
{
    json_int_t whole = (json_int_t)number;
    return (double)whole == number ? json_integer(whole) : json_real(number);
}

json_t *json_measure_of(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

/* ---- What was run ------------------------------------------------------------------------------------------------ */

json_t *json_environment(const struct bench *bench)
{
    struct environment_fact facts[ENVIRONMENT_MAX];
    json_t *object = json_object(), *variables = json_object();
    int n = environment_facts(bench, facts);
    for (int i = 0; i < n; i++)
        if (facts[i].is_number || *facts[i].text)
            json_object_set_new(object, facts[i].key,
                                facts[i].is_number ? number_of(facts[i].number) : json_text_of(facts[i].text));
    char name[128];
    const char *value;
    for (int i = 0; environment_variable(i, name, sizeof name, &value); i++)
        json_object_set_new(variables, name, json_text_of(value));
    json_object_set_new(object, "variables", variables);
    return object;
}

static json_t *channels(const struct bench_options *options)
{
    json_t *array = json_array();
    for (int i = 0; i < options->nchannels; i++)
        json_array_append_new(array, json_integer(options->channels[i]));
    return array;
}

static json_t *options(const struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    json_t *object = json_object();
    json_object_set_new(object, "first_bytes", json_size_of(o->range.first));
    json_object_set_new(object, "last_bytes", json_size_of(o->range.last));
    json_object_set_new(object, "step_bytes", o->range.step ? json_size_of(o->range.step) : json_null());
    json_object_set_new(object, "step_factor", o->range.step ? json_null() : json_size_of(o->range.factor));
    json_object_set_new(object, "iterations", o->iterations ? json_integer(o->iterations) : json_null());
    json_object_set_new(object, "rounds", o->rounds ? json_integer(o->rounds) : json_null());
    json_object_set_new(object, "warmup", json_integer(o->warmup));
    json_object_set_new(object, "checks", json_integer(o->checks));
    json_object_set_new(object, "graph_launches", json_integer(o->graph_launches));
    json_object_set_new(object, "blocking", json_boolean(o->blocking));
    json_object_set_new(object, "in_place", json_boolean(o->in_place));
    json_object_set_new(object, "buffers", json_text_of(o->plain ? "plain" : "registered"));
    json_object_set_new(object, "channels", o->nchannels ? channels(o) : json_null());
    json_object_set_new(object, "timeout_s", json_measure_of(o->timeout_s));
    json_object_set_new(object, "drift", json_real(o->drift_share));
    return object;
}

/* How samples were taken, and how many. */
static json_t *sampling(const struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    json_t *object = json_object();
    json_object_set_new(object, "sample", json_text_of("maximum over ranks of a batch's time, over its calls"));
    json_object_set_new(object, "batch", json_text_of(o->graph_launches ? "graph" : "calls"));
    json_object_set_new(object, "statistic", json_text_of("median"));
    json_object_set_new(object, "interval", json_text_of("order statistics"));
    json_object_set_new(object, "ci_target", o->rounds ? json_null() : json_real(o->ci_share));
    json_object_set_new(object, "time_limit_s", o->rounds ? json_null() : json_real(o->time_limit_s));
    json_object_set_new(object, "seed", json_integer((json_int_t)bench->seed));
    return object;
}

static json_t *rank_place(const struct bench *bench, int rank)
{
    const struct tr_comm_info *info = &bench->infos[rank];
    const struct bench_place *place = &bench->places[rank];
    json_t *object = json_object();
    json_object_set_new(object, "rank", json_integer(rank));
    json_object_set_new(object, "host", json_text_of(info->host));
    json_object_set_new(object, "binding", json_text_of(info->binding));
    json_object_set_new(object, "cpus_allowed", *place->cpus ? json_text_of(place->cpus) : json_null());
    json_object_set_new(object, "numa_nodes_allowed", *place->memory ? json_text_of(place->memory) : json_null());
    json_object_set_new(object, "numa_node", place->node >= 0 ? json_integer(place->node) : json_null());
    json_object_set_new(object, "transport", json_text_of(info->transport));
    json_object_set_new(object, "comm_host_bytes", json_size_of(info->host_bytes));
    if (info->device < 0)
        return object;
    json_object_set_new(object, "device", json_integer(info->device));
    json_object_set_new(object, "device_name", json_text_of(info->device_name));
    json_object_set_new(object, "device_uuid", json_text_of(info->device_uuid));
    json_object_set_new(object, "ranks_on_device", json_integer(info->ranks_on_device));
    json_object_set_new(object, "comm_device_bytes", json_size_of(info->device_bytes));
    json_object_set_new(object, "nccl_device_bytes", json_size_of(info->nccl_bytes));
    return object;
}

static json_t *ranks(const struct bench *bench)
{
    json_t *array = json_array();
    for (int rank = 0; rank < bench->nranks; rank++)
        json_array_append_new(array, rank_place(bench, rank));
    return array;
}

static json_t *card(const struct bench *bench)
{
    const struct bench_card *c = &bench->card;
    if (bench->backend->memory != TR_MEMORY_CUDA)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "copy_gbps", json_measure_of(c->copy_rate * 1e-9));
    json_object_set_new(object, "copy_bytes", json_size_of(c->copy_bytes));
    json_object_set_new(object, "launch_us", json_measure_of(c->launch_us));
    json_object_set_new(object, "empty_launch_us", json_measure_of(c->empty_launch_us));
    json_object_set_new(object, "launch_over_empty_us",
                        c->launch_us > 0 ? json_real(c->launch_us - c->empty_launch_us) : json_null());
    return object;
}

static json_t *notes(const struct bench *bench)
{
    json_t *array = json_array();
    for (int i = 0; i < bench->nnotes; i++)
        json_array_append_new(array, json_text_of(bench->notes[i]));
    return array;
}

static json_t *formulas(const struct bench *bench)
{
    json_t *object = json_object();
    json_object_set_new(object, "bytes", json_text_of(bench->collective->size_text));
    json_object_set_new(object, "algbw_gbps", json_text_of("bytes / time, 10^9 bytes a second"));
    json_object_set_new(object, "busbw_gbps", json_sprintf("algbw x %s", bench->collective->busbw_text));
    json_object_set_new(object, "traffic_share",
                        json_sprintf("%s / time / copy rate", bench->collective->traffic_text));
    return object;
}

static void json_begin(struct bench *bench)
{
    if (!file.stream)
        return;
    root = json_object();
    json_object_set_new(root, "schema", json_text_of("treering-bench"));
    json_object_set_new(root, "schema_version", json_integer(SCHEMA_VERSION));
    json_object_set_new(root, "program", json_text_of(bench->collective->program));
    json_object_set_new(root, "collective", json_text_of(tr_collective_name(bench->collective->collective)));
    json_object_set_new(root, "memory", json_text_of(tr_memory_name(bench->backend->memory)));
    json_object_set_new(root, "nranks", json_integer(bench->nranks));
    json_object_set_new(root, "environment", json_environment(bench));
    json_object_set_new(root, "options", options(bench));
    json_object_set_new(root, "sampling", sampling(bench));
    json_object_set_new(root, "formulas", formulas(bench));
    json_object_set_new(root, "ranks", ranks(bench));
    json_object_set_new(root, "card", card(bench));
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void add_results(struct bench *bench)
{
    json_t *places = json_object_get(root, "ranks");
    for (int rank = 0; rank < bench->nranks; rank++)
        json_object_set_new(json_array_get(places, (size_t)rank), "entry_late_us", json_entry(bench, rank));
    json_object_set_new(root, "points", json_points(bench));
    json_object_set_new(root, "anchors", json_anchors(bench));
    json_object_set_new(root, "fits", json_fits(bench));
    json_object_set_new(root, "regret", json_regrets(bench));
    json_object_set_new(root, "baseline", json_baseline(bench));
    json_object_set_new(root, "notes", notes(bench));
}

static bool json_finish(struct bench *bench, char *why, size_t size)
{
    if (!root)
        return true;
    add_results(bench);
    int failed = json_dumpf(root, file.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', file.stream);
    json_decref(root);
    root = NULL;
    if (!failed)
        return report_file_finish(&file, why, size);
    snprintf(why, size, "cannot write %.200s: free space there, or give another path", bench->options.json_path);
    return false;
}

static void json_abandon(struct bench *bench)
{
    (void)bench;
    json_decref(root);
    root = NULL;
    report_file_abandon(&file);
}

const struct bench_report report_json = {
    .open = json_open,
    .begin = json_begin,
    .finish = json_finish,
    .abandon = json_abandon,
};

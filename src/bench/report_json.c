/* report_json.c - the JSON file, described in docs/results.md. Raise SCHEMA_VERSION when a field changes its meaning. */
#include "bench/backend.h"
#include "bench/environment.h"
#include "bench/report.h"

#include <jansson.h>

enum { SCHEMA_VERSION = 1 };

static struct report_file file;
static json_t *root; /* NULL: no file asked for */

static const char *const state_names[] = {
    [BENCH_MEASURED] = "measured", [BENCH_WRONG_DATA] = "wrong", [BENCH_NOT_SERVED] = "not_served"};

static bool json_open(struct bench *bench, char *why, size_t size)
{
    return !bench->options.json_path || report_file_open(&file, bench->options.json_path, why, size);
}

/* Text from outside need not be UTF-8; what is not becomes null. */
static json_t *text_of(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_null();
}

static json_t *size_of(size_t bytes)
{
    return json_integer((json_int_t)bytes);
}

/* A whole number as an integer, else a real; null where nothing was measured. */
static json_t *number_of(double number)
{
    json_int_t whole = (json_int_t)number;
    return (double)whole == number ? json_integer(whole) : json_real(number);
}

static json_t *measure_of(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

/* ---- What was run ------------------------------------------------------------------------------------------------ */

static json_t *environment(const struct bench *bench)
{
    struct environment_fact facts[ENVIRONMENT_MAX];
    json_t *object = json_object(), *variables = json_object();
    int n = environment_facts(bench, facts);
    for (int i = 0; i < n; i++)
        json_object_set_new(object, facts[i].key,
                            facts[i].is_number ? number_of(facts[i].number) : text_of(facts[i].text));
    char name[128];
    const char *value;
    for (int i = 0; environment_variable(i, name, sizeof name, &value); i++)
        json_object_set_new(variables, name, text_of(value));
    json_object_set_new(object, "variables", variables);
    return object;
}

static json_t *options(const struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    json_t *object = json_object();
    json_object_set_new(object, "first_bytes", size_of(o->range.first));
    json_object_set_new(object, "last_bytes", size_of(o->range.last));
    json_object_set_new(object, "step_bytes", o->range.step ? size_of(o->range.step) : json_null());
    json_object_set_new(object, "step_factor", o->range.step ? json_null() : size_of(o->range.factor));
    json_object_set_new(object, "iterations", o->iterations ? json_integer(o->iterations) : json_null());
    json_object_set_new(object, "rounds", o->rounds ? json_integer(o->rounds) : json_null());
    json_object_set_new(object, "warmup", json_integer(o->warmup));
    json_object_set_new(object, "checks", json_integer(o->checks));
    json_object_set_new(object, "graph_launches", json_integer(o->graph_launches));
    json_object_set_new(object, "blocking", json_boolean(o->blocking));
    json_object_set_new(object, "in_place", json_boolean(o->in_place));
    json_object_set_new(object, "buffers", text_of(o->plain ? "plain" : "registered"));
    json_object_set_new(object, "channels", o->channels ? json_integer(o->channels) : json_null());
    json_object_set_new(object, "timeout_s", measure_of(o->timeout_s));
    return object;
}

static json_t *rank_place(const struct tr_comm_info *info, int rank)
{
    json_t *object = json_object();
    json_object_set_new(object, "rank", json_integer(rank));
    json_object_set_new(object, "host", text_of(info->host));
    json_object_set_new(object, "binding", text_of(info->binding));
    json_object_set_new(object, "transport", text_of(info->transport));
    json_object_set_new(object, "comm_host_bytes", size_of(info->host_bytes));
    if (info->device < 0)
        return object;
    json_object_set_new(object, "device", json_integer(info->device));
    json_object_set_new(object, "device_name", text_of(info->device_name));
    json_object_set_new(object, "device_uuid", text_of(info->device_uuid));
    json_object_set_new(object, "ranks_on_device", json_integer(info->ranks_on_device));
    json_object_set_new(object, "comm_device_bytes", size_of(info->device_bytes));
    json_object_set_new(object, "nccl_device_bytes", size_of(info->nccl_bytes));
    return object;
}

static json_t *ranks(const struct bench *bench)
{
    json_t *array = json_array();
    for (int rank = 0; rank < bench->nranks; rank++)
        json_array_append_new(array, rank_place(&bench->infos[rank], rank));
    return array;
}

static json_t *card(const struct bench *bench)
{
    const struct bench_card *c = &bench->card;
    if (bench->backend->memory != TR_MEMORY_CUDA)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "copy_gbps", measure_of(c->copy_rate * 1e-9));
    json_object_set_new(object, "copy_bytes", size_of(c->copy_bytes));
    json_object_set_new(object, "launch_us", measure_of(c->launch_us));
    json_object_set_new(object, "empty_launch_us", measure_of(c->empty_launch_us));
    json_object_set_new(object, "launch_over_empty_us",
                        c->launch_us > 0 ? json_real(c->launch_us - c->empty_launch_us) : json_null());
    return object;
}

static json_t *notes(const struct bench *bench)
{
    json_t *array = json_array();
    for (int i = 0; i < bench->nnotes; i++)
        json_array_append_new(array, text_of(bench->notes[i]));
    return array;
}

static json_t *formulas(const struct bench *bench)
{
    json_t *object = json_object();
    json_object_set_new(object, "bytes", text_of(bench->collective->size_text));
    json_object_set_new(object, "algbw_gbps", text_of("bytes / time, 10^9 bytes a second"));
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
    json_object_set_new(root, "schema", text_of("treering-bench"));
    json_object_set_new(root, "schema_version", json_integer(SCHEMA_VERSION));
    json_object_set_new(root, "program", text_of(bench->collective->program));
    json_object_set_new(root, "collective", text_of(tr_collective_name(bench->collective->collective)));
    json_object_set_new(root, "memory", text_of(tr_memory_name(bench->backend->memory)));
    json_object_set_new(root, "nranks", json_integer(bench->nranks));
    json_object_set_new(root, "environment", environment(bench));
    json_object_set_new(root, "options", options(bench));
    json_object_set_new(root, "formulas", formulas(bench));
    json_object_set_new(root, "ranks", ranks(bench));
    json_object_set_new(root, "card", card(bench));
    json_object_set_new(root, "points", json_array());
}

/* ---- What was measured ------------------------------------------------------------------------------------------- */

static json_t *statistics(const struct bench_stats *stats)
{
    json_t *object = json_object();
    json_object_set_new(object, "n", json_integer(stats->n));
    json_object_set_new(object, "median", json_real(stats->median));
    json_object_set_new(object, "ci95_low", json_real(stats->ci_low));
    json_object_set_new(object, "ci95_high", json_real(stats->ci_high));
    json_object_set_new(object, "min", json_real(stats->min));
    json_object_set_new(object, "p95", json_real(stats->p95));
    json_object_set_new(object, "max", json_real(stats->max));
    return object;
}

static void set_resolved(json_t *object, const struct bench_contender *contender, const struct bench_result *result)
{
    bool ours = !contender->peer && result->state != BENCH_NOT_SERVED;
    enum tr_algorithm algorithm = ours ? result->resolved.algorithm : contender->algorithm;
    json_object_set_new(object, "algorithm", text_of(tr_algorithm_name(algorithm)));
    json_object_set_new(object, "protocol", ours ? text_of(tr_protocol_name(result->resolved.protocol)) : json_null());
    json_object_set_new(object, "channels", ours ? json_integer(result->resolved.channels) : json_null());
}

static void set_speed(json_t *object, const struct bench *bench, const struct bench_point *point,
                      const struct bench_result *result)
{
    bool measured = result->state == BENCH_MEASURED;
    double us = result->time.median;
    bool has_algbw = measured && point->shape.count > 0;
    bool has_busbw = has_algbw && bench->nranks > 1;
    json_object_set_new(object, "time_us", measured ? statistics(&result->time) : json_null());
    json_object_set_new(object, "algbw_gbps", has_algbw ? json_real(bench_algbw(point, us)) : json_null());
    json_object_set_new(object, "busbw_gbps", has_busbw ? json_real(bench_busbw(bench, point, us)) : json_null());
    json_object_set_new(object, "skew_us", measured ? json_real(result->skew_us) : json_null());
    json_object_set_new(object, "iterations", measured ? json_integer(result->iterations) : json_null());
}

static json_t *result_of(const struct bench *bench, const struct bench_point *point, int contender)
{
    const struct bench_contender *who = &bench->contenders[contender];
    const struct bench_result *result = &point->results[contender];
    json_t *object = json_object();
    json_object_set_new(object, "contender", text_of(who->name));
    json_object_set_new(object, "peer", json_boolean(who->peer));
    set_resolved(object, who, result);
    json_object_set_new(object, "state", text_of(state_names[result->state]));
    if (result->state == BENCH_NOT_SERVED)
        json_object_set_new(object, "why", text_of(result->why));
    set_speed(object, bench, point, result);
    json_object_set_new(object, "wrong", json_integer((json_int_t)result->wrong));
    json_object_set_new(object, "verified_iterations", json_integer(result->verified));
    return object;
}

static json_t *name_of(const struct bench *bench, int contender)
{
    return contender >= 0 ? text_of(bench->contenders[contender].name) : json_null();
}

static void json_point(struct bench *bench, const struct bench_point *point)
{
    if (!root)
        return;
    json_t *object = json_object(), *results = json_array();
    json_object_set_new(object, "requested_bytes", size_of(point->requested));
    json_object_set_new(object, "bytes", size_of(point->shape.bytes));
    json_object_set_new(object, "count", size_of(point->shape.count));
    json_object_set_new(object, "datatype", text_of(tr_datatype_name(point->datatype)));
    json_object_set_new(object, "op", bench->collective->reduces ? text_of(tr_op_name(point->op)) : json_null());
    json_object_set_new(object, "exact_kind_compared_for_equality", json_boolean(point->exact));
    json_object_set_new(object, "real_kind_bound", json_real(point->bound));
    json_object_set_new(object, "rounds", json_integer(point->rounds));
    for (int c = 0; c < bench->ncontenders; c++)
        json_array_append_new(results, result_of(bench, point, c));
    json_object_set_new(object, "results", results);
    json_object_set_new(object, "winner", name_of(bench, point->winner));
    json_object_set_new(object, "best_ours", name_of(bench, point->best_ours));
    json_object_set_new(object, "best_peer", name_of(bench, point->best_peer));
    json_object_set_new(object, "peer_over_ours", measure_of(point->ratio));
    json_object_set_new(object, "traffic_share", measure_of(point->traffic_share));
    json_array_append_new(json_object_get(root, "points"), object);
}

static bool json_finish(struct bench *bench, char *why, size_t size)
{
    if (!root)
        return true;
    json_object_set_new(root, "notes", notes(bench));
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
    .point = json_point,
    .finish = json_finish,
    .abandon = json_abandon,
};

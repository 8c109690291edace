/* p2p_json.c - p2p_bench's JSON file, described in docs/results.md. Raise SCHEMA_VERSION when a field changes its meaning. */
#include "bench/backend.h"
#include "bench/environment.h"
#include "bench/p2p_method.h"
#include "bench/p2p_outlier.h"
#include "bench/p2p_report.h"

#include <jansson.h>
#include <math.h>

enum { SCHEMA_VERSION = 1 };

/* Text from outside need not be UTF-8; what is not becomes null. */
static json_t *text_of(const char *text)
{
    json_t *value = text && *text ? json_string(text) : NULL;
    return value ? value : json_null();
}

static json_t *size_of(size_t bytes)
{
    return json_integer((json_int_t)bytes);
}

/* A whole number as an integer, else a real; null for what is not finite. */
static json_t *number_of(double number)
{
    if (!isfinite(number))
        return json_null();
    if (fabs(number) < 0x1p53 && floor(number) == number)
        return json_integer((json_int_t)number);
    return json_real(number);
}

static json_t *real_of(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

/* -1: not known. */
static json_t *known_of(int value)
{
    return value < 0 ? json_null() : json_integer(value);
}

/* ---- What was run ------------------------------------------------------------------------------------------------ */

static json_t *environment(const struct p2p *p2p)
{
    struct environment_fact facts[ENVIRONMENT_MAX];
    json_t *object = json_object(), *variables = json_object();
    int n = environment_facts(&p2p->bench, facts);
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

static json_t *options(const struct p2p *p2p)
{
    const struct p2p_options *o = &p2p->options;
    json_t *object = json_object();
    json_object_set_new(object, "first_bytes", size_of(o->range.first));
    json_object_set_new(object, "last_bytes", size_of(o->range.last));
    json_object_set_new(object, "step_factor", size_of(o->range.factor));
    json_object_set_new(object, "message_bytes", size_of(o->message));
    json_object_set_new(object, "rounds", json_integer(p2p->rounds));
    json_object_set_new(object, "together", json_boolean(o->together));
    json_object_set_new(object, "seed", json_integer(o->seed));
    json_object_set_new(object, "timeout_s", o->timeout_s > 0 ? json_real(o->timeout_s) : json_null());
    return object;
}

static json_t *outlier_rule(void)
{
    json_t *object = json_object();
    json_object_set_new(object, "score_over", json_real(P2P_OUTLIER_SCORE));
    json_object_set_new(object, "ci_low_over_median_by", json_real(P2P_OUTLIER_SHARE));
    json_object_set_new(object, "least_pairs", json_integer(P2P_OUTLIER_LEAST));
    return object;
}

static json_t *ranks(const struct p2p *p2p)
{
    json_t *array = json_array();
    for (int r = 0; r < p2p->nranks; r++) {
        const struct tr_comm_info *info = &p2p->bench.infos[r];
        json_t *object = json_object();
        json_object_set_new(object, "rank", json_integer(r));
        json_object_set_new(object, "host", text_of(info->host));
        json_object_set_new(object, "binding", text_of(info->binding));
        json_object_set_new(object, "device", known_of(info->device));
        json_object_set_new(object, "device_name", text_of(info->device_name));
        json_object_set_new(object, "device_uuid", text_of(info->device_uuid));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *methods(const struct p2p *p2p)
{
    json_t *array = json_array();
    for (int m = 0; m < p2p->nmethods; m++) {
        const struct p2p_method *method = &p2p_methods[p2p->methods[m]];
        json_t *object = json_object();
        json_object_set_new(object, "method", text_of(method->name));
        json_object_set_new(object, "what", text_of(method->text));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *notes(const struct p2p *p2p)
{
    json_t *array = json_array();
    for (int i = 0; i < p2p->bench.nnotes; i++)
        json_array_append_new(array, text_of(p2p->bench.notes[i]));
    return array;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static json_t *time_of(const struct p2p_result *result)
{
    const struct bench_stats *time = &result->time;
    if (result->state != P2P_MEASURED)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "n", json_integer(time->n));
    json_object_set_new(object, "median", json_real(time->median));
    json_object_set_new(object, "ci95_low", json_real(time->ci_low));
    json_object_set_new(object, "ci95_high", json_real(time->ci_high));
    json_object_set_new(object, "min", json_real(time->min));
    json_object_set_new(object, "max", json_real(time->max));
    return object;
}

static json_t *result_of(const struct p2p *p2p, int from, int to, int t)
{
    const struct p2p_test *test = &p2p->tests[t];
    const struct p2p_result *result = p2p_result_of(p2p, from, to, t);
    bool has_speed = result->state == P2P_MEASURED && !p2p_is_latency(test->kind);
    json_t *object = json_object();
    json_object_set_new(object, "method", text_of(test->method->name));
    json_object_set_new(object, "kind", text_of(p2p_kind_names[test->kind]));
    json_object_set_new(object, "bytes", size_of(test->bytes));
    json_object_set_new(object, "state", text_of(result->state == P2P_MEASURED ? "measured" : "wrong"));
    json_object_set_new(object, "time_us", time_of(result));
    json_object_set_new(object, "gbps", has_speed ? json_real(p2p_gbps(test, result->time.median)) : json_null());
    json_object_set_new(object, "iterations", json_integer(result->iterations));
    json_object_set_new(object, "wrong", number_of(result->wrong));
    json_object_set_new(object, "verified_samples", json_integer(result->verified));
    json_object_set_new(object, "outlier", result->judged ? json_boolean(result->outlier) : json_null());
    json_object_set_new(object, "score", result->judged ? real_of(result->score) : json_null());
    return object;
}

static json_t *results(const struct p2p *p2p, int from, int to)
{
    json_t *array = json_array();
    for (int t = 0; t < p2p->ntests; t++)
        if (p2p_applies(&p2p->tests[t], from, to))
            json_array_append_new(array, result_of(p2p, from, to, t));
    return array;
}

static json_t *interval_of(const struct tr_interval *interval)
{
    json_t *object = json_object();
    json_object_set_new(object, "value", real_of(interval->value));
    json_object_set_new(object, "ci95_low", real_of(interval->low));
    json_object_set_new(object, "ci95_high", real_of(interval->high));
    return object;
}

static json_t *fits(const struct p2p *p2p, int from, int to)
{
    json_t *array = json_array();
    for (int m = 0; m < p2p->nmethods; m++) {
        const struct p2p_fit *fit = p2p_fit_of(p2p, from, to, m);
        if (!fit->fitted)
            continue;
        json_t *object = json_object();
        json_object_set_new(object, "method", text_of(p2p_methods[p2p->methods[m]].name));
        json_object_set_new(object, "alpha_us", interval_of(&fit->alpha_us));
        json_object_set_new(object, "beta_gbps", interval_of(&fit->beta_gbps));
        json_object_set_new(object, "pieces", json_integer(fit->npieces));
        json_object_set_new(object, "median_residual", real_of(fit->median_residual));
        json_object_set_new(object, "largest_residual", real_of(fit->largest_residual));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *pair(const struct p2p *p2p, int from, int to)
{
    const struct p2p_transport *transport = p2p_transport_of(p2p, from, to);
    json_t *object = json_object();
    json_object_set_new(object, "from", json_integer(from));
    json_object_set_new(object, "to", json_integer(to));
    json_object_set_new(object, "transport", text_of(transport->name));
    json_object_set_new(object, "same_gpu", transport->same_gpu < 0 ? json_null() : json_boolean(transport->same_gpu));
    json_object_set_new(object, "nvlink", transport->nvlink < 0 ? json_null() : json_boolean(transport->nvlink));
    json_object_set_new(object, "native_atomics",
                        transport->native_atomics < 0 ? json_null() : json_boolean(transport->native_atomics));
    json_object_set_new(object, "performance_rank", known_of(transport->performance_rank));
    json_object_set_new(object, "from_bus", text_of(transport->from_bus));
    json_object_set_new(object, "to_bus", text_of(transport->to_bus));
    json_object_set_new(object, "results", results(p2p, from, to));
    json_object_set_new(object, "fits", fits(p2p, from, to));
    return object;
}

static json_t *pairs(const struct p2p *p2p)
{
    json_t *array = json_array();
    for (int from = 0; from < p2p->nranks; from++)
        for (int to = 0; to < p2p->nranks; to++)
            if (from != to)
                json_array_append_new(array, pair(p2p, from, to));
    return array;
}

bool p2p_json_write(const struct p2p *p2p, FILE *stream)
{
    json_t *root = json_object();
    json_object_set_new(root, "schema", json_string("treering-p2p"));
    json_object_set_new(root, "schema_version", json_integer(SCHEMA_VERSION));
    json_object_set_new(root, "program", json_string("p2p_bench"));
    json_object_set_new(root, "memory", text_of(tr_memory_name(p2p->bench.backend->memory)));
    json_object_set_new(root, "nranks", json_integer(p2p->nranks));
    json_object_set_new(root, "environment", environment(p2p));
    json_object_set_new(root, "options", options(p2p));
    json_object_set_new(root, "outlier_rule", outlier_rule());
    json_object_set_new(root, "seconds", json_real(p2p->seconds));
    json_object_set_new(root, "ranks", ranks(p2p));
    json_object_set_new(root, "methods", methods(p2p));
    json_object_set_new(root, "notes", notes(p2p));
    json_object_set_new(root, "pairs", pairs(p2p));
    bool good = json_dumpf(root, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    fputc('\n', stream);
    json_decref(root);
    return good && !ferror(stream);
}

/* report_json_results.c - what was measured, for the JSON file: points, anchors, and who came late. */
#include "bench/entry.h"
#include "bench/report_json.h"
#include "doctor/nvml.h"

#include <math.h>

static const char *const state_names[] = {
    [BENCH_MEASURED] = "measured", [BENCH_WRONG_DATA] = "wrong", [BENCH_NOT_SERVED] = "not_served"};

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

static void set_interval(json_t *object, const struct bench_stats *stats)
{
    json_object_set_new(object, "n", json_integer(stats->n));
    json_object_set_new(object, "median", json_real(stats->median));
    json_object_set_new(object, "ci95_low", json_real(stats->ci_low));
    json_object_set_new(object, "ci95_high", json_real(stats->ci_high));
    json_object_set_new(object, "ci_level", json_real(stats->ci_level));
}

static json_t *statistics(const struct bench_stats *stats)
{
    json_t *object = json_object();
    set_interval(object, stats);
    json_object_set_new(object, "min", json_real(stats->min));
    json_object_set_new(object, "p5", json_real(stats->p5));
    json_object_set_new(object, "p95", json_real(stats->p95));
    json_object_set_new(object, "p99", json_real(stats->p99));
    json_object_set_new(object, "max", json_real(stats->max));
    return object;
}

/* Of entry times. */
static json_t *lateness(const struct bench_stats *stats)
{
    if (stats->n == 0)
        return json_null();
    return json_pack("{s:i, s:f, s:f, s:f}", "n", stats->n, "median", stats->median, "p95", stats->p95, "max",
                     stats->max);
}

json_t *json_entry(const struct bench *bench, int rank)
{
    if (!bench->entries)
        return json_null();
    json_t *object = lateness(&bench->entries[rank].late);
    json_object_set_new(object, "uncertainty", json_real(bench->entries[rank].uncertainty_us));
    return object;
}

/* ---- Points ------------------------------------------------------------------------------------------------------ */

static void set_resolved(json_t *object, const struct bench_contender *contender, const struct bench_result *result)
{
    bool ours = !contender->peer && result->state != BENCH_NOT_SERVED;
    enum tr_algorithm algorithm = ours ? result->resolved.algorithm : contender->algorithm;
    json_object_set_new(object, "algorithm", json_text_of(tr_algorithm_name(algorithm)));
    json_object_set_new(object, "protocol",
                        ours ? json_text_of(tr_protocol_name(result->resolved.protocol)) : json_null());
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
    json_object_set_new(object, "ci_share", measured ? json_finite(result->share) : json_null());
    json_object_set_new(object, "converged", measured ? json_boolean(result->converged) : json_null());
    json_object_set_new(object, "algbw_gbps", has_algbw ? json_real(bench_algbw(point, us)) : json_null());
    json_object_set_new(object, "busbw_gbps", has_busbw ? json_real(bench_busbw(bench, point, us)) : json_null());
    json_object_set_new(object, "skew_us", measured ? json_real(result->skew_us) : json_null());
    json_object_set_new(object, "entry_skew_us", measured ? lateness(&result->entry) : json_null());
    json_object_set_new(object, "iterations", measured ? json_integer(result->iterations) : json_null());
    json_object_set_new(object, "graph_launches", measured ? json_integer(bench->options.graph_launches) : json_null());
}

static json_t *result_of(const struct bench *bench, const struct bench_point *point, int contender)
{
    const struct bench_contender *who = &bench->contenders[contender];
    const struct bench_result *result = &point->results[contender];
    json_t *object = json_object();
    json_object_set_new(object, "contender", json_text_of(who->name));
    json_object_set_new(object, "peer", json_boolean(who->peer));
    set_resolved(object, who, result);
    json_object_set_new(object, "state", json_text_of(state_names[result->state]));
    if (result->state == BENCH_NOT_SERVED)
        json_object_set_new(object, "why", json_text_of(result->why));
    set_speed(object, bench, point, result);
    json_object_set_new(object, "wrong", json_integer((json_int_t)result->wrong));
    json_object_set_new(object, "verified_iterations", json_integer(result->verified));
    return object;
}

static json_t *name_of(const struct bench *bench, int contender)
{
    return contender >= 0 ? json_text_of(bench->contenders[contender].name) : json_null();
}

static json_t *regret_of_point(const struct bench *bench, const struct bench_regret *regret)
{
    if (!regret->known)
        return json_null();
    return json_pack("{s:f, s:f, s:b, s:f, s:o, s:f}", "value", regret->value, "low", regret->low, "auto_is_best",
                     regret->same, "auto_us", regret->auto_us, "best_other", name_of(bench, regret->best), "best_us",
                     regret->best_us);
}

static void set_drift(json_t *object, const struct bench *bench, const struct bench_point *point)
{
    struct bench_drift drift = bench_drift_of(bench, point);
    bool known = bench->anchors.nsizes > 0;
    int last = bench->anchors.n - 1;
    json_object_set_new(object, "began_s", json_real(point->began_s));
    json_object_set_new(object, "anchor_before", known ? json_integer(point->anchor) : json_null());
    json_object_set_new(object, "anchor_after",
                        known ? json_integer(point->anchor < last ? point->anchor + 1 : last) : json_null());
    json_object_set_new(object, "drift", known ? json_real(drift.share) : json_null());
    json_object_set_new(object, "drifted", known ? json_boolean(drift.moved) : json_null());
    json_object_set_new(object, "slowed_by", json_text_of(doctor_nvml_reason(drift.slowed)));
}

static json_t *point_of(const struct bench *bench, const struct bench_point *point)
{
    json_t *object = json_object(), *results = json_array();
    json_object_set_new(object, "requested_bytes", json_size_of(point->requested));
    json_object_set_new(object, "bytes", json_size_of(point->shape.bytes));
    json_object_set_new(object, "count", json_size_of(point->shape.count));
    json_object_set_new(object, "datatype", json_text_of(tr_datatype_name(point->datatype)));
    json_object_set_new(object, "op", bench->collective->reduces ? json_text_of(tr_op_name(point->op)) : json_null());
    json_object_set_new(object, "exact_kind_compared_for_equality", json_boolean(point->exact));
    json_object_set_new(object, "real_kind_bound", json_real(point->bound));
    json_object_set_new(object, "rounds", json_integer(point->rounds));
    set_drift(object, bench, point);
    for (int c = 0; c < bench->ncontenders; c++)
        json_array_append_new(results, result_of(bench, point, c));
    json_object_set_new(object, "results", results);
    json_object_set_new(object, "winner", name_of(bench, point->winner));
    json_object_set_new(object, "best_ours", name_of(bench, point->best_ours));
    json_object_set_new(object, "best_peer", name_of(bench, point->best_peer));
    json_object_set_new(object, "peer_over_ours", json_measure_of(point->ratio));
    json_object_set_new(object, "traffic_share", json_measure_of(point->traffic_share));
    json_object_set_new(object, "regret", regret_of_point(bench, &point->regret));
    return object;
}

json_t *json_points(const struct bench *bench)
{
    json_t *array = json_array();
    for (int p = 0; p < bench->npoints; p++)
        json_array_append_new(array, point_of(bench, bench->points[p]));
    return array;
}

/* ---- Anchors ----------------------------------------------------------------------------------------------------- */

static json_t *gpus_at(const struct bench_anchor *anchor)
{
    if (!anchor->sm_mhz_max)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "sm_mhz_min", json_integer(anchor->sm_mhz_min));
    json_object_set_new(object, "sm_mhz_max", json_integer(anchor->sm_mhz_max));
    json_object_set_new(object, "celsius_max", anchor->celsius_max ? json_integer(anchor->celsius_max) : json_null());
    json_object_set_new(object, "slowed_bits", json_integer((json_int_t)anchor->slowed));
    json_object_set_new(object, "slowed_by", json_text_of(doctor_nvml_reason(anchor->slowed)));
    return object;
}

static json_t *anchor_of(const struct bench *bench, const struct bench_anchor *anchor)
{
    json_t *object = json_object(), *calls = json_array();
    json_object_set_new(object, "at_s", json_real(anchor->at_s));
    for (int i = 0; i < bench->anchors.nsizes; i++) {
        json_t *call = json_object();
        json_object_set_new(call, "bytes", json_size_of(bench->anchors.bytes[i]));
        set_interval(call, &anchor->time[i]);
        json_array_append_new(calls, call);
    }
    json_object_set_new(object, "time_us", calls);
    json_object_set_new(object, "drift", json_real(anchor->drift));
    json_object_set_new(object, "moved", json_boolean(anchor->moved));
    json_object_set_new(object, "gpus", gpus_at(anchor));
    return object;
}

json_t *json_anchors(const struct bench *bench)
{
    const struct bench_anchors *anchors = &bench->anchors;
    if (anchors->nsizes == 0)
        return json_null();
    json_t *object = json_object(), *measured = json_array();
    json_object_set_new(object, "contender", name_of(bench, anchors->contender));
    json_object_set_new(object, "datatype", json_text_of(tr_datatype_name(TR_F32)));
    json_object_set_new(object, "op", bench->collective->reduces ? json_text_of(tr_op_name(TR_SUM)) : json_null());
    json_object_set_new(object, "threshold", json_real(bench->options.drift_share));
    for (int i = 0; i < anchors->n; i++)
        json_array_append_new(measured, anchor_of(bench, &anchors->list[i]));
    json_object_set_new(object, "measured", measured);
    return object;
}

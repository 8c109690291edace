/* report_json_analysis.c - what follows from what was measured, for the JSON file: fits, regret, the baseline. */
#include "bench/baseline.h"
#include "bench/fits.h"
#include "bench/regret.h"
#include "bench/report_json.h"

#include <math.h>
#include <stdlib.h>

static void set_kind(json_t *object, const struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    json_object_set_new(object, "datatype", json_text_of(tr_datatype_name(datatype)));
    json_object_set_new(object, "op", bench->collective->reduces ? json_text_of(tr_op_name(op)) : json_null());
}

/* Call `add` for each datatype and operation of the sweep. */
static json_t *each_kind(const struct bench *bench, void (*add)(json_t *array, const struct bench *bench,
                                                                enum tr_datatype datatype, enum tr_op op))
{
    json_t *array = json_array();
    for (int datatype = 0; datatype < TR_DATATYPE_COUNT; datatype++)
        for (int op = 0; op < TR_OP_COUNT; op++)
            if (bench->options.datatypes[datatype] && bench->options.ops[op])
                add(array, bench, (enum tr_datatype)datatype, (enum tr_op)op);
    return array;
}

/* ---- Fits -------------------------------------------------------------------------------------------------------- */

static json_t *interval(const struct tr_interval *interval)
{
    json_t *object = json_object();
    json_object_set_new(object, "value", json_finite(interval->value));
    json_object_set_new(object, "low", json_finite(interval->low));
    json_object_set_new(object, "high", json_finite(interval->high));
    return object;
}

static json_t *segments(const struct tr_fit *fit)
{
    json_t *array = json_array();
    for (int i = 0; i < fit->nsegments; i++) {
        const struct tr_segment *segment = &fit->segments[i];
        json_t *object = json_object();
        json_object_set_new(object, "from_bytes", json_size_of((size_t)segment->from_bytes));
        json_object_set_new(object, "to_bytes", json_size_of((size_t)segment->to_bytes));
        json_object_set_new(object, "npoints", json_integer(segment->npoints));
        json_object_set_new(object, "alpha_us", interval(&segment->alpha_us));
        json_object_set_new(object, "beta_gbps", interval(&segment->beta_gbps));
        json_object_set_new(object, "half_bytes", interval(&segment->half_bytes));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *residuals(const struct bench_fit *fit)
{
    json_t *array = json_array();
    for (int i = 0; i < fit->npoints; i++) {
        const struct tr_fit_point *point = &fit->points[i];
        json_t *object = json_object();
        json_object_set_new(object, "bytes", json_size_of((size_t)point->bytes));
        json_object_set_new(object, "residual", json_real(tr_fit_predict(&fit->fit, point->bytes) / point->us - 1));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *fit_of(const struct bench *bench, int contender, enum tr_datatype datatype, enum tr_op op,
                      const struct bench_fit *fit)
{
    json_t *object = json_object();
    set_kind(object, bench, datatype, op);
    json_object_set_new(object, "contender", json_text_of(bench->contenders[contender].name));
    json_object_set_new(object, "npoints", json_integer(fit->npoints));
    json_object_set_new(object, "why", fit->known ? json_null() : json_text_of(fit->why));
    json_object_set_new(object, "segments", segments(&fit->fit));
    json_object_set_new(object, "median_residual", fit->known ? json_real(fit->fit.median_residual) : json_null());
    json_object_set_new(object, "largest_residual", fit->known ? json_real(fit->fit.largest_residual) : json_null());
    json_object_set_new(object, "residuals", fit->known ? residuals(fit) : json_array());
    return object;
}

static void add_fits(json_t *array, const struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    struct bench_fit fit;
    for (int c = 0; c < bench->ncontenders; c++)
        if (fits_compute(bench, c, datatype, op, &fit)) {
            json_array_append_new(array, fit_of(bench, c, datatype, op, &fit));
            free(fit.points);
        }
}

json_t *json_fits(const struct bench *bench)
{
    return each_kind(bench, add_fits);
}

/* ---- Regret ------------------------------------------------------------------------------------------------------ */

static void add_regret(json_t *array, const struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    struct regret_summary summary = regret_summarize(bench, datatype, op);
    if (summary.npoints == 0)
        return;
    json_t *object = json_object();
    set_kind(object, bench, datatype, op);
    json_object_set_new(object, "npoints", json_integer(summary.npoints));
    json_object_set_new(object, "median", json_real(summary.median));
    json_object_set_new(object, "worst", json_real(summary.worst));
    json_object_set_new(object, "worst_low", json_real(summary.worst_low));
    json_object_set_new(object, "worst_bytes", json_size_of(summary.worst_bytes));
    json_array_append_new(array, object);
}

json_t *json_regrets(const struct bench *bench)
{
    return each_kind(bench, add_regret);
}

/* ---- Baseline ---------------------------------------------------------------------------------------------------- */

static json_t *loss_of(const struct bench *bench, const struct baseline_loss *loss)
{
    json_t *object = json_object();
    set_kind(object, bench, loss->point->datatype, loss->point->op);
    json_object_set_new(object, "bytes", json_size_of(loss->point->shape.bytes));
    json_object_set_new(object, "contender", json_text_of(bench->contenders[loss->contender].name));
    json_object_set_new(object, "median_us", json_measure_of(loss->us));
    json_object_set_new(object, "baseline_us", json_real(loss->base_us));
    return object;
}

json_t *json_baseline(const struct bench *bench)
{
    const struct baseline *baseline = bench->baseline;
    if (!baseline)
        return json_null();
    json_t *object = json_object(), *slower = json_array();
    json_object_set_new(object, "path", json_text_of(bench->options.baseline_path));
    json_object_set_new(object, "host", json_text_of(baseline->file->machine.host));
    json_object_set_new(object, "statistic", json_text_of("median"));
    json_object_set_new(object, "tolerance", json_real(bench->options.tolerance));
    json_object_set_new(object, "compared", json_integer(baseline->ncompared));
    json_object_set_new(object, "faster", json_integer(baseline->nfaster));
    for (int i = 0; i < baseline->nlosses; i++)
        json_array_append_new(slower, loss_of(bench, &baseline->losses[i]));
    json_object_set_new(object, "slower", slower);
    return object;
}

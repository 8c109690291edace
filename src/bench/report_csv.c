/* report_csv.c - the CSV file: one line a contender and size, named columns, described in docs/results.md; written when the
 * sweep is over, since only then is it known which points drifted. */
#include "bench/backend.h"
#include "bench/report.h"

#include <math.h>

static struct report_file file;

static const char *const state_names[] = {
    [BENCH_MEASURED] = "measured", [BENCH_WRONG_DATA] = "wrong", [BENCH_NOT_SERVED] = "not_served"};

static bool csv_open(struct bench *bench, char *why, size_t size)
{
    return !bench->options.csv_path || report_file_open(&file, bench->options.csv_path, why, size);
}

static void csv_begin(struct bench *bench)
{
    (void)bench;
    if (file.stream)
        fprintf(file.stream,
                "collective,memory,ranks,datatype,op,in_place,buffers,requested_bytes,bytes,count,contender,"
                "peer,algorithm,protocol,channels,state,time_us,ci_low_us,ci_high_us,ci_level,ci_share,converged,"
                "min_us,p5_us,p95_us,p99_us,max_us,samples,iterations,graph_launches,skew_us,entry_skew_us,"
                "algbw_gbps,busbw_gbps,wrong,verified,winner,drifted,regret,seed\n");
}

/* A number where there is one, else nothing. */
static void write_number(const char *format, double number, bool known)
{
    if (known && isfinite(number))
        fprintf(file.stream, format, number);
    fputc(',', file.stream);
}

/* Speeds are empty where there are none. */
static void write_speed(const struct bench *bench, const struct bench_point *point, const struct bench_result *result)
{
    const struct bench_stats *time = &result->time;
    bool measured = result->state == BENCH_MEASURED;
    const double times[] = {time->median, time->ci_low, time->ci_high, time->ci_level};
    const double quantiles[] = {time->min, time->p5, time->p95, time->p99, time->max};
    for (int i = 0; i < 4; i++)
        write_number("%.9g", times[i], measured);
    write_number("%.9g", result->share, measured);
    write_number("%.0f", result->converged, measured);
    for (int i = 0; i < 5; i++)
        write_number("%.9g", quantiles[i], measured);
    write_number("%.0f", time->n, measured);
    write_number("%.0f", result->iterations, measured);
    write_number("%.0f", bench->options.graph_launches, measured);
    write_number("%.9g", result->skew_us, measured);
    write_number("%.9g", result->entry.median, measured && result->entry.n);
    write_number("%.9g", bench_algbw(point, time->median), measured && point->shape.count);
    write_number("%.9g", bench_busbw(bench, point, time->median), measured && point->shape.count && bench->nranks > 1);
}

static void write_resolved(const struct bench_contender *contender, const struct bench_result *result)
{
    if (contender->peer || result->state == BENCH_NOT_SERVED)
        fprintf(file.stream, "%s,,,", tr_algorithm_name(contender->algorithm));
    else
        fprintf(file.stream, "%s,%s,%d,", tr_algorithm_name(result->resolved.algorithm),
                tr_protocol_name(result->resolved.protocol), result->resolved.channels);
}

/* The row that the regret stands in. */
static bool is_plain_auto(const struct bench_contender *contender)
{
    return contender->algorithm == TR_ALGORITHM_AUTO && contender->protocol == TR_PROTOCOL_AUTO;
}

static void write_line(const struct bench *bench, const struct bench_point *point, int contender)
{
    const struct bench_contender *who = &bench->contenders[contender];
    const struct bench_result *result = &point->results[contender];
    fprintf(file.stream, "%s,%s,%d,%s,%s,%d,%s,%zu,%zu,%zu,%s,%d,", tr_collective_name(bench->collective->collective),
            tr_memory_name(bench->backend->memory), bench->nranks, tr_datatype_name(point->datatype),
            bench->collective->reduces ? tr_op_name(point->op) : "", bench->options.in_place,
            bench->options.plain ? "plain" : "registered", point->requested, point->shape.bytes, point->shape.count,
            who->name, who->peer);
    write_resolved(who, result);
    fprintf(file.stream, "%s,", state_names[result->state]);
    write_speed(bench, point, result);
    fprintf(file.stream, "%.0f,%d,%d,%d,", result->wrong, result->verified, contender == point->winner,
            bench_drift_of(bench, point).moved);
    write_number("%.9g", point->regret.value, point->regret.known && is_plain_auto(who));
    fprintf(file.stream, "%llu\n", (unsigned long long)bench->seed);
}

static bool csv_finish(struct bench *bench, char *why, size_t size)
{
    if (!file.stream)
        return true;
    for (int p = 0; p < bench->npoints; p++)
        for (int c = 0; c < bench->ncontenders; c++)
            write_line(bench, bench->points[p], c);
    return report_file_finish(&file, why, size);
}

static void csv_abandon(struct bench *bench)
{
    (void)bench;
    report_file_abandon(&file);
}

const struct bench_report report_csv = {
    .open = csv_open,
    .begin = csv_begin,
    .finish = csv_finish,
    .abandon = csv_abandon,
};

/* report_csv.c - the CSV file: one line a contender and size, named columns, described in docs/results.md. */
#include "bench/backend.h"
#include "bench/report.h"

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
                "peer,algorithm,protocol,channels,state,time_us,ci_low_us,ci_high_us,min_us,p95_us,max_us,"
                "samples,iterations,skew_us,algbw_gbps,busbw_gbps,wrong,verified,winner\n");
}

/* Speeds are empty where there are none. */
static void write_speed(const struct bench *bench, const struct bench_point *point, const struct bench_result *result)
{
    const struct bench_stats *time = &result->time;
    if (result->state == BENCH_MEASURED)
        fprintf(file.stream, "%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%d,%d,%.4f,%.6f,%.6f,", time->median, time->ci_low,
                time->ci_high, time->min, time->p95, time->max, time->n, result->iterations, result->skew_us,
                bench_algbw(point, time->median), bench_busbw(bench, point, time->median));
    else
        fprintf(file.stream, ",,,,,,,,,,,");
}

static void write_resolved(const struct bench_contender *contender, const struct bench_result *result)
{
    if (contender->peer || result->state == BENCH_NOT_SERVED)
        fprintf(file.stream, "%s,,,", tr_algorithm_name(contender->algorithm));
    else
        fprintf(file.stream, "%s,%s,%d,", tr_algorithm_name(result->resolved.algorithm),
                tr_protocol_name(result->resolved.protocol), result->resolved.channels);
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
    fprintf(file.stream, "%.0f,%d,%d\n", result->wrong, result->verified, contender == point->winner);
}

static void csv_point(struct bench *bench, const struct bench_point *point)
{
    if (file.stream)
        for (int c = 0; c < bench->ncontenders; c++)
            write_line(bench, point, c);
}

static bool csv_finish(struct bench *bench, char *why, size_t size)
{
    (void)bench;
    return !file.stream || report_file_finish(&file, why, size);
}

static void csv_abandon(struct bench *bench)
{
    (void)bench;
    report_file_abandon(&file);
}

const struct bench_report report_csv = {
    .open = csv_open,
    .begin = csv_begin,
    .point = csv_point,
    .finish = csv_finish,
    .abandon = csv_abandon,
};

/* p2p_csv.c - p2p_bench's CSV file: one line a pair and test, described in docs/results.md. */
#include "bench/backend.h"
#include "bench/p2p_method.h"
#include "bench/p2p_report.h"

static const char *const state_names[] = {
    [P2P_NOT_RUN] = "not_run", [P2P_MEASURED] = "measured", [P2P_WRONG] = "wrong"};

/* Speeds are empty where there are none. */
static void write_times(const struct p2p_test *test, const struct p2p_result *result, FILE *stream)
{
    const struct bench_stats *time = &result->time;
    if (result->state != P2P_MEASURED) {
        fputs(",,,,,,,", stream);
        return;
    }
    fprintf(stream, "%.4f,%.4f,%.4f,%.4f,%.4f,%d,", time->median, time->ci_low, time->ci_high, time->min, time->max,
            time->n);
    if (p2p_is_latency(test->kind))
        fputs(",", stream);
    else
        fprintf(stream, "%.6f,", p2p_gbps(test, time->median));
}

static void write_line(const struct p2p *p2p, int from, int to, int t, FILE *stream)
{
    const struct p2p_test *test = &p2p->tests[t];
    const struct p2p_result *result = p2p_result_of(p2p, from, to, t);
    fprintf(stream, "%s,%d,%d,%d,\"%s\",%s,%s,%zu,%s,", tr_memory_name(p2p->bench.backend->memory), p2p->nranks, from,
            to, p2p_transport_of(p2p, from, to)->name, test->method->name, p2p_kind_names[test->kind], test->bytes,
            state_names[result->state]);
    write_times(test, result, stream);
    fprintf(stream, "%d,%.0f,%d,", result->iterations, result->wrong, result->verified);
    if (result->judged)
        fprintf(stream, "%d,%.3f\n", result->outlier, result->score);
    else
        fputs(",\n", stream);
}

bool p2p_csv_write(const struct p2p *p2p, FILE *stream)
{
    fputs("memory,ranks,from,to,transport,method,kind,bytes,state,time_us,ci_low_us,ci_high_us,min_us,max_us,samples,"
          "gbps,iterations,wrong,verified,outlier,score\n",
          stream);
    for (int t = 0; t < p2p->ntests; t++)
        for (int from = 0; from < p2p->nranks; from++)
            for (int to = 0; to < p2p->nranks; to++)
                if (p2p_applies(&p2p->tests[t], from, to))
                    write_line(p2p, from, to, t, stream);
    return !ferror(stream);
}

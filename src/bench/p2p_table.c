/*
 * p2p_table.c - p2p_bench's table: a matrix for each latency and for the largest transfers of each method, then every test
 * in one line, and the outliers.
 */
#include "bench/backend.h"
#include "bench/p2p_method.h"
#include "bench/p2p_outlier.h"
#include "bench/p2p_report.h"
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

enum { WIDEST = 16 }; /* ranks of a matrix that fits a terminal; more take a line each */
enum { MOST_OUTLIERS = 40 };

static const char *const kind_titles[P2P_KIND_COUNT] = {
    [P2P_FLAG] = "latency of a flag",
    [P2P_MESSAGE] = "latency of a message",
    [P2P_ONE_WAY] = "bandwidth one way",
    [P2P_TWO_WAY] = "bandwidth each way, both at once",
};

static const char *unit(const struct p2p_test *test)
{
    return p2p_is_latency(test->kind) ? "us" : "GB/s";
}

static double value_of(const struct p2p_test *test, const struct p2p_result *result)
{
    return p2p_is_latency(test->kind) ? result->time.median : p2p_gbps(test, result->time.median);
}

/* A result both ways at once stands for both orders of the pair. */
static const struct p2p_result *shown_result(const struct p2p *p2p, int from, int to, int t)
{
    bool swap = p2p->tests[t].kind == P2P_TWO_WAY && from > to;
    return swap ? p2p_result_of(p2p, to, from, t) : p2p_result_of(p2p, from, to, t);
}

/* ---- Head -------------------------------------------------------------------------------------------------------- */

static const struct p2p_transport *first_of(const struct p2p *p2p, int group)
{
    return &p2p->transports[p2p->groups[group]];
}

static void print_transports(const struct p2p *p2p)
{
    for (int group = 0; group < p2p->ngroups; group++) {
        int first = p2p->groups[group], pairs = 0;
        for (int i = 0; i < p2p->nranks * p2p->nranks; i++)
            pairs += p2p->transports[i].group == group;
        printf("# transport: %s, %d pairs, such as %d to %d\n", first_of(p2p, group)->name, pairs, first / p2p->nranks,
               first % p2p->nranks);
    }
}

static void print_ranks(const struct p2p *p2p)
{
    for (int r = 0; r < p2p->nranks; r++) {
        const struct tr_comm_info *info = &p2p->bench.infos[r];
        printf("# rank %d on %s, bound to %s", r, info->host, info->binding);
        if (info->device >= 0)
            printf(", GPU %d %s %s", info->device, info->device_name, info->device_uuid);
        putchar('\n');
    }
}

static void print_head(const struct p2p *p2p)
{
    const struct p2p_options *options = &p2p->options;
    printf("# p2p_bench (Treering) %s: %d ranks, %s memory, %s; median of %d samples, seed %u, %.1f s\n", tr_version(),
           p2p->nranks, tr_memory_name(p2p->bench.backend->memory),
           options->together ? "pairs that share no rank at once" : "one pair at a time", p2p->rounds, options->seed,
           p2p->seconds);
    print_transports(p2p);
    for (int m = 0; m < p2p->nmethods; m++)
        printf("# %-6s  %s\n", p2p_methods[p2p->methods[m]].name, p2p_methods[p2p->methods[m]].text);
    if (options->verbose)
        print_ranks(p2p);
    for (int i = 0; i < p2p->bench.nnotes; i++)
        printf("# note: %s\n", p2p->bench.notes[i]);
}

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

static void print_title(const struct p2p_test *test)
{
    char size[SIZE_TEXT];
    printf("\n%s", kind_titles[test->kind]);
    if (test->kind != P2P_FLAG)
        printf(", %s, %s", test->method->name, size_format(test->bytes, size));
    printf(", %s", unit(test));
}

static void print_cell(const struct p2p *p2p, int from, int to, int t)
{
    if (from == to) {
        printf(" %8s ", "-");
        return;
    }
    const struct p2p_result *result = shown_result(p2p, from, to, t);
    if (result->state == P2P_WRONG)
        printf(" %8s!", "wrong");
    else
        printf(" %8.*f%c", p2p_is_latency(p2p->tests[t].kind) ? 3 : 2, value_of(&p2p->tests[t], result),
               result->outlier ? '*' : ' ');
}

static void print_matrix(const struct p2p *p2p, int t)
{
    print_title(&p2p->tests[t]);
    printf(" (rows from, columns to)\n%7s", "");
    for (int to = 0; to < p2p->nranks; to++)
        printf(" %8d ", to);
    for (int from = 0; from < p2p->nranks; from++) {
        printf("\n%7d", from);
        for (int to = 0; to < p2p->nranks; to++)
            print_cell(p2p, from, to, t);
    }
    putchar('\n');
}

/* Statistics over the pairs of a rank, sending or receiving; n 0: there are none. */
static struct bench_stats over_peers(const struct p2p *p2p, int t, int rank, bool sending, double *scratch)
{
    int n = 0;
    for (int peer = 0; peer < p2p->nranks; peer++) {
        if (peer == rank)
            continue;
        const struct p2p_result *result = shown_result(p2p, sending ? rank : peer, sending ? peer : rank, t);
        if (result->state == P2P_MEASURED)
            scratch[n++] = value_of(&p2p->tests[t], result);
    }
    return n ? stats_of(scratch, n) : (struct bench_stats){0};
}

static void print_by_rank(const struct p2p *p2p, int t, double *scratch)
{
    print_title(&p2p->tests[t]);
    printf(" (over a rank's peers: median, least, most)\n%7s  %-29s  %-29s\n", "rank", "sending", "receiving");
    for (int rank = 0; rank < p2p->nranks; rank++) {
        struct bench_stats out = over_peers(p2p, t, rank, true, scratch);
        struct bench_stats in = over_peers(p2p, t, rank, false, scratch);
        printf("%7d  %9.3f %9.3f %9.3f  %9.3f %9.3f %9.3f\n", rank, out.median, out.min, out.max, in.median, in.min,
               in.max);
    }
}

/* The latencies, and of the others the largest size of a method. */
static bool is_shown(const struct p2p *p2p, int t)
{
    const struct p2p_test *test = &p2p->tests[t], *next = test + 1;
    if (p2p->options.verbose || p2p_is_latency(test->kind))
        return true;
    return t + 1 == p2p->ntests || next->method != test->method || next->kind != test->kind;
}

static void print_matrices(const struct p2p *p2p, double *scratch)
{
    for (int kind = 0; kind < P2P_KIND_COUNT; kind++)
        for (int t = 0; t < p2p->ntests; t++) {
            if ((int)p2p->tests[t].kind != kind || !is_shown(p2p, t))
                continue;
            if (p2p->nranks <= WIDEST)
                print_matrix(p2p, t);
            else
                print_by_rank(p2p, t, scratch);
        }
}

/* ---- Summary ----------------------------------------------------------------------------------------------------- */

/* One test over the pairs of a transport. */
static void print_summary_line(const struct p2p *p2p, int t, int group, double *scratch)
{
    const struct p2p_test *test = &p2p->tests[t];
    int n = 0, wrong = 0, outliers = 0;
    for (int from = 0; from < p2p->nranks; from++)
        for (int to = 0; to < p2p->nranks; to++) {
            const struct p2p_result *result = p2p_result_of(p2p, from, to, t);
            if (!p2p_applies(test, from, to) || p2p_transport_of(p2p, from, to)->group != group)
                continue;
            wrong += result->state == P2P_WRONG;
            outliers += result->outlier;
            if (result->state == P2P_MEASURED)
                scratch[n++] = value_of(test, result);
        }
    char size[SIZE_TEXT] = "-";
    if (test->kind != P2P_FLAG)
        size_format(test->bytes, size);
    struct bench_stats over = n ? stats_of(scratch, n) : (struct bench_stats){0};
    printf("%-7s %-8s %9s %-4s %10.3f %10.3f %10.3f %6d %6d %8d  %s\n", test->method->name, p2p_kind_names[test->kind],
           size, unit(test), over.median, over.min, over.max, n, wrong, outliers, first_of(p2p, group)->name);
}

static void print_summary(const struct p2p *p2p, double *scratch)
{
    printf("\n%-7s %-8s %9s %-4s %10s %10s %10s %6s %6s %8s  %s\n", "method", "kind", "size", "", "median", "least",
           "most", "pairs", "wrong", "outliers", "transport");
    for (int t = 0; t < p2p->ntests; t++)
        for (int group = 0; group < p2p->ngroups; group++)
            print_summary_line(p2p, t, group, scratch);
}

/* Median over the pairs of a transport of one figure of their fits; NAN: there is none. */
static double median_of_fits(const struct p2p *p2p, int method, int group, double (*figure)(const struct p2p_fit *fit),
                             double *scratch)
{
    int n = 0;
    for (int from = 0; from < p2p->nranks; from++)
        for (int to = 0; to < p2p->nranks; to++)
            if (p2p_transport_of(p2p, from, to)->group == group && p2p_fit_of(p2p, from, to, method)->fitted)
                scratch[n++] = figure(p2p_fit_of(p2p, from, to, method));
    return n ? stats_of(scratch, n).median : NAN;
}

static double alpha_of(const struct p2p_fit *fit)
{
    return fit->alpha_us.value;
}

static double beta_of(const struct p2p_fit *fit)
{
    return fit->beta_gbps.value;
}

static double residual_of(const struct p2p_fit *fit)
{
    return 100 * fit->median_residual;
}

static bool has_fits(const struct p2p *p2p)
{
    size_t n = (size_t)p2p->nranks * (size_t)p2p->nranks * (size_t)p2p->nmethods;
    for (size_t i = 0; i < n; i++)
        if (p2p->fits[i].fitted)
            return true;
    return false;
}

static void print_fits(const struct p2p *p2p, double *scratch)
{
    if (!has_fits(p2p))
        return;
    printf("\ntransfers in a row, one way: T(m) = alpha + m / beta, median over pairs\n%-7s %9s us %9s GB/s %9s%%\n",
           "method", "alpha", "beta", "residual ");
    for (int m = 0; m < p2p->nmethods; m++)
        for (int group = 0; group < p2p->ngroups; group++) {
            double alpha = median_of_fits(p2p, m, group, alpha_of, scratch);
            if (!isnan(alpha))
                printf("%-7s %12.3f %14.3f %10.1f  %s\n", p2p_methods[p2p->methods[m]].name, alpha,
                       median_of_fits(p2p, m, group, beta_of, scratch),
                       median_of_fits(p2p, m, group, residual_of, scratch), first_of(p2p, group)->name);
        }
}

static void print_outliers(const struct p2p *p2p)
{
    int shown = 0;
    char size[SIZE_TEXT];
    for (int t = 0; t < p2p->ntests; t++)
        for (int from = 0; from < p2p->nranks; from++)
            for (int to = 0; to < p2p->nranks; to++) {
                const struct p2p_result *result = p2p_result_of(p2p, from, to, t);
                if (!result->outlier || ++shown > MOST_OUTLIERS)
                    continue;
                printf("# outlier: %s, %s, %s, rank %d to rank %d: %.3f %s, score %.1f\n", p2p->tests[t].method->name,
                       p2p_kind_names[p2p->tests[t].kind], size_format(p2p->tests[t].bytes, size), from, to,
                       value_of(&p2p->tests[t], result), unit(&p2p->tests[t]), result->score);
            }
    if (shown > MOST_OUTLIERS)
        printf("# and %d outliers more, which -J FILE and --csv FILE list\n", shown - MOST_OUTLIERS);
    printf(
        "# outlier (*): slower than the pairs of its transport, modified z-score over %.1f and more than %.0f%% past "
        "their median; %s\n",
        P2P_OUTLIER_SCORE, 100 * P2P_OUTLIER_SHARE,
        p2p->nranks < 3 ? "2 ranks have too few pairs to tell"
        : shown         ? "see above"
                        : "there is none");
}

void p2p_table_write(const struct p2p *p2p)
{
    double *scratch = malloc((size_t)p2p->nranks * (size_t)p2p->nranks * sizeof *scratch);
    print_head(p2p);
    if (scratch) {
        print_matrices(p2p, scratch);
        print_summary(p2p, scratch);
        print_fits(p2p, scratch);
    }
    print_outliers(p2p);
    free(scratch);
}

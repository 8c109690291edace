/*
 * table.c - the table on standard output.
 *
 * A row a size, of four lines: time, algbw, busbw and wrong elements, a column a contender; at its left the size asked
 * for and the one run, the winner and how our best compares with the best peer:
 *
 *      asked      bytes      count            ring     tree      mpi
 *       1024       1024        256 us         4.10     3.07     9.43
 *     winner tree                  algbw    0.2498   0.3336   0.1086
 *     ours/mpi 3.07x               busbw    0.2498   0.3336   0.1086
 *                                  wrong         0        0        0
 */
#include "bench/table.h"
#include "bench/backend.h"
#include "bench/entry.h"
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int notes_printed, group_printed; /* the latter: 1 + datatype x TR_OP_COUNT + operation */

enum { LEFT = 34, CELL = 8 }; /* characters: what stands before a line's label; a contender's column at least */

static int width_of(const struct bench *bench, int contender)
{
    int length = (int)strlen(bench->contenders[contender].name);
    return length > CELL ? length : CELL;
}

static bool table_open(struct bench *bench, char *why, size_t size)
{
    (void)bench;
    (void)why;
    (void)size;
    return true;
}

/* ---- Head -------------------------------------------------------------------------------------------------------- */

static void print_formulas(const struct bench *bench)
{
    const struct bench_collective *collective = bench->collective;
    printf("# bytes: %s; asked: as the options say, before it is cut to whole elements on every rank\n",
           collective->size_text);
    printf(
        "# us: a call's time, median over %s of the slowest rank's; algbw = bytes / time; both rates in GB/s (10^9)\n",
        bench->options.graph_launches ? "replays of a graph" : "batches");
    printf("# busbw = algbw x %s, n = %d: what each link would carry under a ring's traffic, not a wire's rate%s\n",
           collective->busbw_text, bench->nranks, bench->nranks == 1 ? "; n.a. at n = 1" : "");
    if (bench->options.checks)
        printf("# wrong: elements that differ from the reference, all ranks, in %d timed and verified %s a contender\n",
               bench->options.checks, bench->options.checks == 1 ? "call" : "calls");
    else
        printf("# wrong: not verified (-c 0)\n");
    printf("# ours/peer: the best peer's time over our best's, so more than 1 is faster than the peer\n");
}

/* How many samples, in which order, and what marks one that should not be trusted. */
static void print_sampling(const struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    if (options->rounds)
        printf("# %d %s a contender and size; ", options->rounds, options->rounds == 1 ? "sample" : "samples");
    else
        printf("# samples until the 95%% intervals of all medians are within %g%% or %g s have passed (then us?, where "
               "they are not); ",
               100 * options->ci_share, options->time_limit_s);
    printf("contenders in random order, --seed %llu\n", (unsigned long long)bench->seed);
    printf("# auto chooses from %s\n", bench->info.model);
    printf("# ~: a fixed call had drifted by more than %g%% before this size\n", 100 * options->drift_share);
}

static void print_card(const struct bench *bench)
{
    const struct bench_card *card = &bench->card;
    if (card->copy_rate > 0)
        printf(
            "# this card copies %.0f GB/s read plus written (%zu MiB, one rank, the others idle); traffic = %s / time "
            "/ that, of our best, where all ranks share one card\n",
            card->copy_rate * 1e-9, card->copy_bytes >> 20, bench->collective->traffic_text);
    if (card->launch_us > 0)
        printf("# launching an 8-byte call costs the host %.2f us, an empty kernel %.2f us, difference %.2f us\n",
               card->launch_us, card->empty_launch_us, card->launch_us - card->empty_launch_us);
}

static void print_rank(const struct bench *bench, int rank)
{
    const struct tr_comm_info *info = &bench->infos[rank];
    printf("# rank %d on %s: ", rank, info->host);
    if (info->device >= 0)
        printf("GPU %d %s %s, %d %s on it; ", info->device, info->device_name, info->device_uuid, info->ranks_on_device,
               info->ranks_on_device == 1 ? "rank" : "ranks");
    printf("bound to %s; reaches the others by %s; communicator: %.2f MiB host", info->binding, info->transport,
           (double)info->host_bytes / 1048576.0);
    if (info->device >= 0)
        printf(", %.2f MiB GPU; NCCL: %.2f MiB GPU", (double)info->device_bytes / 1048576.0,
               (double)info->nccl_bytes / 1048576.0);
    printf("\n");
}

/* Those that were not printed yet. */
static void print_notes(const struct bench *bench)
{
    while (notes_printed < bench->nnotes)
        printf("# note: %s\n", bench->notes[notes_printed++]);
}

static void print_columns(const struct bench *bench)
{
    printf("%10s %10s %11s %-5s", "asked", "bytes", "count", "");
    for (int c = 0; c < bench->ncontenders; c++)
        printf(" %*s", width_of(bench, c), bench->contenders[c].name);
    printf("\n");
}

static void table_begin(struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    notes_printed = group_printed = 0;
    printf("# %s %s: %d %s on %s, %s memory%s%s, %s, %s buffers%s\n", bench->collective->program, tr_version(),
           bench->nranks, bench->nranks == 1 ? "rank" : "ranks", bench->host, tr_memory_name(bench->backend->memory),
           *bench->info.device_name ? ", " : "", bench->info.device_name,
           options->in_place ? "in place" : "out of place", options->plain ? "plain" : "registered",
           options->graph_launches ? ", CUDA graph" : "");
    print_formulas(bench);
    print_sampling(bench);
    print_card(bench);
    print_notes(bench);
    if (options->verbose)
        printf("# %s\n", bench->info.topology);
    for (int rank = 0; options->verbose && rank < bench->nranks; rank++)
        print_rank(bench, rank);
    fflush(stdout); /* the first size may take long */
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static void print_cell(const struct bench *bench, int contender, const char *text)
{
    printf(" %*s", width_of(bench, contender), text);
}

void table_number(double number, char text[static 16])
{
    int digits = number < 0.01 ? 6 : number < 1 ? 4 : number < 10 ? 3 : number < 1000 ? 2 : number < 100000 ? 1 : 0;
    snprintf(text, 16, "%.*f", digits, number);
}

static void format_time(const struct bench *bench, const struct bench_point *point, int contender, char text[static 16])
{
    (void)bench;
    double us = point->results[contender].time.median;
    snprintf(text, 16, "%.*f", us < 10000 ? 2 : us < 1000000 ? 1 : 0, us);
}

static void format_algbw(const struct bench *bench, const struct bench_point *point, int contender,
                         char text[static 16])
{
    (void)bench;
    if (point->shape.count == 0)
        snprintf(text, 16, "n.a.");
    else
        table_number(bench_algbw(point, point->results[contender].time.median), text);
}

static void format_busbw(const struct bench *bench, const struct bench_point *point, int contender,
                         char text[static 16])
{
    if (bench->nranks == 1 || point->shape.count == 0)
        snprintf(text, 16, "n.a.");
    else
        table_number(bench_busbw(bench, point, point->results[contender].time.median), text);
}

/* One line of a row. What failed its check has no speed. */
static void print_speeds(const struct bench *bench, const struct bench_point *point, const char *label,
                         void (*format)(const struct bench *bench, const struct bench_point *point, int contender,
                                        char text[static 16]),
                         const char *wrong)
{
    char text[16];
    printf("%-5s", label);
    for (int c = 0; c < bench->ncontenders; c++) {
        enum bench_state state = point->results[c].state;
        if (state == BENCH_MEASURED)
            format(bench, point, c, text);
        print_cell(bench, c, state == BENCH_MEASURED ? text : state == BENCH_WRONG_DATA ? wrong : "-");
    }
    printf("\n");
}

static void print_wrong(const struct bench *bench, const struct bench_point *point)
{
    char text[16];
    printf("%-5s", "wrong");
    for (int c = 0; c < bench->ncontenders; c++) {
        const struct bench_result *result = &point->results[c];
        snprintf(text, sizeof text, "%.0f", result->wrong);
        print_cell(bench, c, result->state == BENCH_NOT_SERVED ? "-" : result->verified ? text : "n.a.");
    }
    printf("\n");
}

static void print_left(const char *text)
{
    printf("%*s ", -(LEFT - 1), text);
}

static void format_winner(const struct bench *bench, const struct bench_point *point, char text[static LEFT])
{
    if (point->shape.count == 0)
        snprintf(text, LEFT, "    winner n.a.");
    else if (point->winner >= 0)
        snprintf(text, LEFT, "    winner %.22s", bench->contenders[point->winner].name);
    else
        snprintf(text, LEFT, "    no winner");
}

static void format_ratio(const struct bench *bench, const struct bench_point *point, char text[static LEFT])
{
    *text = '\0';
    if (point->ratio > 0)
        snprintf(text, LEFT, "    ours/%.12s %.2fx", bench->contenders[point->best_peer].name, point->ratio);
}

/* And what leaving the choice to auto cost. */
static void format_traffic(const struct bench_point *point, char text[static LEFT])
{
    char traffic[LEFT / 2] = "", regret[LEFT / 2] = "";
    if (point->traffic_share > 0)
        snprintf(traffic, sizeof traffic, " traffic %.1f%%", 100 * point->traffic_share);
    if (point->regret.known)
        snprintf(regret, sizeof regret, " regret %.1f%%", 100 * point->regret.value);
    snprintf(text, LEFT, "   %s%s", traffic, regret);
}

/* The statistics behind a time. */
static void print_details(const struct bench *bench, const struct bench_point *point, int contender)
{
    const struct bench_result *result = &point->results[contender];
    printf("#   %-16s", bench->contenders[contender].name);
    if (result->state == BENCH_NOT_SERVED) {
        printf(" not served: %s\n", result->why);
        return;
    }
    const struct bench_stats *time = &result->time;
    printf(" median %.2f us, %.1f%% interval [%.2f, %.2f], ", time->median, 100 * time->ci_level, time->ci_low,
           time->ci_high);
    if (isfinite(result->share))
        printf("+-%.1f%%%s, ", 100 * result->share, result->converged ? "" : " (not converged)");
    else
        printf("too few samples for 95%%, ");
    printf("min %.2f, p5 %.2f, p95 %.2f, p99 %.2f, max %.2f, skew %.2f", time->min, time->p5, time->p95, time->p99,
           time->max, result->skew_us);
    if (result->entry.n)
        printf(", last rank enters %.2f after the first (p95 %.2f)", result->entry.median, result->entry.p95);
    printf(", %d x ", time->n);
    if (bench->options.graph_launches)
        printf("%d replays of ", bench->options.graph_launches);
    printf("%d %s", result->iterations, result->iterations == 1 ? "call" : "calls");
    if (!bench->contenders[contender].peer)
        printf(", ran %s/%s, %d %s", tr_algorithm_name(result->resolved.algorithm),
               tr_protocol_name(result->resolved.protocol), result->resolved.channels,
               result->resolved.channels == 1 ? "channel" : "channels");
    printf("\n");
}

/* The columns' names stand above each datatype and operation. */
static void print_group(const struct bench *bench, const struct bench_point *point)
{
    int group = 1 + (int)point->datatype * TR_OP_COUNT + (int)point->op;
    if (group_printed == group)
        return;
    group_printed = group;
    printf("#\n# %s%s%s\n", tr_datatype_name(point->datatype), bench->collective->reduces ? " " : "",
           bench->collective->reduces ? tr_op_name(point->op) : "");
    print_columns(bench);
}

/* "us", "?" where some median is not as exact as asked for, "~" where the anchor before it had moved. */
static void format_label(const struct bench *bench, const struct bench_point *point, char label[static 8])
{
    bool vague = false;
    for (int c = 0; c < bench->ncontenders && !bench->options.rounds; c++)
        vague |= point->results[c].state == BENCH_MEASURED && !point->results[c].converged;
    snprintf(label, 8, "us%s%s", vague ? "?" : "", bench_drift_of(bench, point).moved ? "~" : "");
}

void table_row(struct bench *bench, const struct bench_point *point)
{
    char text[LEFT], label[8];
    print_group(bench, point);
    format_label(bench, point, label);
    printf("%10zu %10zu %11zu ", point->requested, point->shape.bytes, point->shape.count);
    print_speeds(bench, point, label, format_time, "wrong");
    format_winner(bench, point, text);
    print_left(text);
    print_speeds(bench, point, "algbw", format_algbw, "-");
    format_ratio(bench, point, text);
    print_left(text);
    print_speeds(bench, point, "busbw", format_busbw, "-");
    format_traffic(point, text);
    print_left(text);
    print_wrong(bench, point);
    if (bench->options.verbose)
        for (int c = 0; c < bench->ncontenders; c++)
            print_details(bench, point, c);
    fflush(stdout);
}

static void print_entries(const struct bench *bench)
{
    for (int r = 0; bench->entries && bench->options.verbose && r < bench->nranks; r++)
        printf(
            "# rank %d enters %.2f us after the first rank in the median, p95 %.2f, max %.2f (clock known to %.2f)\n",
            r, bench->entries[r].late.median, bench->entries[r].late.p95, bench->entries[r].late.max,
            bench->entries[r].uncertainty_us);
}

static bool table_finish(struct bench *bench, char *why, size_t size)
{
    print_entries(bench);
    table_baseline(bench);
    print_notes(bench);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    snprintf(why, size, "cannot write the table to standard output: %s", strerror(errno));
    return false;
}

static void table_abandon(struct bench *bench)
{
    (void)bench;
}

const struct bench_report report_table = {
    .open = table_open,
    .begin = table_begin,
    .finish = table_finish,
    .abandon = table_abandon,
};

/*
 * point.c - one size, datatype and operation: all contenders, interleaved.
 *
 * After a few calls of each contender outside the clock come rounds; in a round each contender, in an order drawn anew,
 * runs one batch. A sample is the maximum over ranks of the batch's time. The first rounds are verified, alternating
 * between the two kinds of test data.
 *
 * Every contender takes part in every round until the last one is known exactly enough, or the time is up: what is
 * compared was then measured in the same rounds, and drift strikes all alike. Whether the intervals are narrow enough is
 * looked at after 6, 8, 11, ... rounds and not after each: whoever looks often stops where chance made them narrow.
 */
#include "bench/point.h"
#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/contender.h"
#include "bench/entry.h"
#include "bench/fail.h"
#include "bench/progress.h"
#include "bench/random.h"
#include "bench/regret.h"
#include "bench/stats.h"
#include "bench/timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_ROUNDS = 3,
    FIRST_LOOK = 6, /* rounds: fewer have no interval of 95% */
};
static const double slow_s = 20e-3; /* a call that lasts this long needs no second one to warm up */

/* A contender in the rounds of a point. */
struct part {
    bool served;
    double estimate;                       /* seconds a call */
    double *samples, *skews, *entries;     /* by sample; microseconds, and of a batch for `entries` */
    struct timing_sample now;              /* of the round under way */
    double most_s, skew_s, entry_s, wrong; /* of that round, over ranks */
    double least_s;                        /* the least most_s so far */
};

/* What the rounds of a point work on. */
struct rounds {
    struct bench *bench;
    struct bench_point *point;
    struct part *parts; /* by contender */
    double *ends;       /* for combine_ranks(): three a contender */
    int64_t *entries;   /* likewise: two */
    const double **all; /* for regret_of() */
    int done, samples;  /* rounds, and those of them that count as samples */
    int room;           /* for samples */
    int look;           /* the round after which the intervals are looked at next */
    double began;
};

static struct timing_call call_of(const struct rounds *rounds, int contender)
{
    const struct bench_point *point = rounds->point;
    return (struct timing_call){&rounds->bench->contenders[contender], &point->shape, point->datatype, point->op};
}

/* ---- Test data --------------------------------------------------------------------------------------------------- */

static struct pattern pattern_of(const struct rounds *rounds, int round)
{
    const struct bench *bench = rounds->bench;
    const struct bench_point *point = rounds->point;
    struct pattern pattern;
    uint32_t seed = (uint32_t)round + (uint32_t)(point->requested % 65521) * 64;
    pattern_init(&pattern, point->datatype, point->op, bench->collective->reduces, bench->nranks, seed, round % 2 == 1);
    pattern.first = point->shape.first;
    pattern.segment = point->shape.count;
    return pattern;
}

static void fill_inputs(const struct rounds *rounds, const struct pattern *pattern)
{
    buffers_fill(rounds->bench, &rounds->point->shape, rounds->point->datatype, pattern);
}

/* ---- Warming up -------------------------------------------------------------------------------------------------- */

/* The same verdict on every rank: not served, if any rank says so; other failures end the run. */
static bool agree_served(struct rounds *rounds, int contender, enum tr_status status)
{
    struct bench_result *result = &rounds->point->results[contender];
    int refused = status == TR_ERR_UNSUPPORTED, any_refused;
    bench_agree_status(rounds->bench, refused ? TR_OK : status, rounds->bench->contenders[contender].name);
    MPI_Allreduce(&refused, &any_refused, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!any_refused)
        return true;
    result->state = BENCH_NOT_SERVED;
    result->why = strdup(refused ? tr_last_error() : "another rank cannot serve it");
    return false;
}

/* The seconds that a call took the last rank to enter it: the others' times hold their wait for it. */
static double fastest_rank(double seconds)
{
    double least;
    MPI_Allreduce(&seconds, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    return least;
}

/* -w calls, at least one, fewer of slow ones; the fastest is the estimate. */
static void warm_up(struct rounds *rounds, int contender)
{
    struct bench *bench = rounds->bench;
    struct timing_call call = call_of(rounds, contender);
    double estimate = 1e30;
    watchdog_arm(bench, 0, call.contender->name);
    for (int i = 0; i < bench->options.warmup || i == 0; i++) {
        double start = MPI_Wtime();
        enum tr_status status = timing_call_once(bench, &call);
        double seconds = MPI_Wtime() - start;
        rounds->parts[contender].served = agree_served(rounds, contender, status);
        if (!rounds->parts[contender].served)
            return;
        estimate = fmin(estimate, fastest_rank(seconds));
        if (estimate > slow_s)
            break;
    }
    rounds->parts[contender].estimate = estimate;
    tr_comm_resolve(bench->comm, bench->collective->collective, call.shape->count, call.datatype, call.op,
                    !bench->options.plain, &rounds->point->results[contender].resolved);
}

/* ---- How much to measure ----------------------------------------------------------------------------------------- */

static void plan(struct rounds *rounds)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++)
        rounds->point->results[c].iterations = timing_iterations(rounds->bench, rounds->parts[c].estimate);
}

/* Shorten batches that last much longer than planned, by the fastest so far: one that was held up says nothing. */
static void replan(struct rounds *rounds)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        struct bench_result *result = &rounds->point->results[c];
        struct part *part = &rounds->parts[c];
        part->least_s = rounds->samples == 1 ? part->most_s : fmin(part->least_s, part->most_s);
        int fitting = timing_iterations(rounds->bench, part->least_s);
        if (part->served && 3 * fitting < result->iterations)
            result->iterations = fitting;
    }
}

/* Rounds that only verify: their batches are single calls, so they are no samples. */
static int rounds_of_checks_alone(const struct rounds *rounds)
{
    return timing_verifies_singly(rounds->bench) ? rounds->bench->options.checks : 0;
}

/* Whether all medians are known as exactly as asked for. */
static bool all_converged(struct rounds *rounds)
{
    bool all = true;
    for (int c = 0; c < rounds->bench->ncontenders && all; c++) {
        if (!rounds->parts[c].served)
            continue;
        struct bench_stats time = stats_of(rounds->parts[c].samples, rounds->samples);
        all = stats_share(&time) <= rounds->bench->options.ci_share;
    }
    return all;
}

/* Whether it is time for a look, and it says so. */
static bool look(struct rounds *rounds)
{
    if (rounds->samples < rounds->look)
        return false;
    rounds->look = rounds->samples + 1 + rounds->samples / 4;
    return all_converged(rounds);
}

/* Whether the rounds so far are enough. The same on every rank. Collective. */
static bool enough(struct rounds *rounds)
{
    const struct bench_options *options = &rounds->bench->options;
    if (options->rounds)
        return rounds->samples >= options->rounds;
    int stop = 0;
    if (rounds->samples >= LEAST_ROUNDS && rounds->done >= options->checks)
        stop = look(rounds) || MPI_Wtime() - rounds->began > options->time_limit_s;
    MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return stop;
}

/* ---- Rounds ------------------------------------------------------------------------------------------------------ */

/* One batch of one contender. */
static enum tr_status run_contender(struct rounds *rounds, int contender, const struct pattern *check)
{
    struct bench *bench = rounds->bench;
    struct part *part = &rounds->parts[contender];
    struct timing_call call = call_of(rounds, contender);
    const struct bench_result *result = &rounds->point->results[contender];
    watchdog_arm(bench, 100 * part->estimate * result->iterations, call.contender->name);
    return timing_batch(bench, &call, result->iterations, check, &part->now);
}

/* Combine what the ranks have of a round: of each contender's batch the maximum of the times, that less the minimum, the
 * last entry less the first, and all wrong elements. */
static void combine_ranks(struct rounds *rounds)
{
    int n = rounds->bench->ncontenders;
    double *ends = rounds->ends, *wrong = ends + 2 * n;
    int64_t *entries = rounds->entries;
    for (int c = 0; c < n; c++) {
        const struct timing_sample *now = &rounds->parts[c].now;
        ends[2 * c] = now->seconds;
        ends[2 * c + 1] = -now->seconds;
        wrong[c] = (double)now->wrong;
        entries[2 * c] = now->entry_ns;
        entries[2 * c + 1] = -now->entry_ns;
    }
    MPI_Allreduce(MPI_IN_PLACE, ends, 2 * n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, wrong, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, entries, 2 * n, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    for (int c = 0; c < n; c++) {
        struct part *part = &rounds->parts[c];
        part->most_s = ends[2 * c];
        part->skew_s = ends[2 * c] + ends[2 * c + 1];
        part->wrong = wrong[c];
        part->entry_s = 1e-9 * (double)(entries[2 * c] + entries[2 * c + 1]);
        if (part->served && rounds->bench->common_clock)
            entry_keep(rounds->bench, 1e-3 * (double)(part->now.entry_ns + entries[2 * c + 1]),
                       1e-3 * (double)part->now.entry_uncertainty_ns);
    }
}

static void grow(struct rounds *rounds)
{
    if (rounds->samples < rounds->room)
        return;
    rounds->room = rounds->room ? 2 * rounds->room : 32;
    size_t bytes = (size_t)rounds->room * sizeof(double);
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        double **arrays[] = {&rounds->parts[c].samples, &rounds->parts[c].skews, &rounds->parts[c].entries};
        for (int i = 0; i < 3; i++) {
            double *grown = realloc(*arrays[i], bytes);
            if (!grown)
                bench_die(rounds->bench, "no memory for %d samples: give fewer --rounds", rounds->room);
            *arrays[i] = grown;
        }
    }
}

static void keep_samples(struct rounds *rounds)
{
    grow(rounds);
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        struct part *part = &rounds->parts[c];
        part->samples[rounds->samples] = part->most_s * 1e6;
        part->skews[rounds->samples] = part->skew_s * 1e6;
        part->entries[rounds->samples] = part->entry_s * 1e6;
    }
    rounds->samples++;
}

static void keep_verdicts(struct rounds *rounds)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        rounds->point->results[c].wrong += rounds->parts[c].wrong;
        rounds->point->results[c].verified += rounds->parts[c].served;
    }
}

static void run_round(struct rounds *rounds)
{
    struct bench *bench = rounds->bench;
    int round = rounds->done++;
    bool checked = round < bench->options.checks;
    struct pattern pattern = pattern_of(rounds, round);
    watchdog_arm(bench, 0, "writing test data");
    if (checked || round == 0)
        fill_inputs(rounds, &pattern);
    random_order(&bench->random, bench->order, bench->ncontenders);
    for (int i = 0; i < bench->ncontenders; i++) {
        int c = bench->order[i];
        if (rounds->parts[c].served)
            bench_keep_failure(bench, run_contender(rounds, c, checked ? &pattern : NULL), bench->contenders[c].name);
    }
    bench_agree_status(bench, TR_OK, "");
    combine_ranks(rounds);
    if (checked)
        keep_verdicts(rounds);
    if (round < rounds_of_checks_alone(rounds))
        return;
    keep_samples(rounds);
    replan(rounds);
}

/* ---- Verdict ----------------------------------------------------------------------------------------------------- */

static void remember_wrong(const struct rounds *rounds, int contender)
{
    struct bench *bench = rounds->bench;
    const struct bench_point *point = rounds->point;
    if (bench->first_wrong[0])
        return;
    snprintf(bench->first_wrong, sizeof bench->first_wrong, "%s left %.0f wrong elements at %zu bytes of %s%s%s",
             bench->contenders[contender].name, point->results[contender].wrong, point->shape.bytes,
             tr_datatype_name(point->datatype), bench->collective->reduces ? " " : "",
             bench->collective->reduces ? tr_op_name(point->op) : "");
}

static void conclude(struct rounds *rounds)
{
    struct bench *bench = rounds->bench;
    for (int c = 0; c < bench->ncontenders; c++) {
        struct bench_result *result = &rounds->point->results[c];
        struct part *part = &rounds->parts[c];
        if (!part->served)
            continue;
        result->time = stats_of(part->samples, rounds->samples);
        result->share = stats_share(&result->time);
        result->converged = result->share <= bench->options.ci_share;
        result->skew_us = stats_of(part->skews, rounds->samples).median;
        if (bench->common_clock)
            result->entry = stats_of(part->entries, rounds->samples);
        if (result->wrong > 0) {
            result->state = BENCH_WRONG_DATA;
            remember_wrong(rounds, c);
        }
    }
}

/* The fastest of those that measured, of one side or (side < 0) of both; -1: none. */
static int fastest(const struct rounds *rounds, int side)
{
    int best = -1;
    const struct bench_result *results = rounds->point->results;
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        bool counts = side < 0 || rounds->bench->contenders[c].peer == (side == 1);
        if (counts && results[c].state == BENCH_MEASURED &&
            (best < 0 || results[c].time.median < results[best].time.median))
            best = c;
    }
    return best;
}

static void compare(struct rounds *rounds)
{
    const struct bench *bench = rounds->bench;
    struct bench_point *point = rounds->point;
    point->winner = point->best_ours = point->best_peer = -1;
    if (point->shape.count == 0) /* calls that do nothing */
        return;
    point->winner = fastest(rounds, -1);
    point->best_ours = fastest(rounds, 0);
    point->best_peer = fastest(rounds, 1);
    if (point->best_ours < 0)
        return;
    double ours = point->results[point->best_ours].time.median;
    if (point->best_peer >= 0 && ours > 0)
        point->ratio = point->results[point->best_peer].time.median / ours;
    bool one_device = bench->info.ranks_on_device == bench->nranks;
    if (bench->card.copy_rate > 0 && one_device && ours > 0)
        point->traffic_share = bench->collective->traffic_factor(bench->nranks) * (double)point->shape.bytes /
                               (ours * 1e-6) / bench->card.copy_rate;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void describe(struct rounds *rounds)
{
    struct pattern exact = pattern_of(rounds, 0), real = pattern_of(rounds, 1);
    rounds->point->exact = exact.bound == 0;
    rounds->point->bound = real.bound;
}

static void compute_regret(struct rounds *rounds)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++)
        rounds->all[c] = rounds->parts[c].samples;
    rounds->point->regret =
        regret_of(rounds->bench->contenders, rounds->bench->ncontenders, rounds->point, rounds->all, rounds->samples);
}

static void run_rounds(struct rounds *rounds)
{
    rounds->began = MPI_Wtime();
    rounds->look = FIRST_LOOK;
    do {
        run_round(rounds);
        progress_show(rounds->bench, rounds->point, rounds->samples);
    } while (!enough(rounds));
    rounds->point->rounds = rounds->samples;
}

static void free_parts(struct rounds *rounds)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        free(rounds->parts[c].samples);
        free(rounds->parts[c].skews);
        free(rounds->parts[c].entries);
    }
    free(rounds->parts);
    free(rounds->ends);
    free(rounds->entries);
    free(rounds->all);
}

void point_measure(struct bench *bench, size_t requested, enum tr_datatype datatype, enum tr_op op,
                   struct bench_point *point)
{
    size_t ncontenders = (size_t)bench->ncontenders;
    struct rounds rounds = {.bench = bench,
                            .point = point,
                            .parts = calloc(ncontenders, sizeof *rounds.parts),
                            .ends = calloc(3 * ncontenders, sizeof *rounds.ends),
                            .entries = calloc(2 * ncontenders, sizeof *rounds.entries),
                            .all = calloc(ncontenders, sizeof *rounds.all)};
    *point = (struct bench_point){.requested = requested,
                                  .datatype = datatype,
                                  .op = op,
                                  .began_s = MPI_Wtime() - bench->began,
                                  .anchor = bench->anchors.n - 1,
                                  .results = calloc(ncontenders, sizeof *point->results)};
    if (!rounds.parts || !rounds.ends || !rounds.entries || !rounds.all || !point->results)
        bench_die(bench, "no memory for a point of %zu contenders", ncontenders);
    point->shape = bench->collective->shape(requested, tr_datatype_size(datatype), bench->nranks, bench->rank);
    describe(&rounds);
    struct pattern pattern = pattern_of(&rounds, 0);
    fill_inputs(&rounds, &pattern);
    for (int c = 0; c < bench->ncontenders; c++)
        warm_up(&rounds, c);
    plan(&rounds);
    run_rounds(&rounds);
    conclude(&rounds);
    compare(&rounds);
    compute_regret(&rounds);
    free_parts(&rounds);
}

void point_free(struct bench_point *point, int ncontenders)
{
    if (!point)
        return;
    for (int c = 0; c < ncontenders; c++)
        free(point->results[c].why);
    free(point->results);
    free(point);
}

/*
 * point.c - one size, datatype and operation: all contenders, interleaved.
 *
 * After a few calls of each contender outside the clock come rounds; in a round each contender, in an order drawn anew,
 * runs one batch. A sample is the maximum over ranks of the batch's time. The first rounds are verified, alternating
 * between the two kinds of test data.
 */
#include "bench/point.h"
#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/contender.h"
#include "bench/fail.h"
#include "bench/stats.h"
#include "bench/timing.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_ROUNDS = 25,
    LEAST_ROUNDS = 3,
    MOST_ITERATIONS = 1000,
    MOST_CAPTURED = 100 /* calls in a graph, unless -n says otherwise */
};
static const double batch_s = 1e-3;                 /* a batch is to last, unless -n says otherwise; */
static const double oversubscribed_batch_s = 15e-3; /* where ranks take turns on a CPU: several turns */
static const double budget_s = 0.7;                 /* a size's rounds are to last, unless --rounds says otherwise */
static const double slow_s = 20e-3;                 /* a call that lasts this long needs no second one to warm up */

enum { N = BENCH_MAX_CONTENDERS };

/* What the rounds of a point work on; arrays by contender. */
struct rounds {
    struct bench *bench;
    struct bench_point *point;
    bool served[N];
    double estimate[N]; /* seconds a call */
    double *samples[N]; /* by round */
    double *skews[N];
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

/* Write this rank's input into every set of buffers in use (in place: where unchecked calls work). */
static void fill_inputs(const struct rounds *rounds, const struct pattern *pattern)
{
    struct bench *bench = rounds->bench;
    for (int kind = 0; kind < BENCH_MEMORY_COUNT; kind++) {
        const struct bench_contender any = {.memory = (enum bench_memory)kind};
        if (!bench->buffers[kind].used)
            continue;
        void *send =
            buffers_of(bench, &any, &rounds->point->shape, tr_datatype_size(rounds->point->datatype), false).send;
        if (!bench->backend->fill(pattern, bench->rank, send, rounds->point->shape.send) || !bench->backend->wait())
            bench_die(bench, "%s", bench->backend->error());
    }
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
    snprintf(result->why, sizeof result->why, "%s", refused ? tr_last_error() : "another rank cannot serve it");
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
        rounds->served[contender] = agree_served(rounds, contender, status);
        if (!rounds->served[contender])
            return;
        estimate = fmin(estimate, fastest_rank(seconds));
        if (estimate > slow_s)
            break;
    }
    rounds->estimate[contender] = estimate;
    tr_comm_resolve(bench->comm, bench->collective->collective, call.shape->count, call.datatype, call.op,
                    !bench->options.plain, &rounds->point->results[contender].resolved);
}

/* ---- How much to measure ----------------------------------------------------------------------------------------- */

static int clamp(double value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

static int iterations_for(const struct bench *bench, double estimate)
{
    if (bench->options.iterations)
        return bench->options.iterations;
    int most = bench->options.graph_launches ? MOST_CAPTURED : MOST_ITERATIONS;
    double target = bench->oversubscribed ? oversubscribed_batch_s : batch_s;
    return clamp(target / (estimate + 1e-9), 1, most);
}

static void plan(struct rounds *rounds)
{
    struct bench *bench = rounds->bench;
    for (int c = 0; c < bench->ncontenders; c++)
        rounds->point->results[c].iterations = iterations_for(bench, rounds->estimate[c]);
    int most = bench->options.checks > MOST_ROUNDS ? bench->options.checks : MOST_ROUNDS;
    rounds->point->rounds = bench->options.rounds ? bench->options.rounds : most;
}

/* Shorten batches that last much longer than planned. `seconds` a call, the same on every rank. */
static void replan(struct rounds *rounds, const double *seconds)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        struct bench_result *result = &rounds->point->results[c];
        int fitting = iterations_for(rounds->bench, seconds[c]);
        if (rounds->served[c] && 3 * fitting < result->iterations)
            result->iterations = fitting;
    }
}

/* Whether the rounds so far are enough. The same on every rank. Collective. */
static bool enough(const struct rounds *rounds, int done, double elapsed)
{
    const struct bench_options *options = &rounds->bench->options;
    int stop = done >= LEAST_ROUNDS && done >= options->checks && elapsed > budget_s;
    if (options->rounds)
        return false;
    MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return stop;
}

/* ---- Rounds ------------------------------------------------------------------------------------------------------ */

/* The contenders in an order drawn anew; the same on every rank. */
static void draw_order(int *order, int n)
{
    static uint32_t drawn;
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(pattern_hash(2025, drawn++) % (uint32_t)(i + 1));
        int kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* One batch of one contender; its sample is kept. */
static enum tr_status run_contender(struct rounds *rounds, int contender, const struct pattern *check, double *seconds,
                                    double *wrong)
{
    struct bench *bench = rounds->bench;
    struct timing_call call = call_of(rounds, contender);
    const struct bench_result *result = &rounds->point->results[contender];
    size_t count;
    watchdog_arm(bench, 100 * rounds->estimate[contender] * result->iterations, call.contender->name);
    enum tr_status status = timing_batch(bench, &call, result->iterations, check, seconds, &count);
    *wrong = (double)count;
    return status;
}

/* Combine the ranks' times and wrong elements of a round. seconds[c] becomes the maximum, skew[c] that less the minimum. */
static void combine_ranks(int n, double *seconds, double *skew, double *wrong)
{
    double ends[2 * N], most[2 * N], total[N];
    for (int c = 0; c < n; c++) {
        ends[c] = seconds[c];
        ends[n + c] = -seconds[c];
    }
    MPI_Allreduce(ends, most, 2 * n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(wrong, total, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int c = 0; c < n; c++) {
        seconds[c] = most[c];
        skew[c] = most[c] + most[n + c];
        wrong[c] = total[c];
    }
}

static void keep_samples(struct rounds *rounds, int round, bool checked, const double *seconds, const double *skew,
                         const double *wrong)
{
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        rounds->samples[c][round] = seconds[c] * 1e6;
        rounds->skews[c][round] = skew[c] * 1e6;
        rounds->point->results[c].wrong += wrong[c];
        rounds->point->results[c].verified += checked && rounds->served[c];
    }
}

static void run_round(struct rounds *rounds, int round)
{
    struct bench *bench = rounds->bench;
    bool checked = round < bench->options.checks;
    struct pattern pattern = pattern_of(rounds, round);
    double seconds[N] = {0}, skew[N], wrong[N] = {0};
    int order[N];
    watchdog_arm(bench, 0, "writing test data");
    if (checked || round == 0)
        fill_inputs(rounds, &pattern);
    draw_order(order, bench->ncontenders);
    for (int i = 0; i < bench->ncontenders; i++) {
        int c = order[i];
        if (rounds->served[c])
            bench_keep_failure(bench, run_contender(rounds, c, checked ? &pattern : NULL, &seconds[c], &wrong[c]),
                               bench->contenders[c].name);
    }
    bench_agree_status(bench, TR_OK, "");
    combine_ranks(bench->ncontenders, seconds, skew, wrong);
    keep_samples(rounds, round, checked, seconds, skew, wrong);
    replan(rounds, seconds);
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
    struct bench_point *point = rounds->point;
    for (int c = 0; c < rounds->bench->ncontenders; c++) {
        struct bench_result *result = &point->results[c];
        if (!rounds->served[c])
            continue;
        result->time = stats_of(rounds->samples[c], point->rounds);
        result->skew_us = stats_of(rounds->skews[c], point->rounds).median;
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

static void run_rounds(struct rounds *rounds)
{
    int ncontenders = rounds->bench->ncontenders;
    size_t nrounds = (size_t)rounds->point->rounds;
    double *samples = calloc(2 * (size_t)ncontenders * nrounds, sizeof *samples);
    if (!samples)
        bench_die(rounds->bench, "no memory for %zu samples: give fewer --rounds", nrounds);
    for (int c = 0; c < ncontenders; c++) {
        rounds->samples[c] = samples + 2 * (size_t)c * nrounds;
        rounds->skews[c] = rounds->samples[c] + nrounds;
    }
    double start = MPI_Wtime();
    for (int done = 0; done < rounds->point->rounds;) {
        run_round(rounds, done++);
        if (enough(rounds, done, MPI_Wtime() - start))
            rounds->point->rounds = done;
    }
    conclude(rounds);
    free(samples);
}

void point_measure(struct bench *bench, size_t requested, enum tr_datatype datatype, enum tr_op op,
                   struct bench_point *point)
{
    struct rounds rounds = {.bench = bench, .point = point};
    *point = (struct bench_point){.requested = requested, .datatype = datatype, .op = op};
    point->shape = bench->collective->shape(requested, tr_datatype_size(datatype), bench->nranks, bench->rank);
    describe(&rounds);
    struct pattern pattern = pattern_of(&rounds, 0);
    fill_inputs(&rounds, &pattern);
    for (int c = 0; c < bench->ncontenders; c++)
        warm_up(&rounds, c);
    plan(&rounds);
    run_rounds(&rounds);
    compare(&rounds);
}

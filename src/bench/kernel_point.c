/* kernel_point.c - one shape of one kernel: its contenders in rounds, each round in another order, and what they left
 * checked. */
#include "bench/kernel_bench.h"
#include "bench/random.h"
#include "bench/stats.h"
#include "kernels/error.h"

#include <string.h>

enum { WARM_UP = 2, MOST_ROUNDS = 1000 };

static const double batch_seconds = 2e-3, most_iterations = 2000;

static enum tk_status call(const struct kernel_result *result, void *state, void *stream, int times)
{
    enum tk_status status = TK_OK;
    for (int i = 0; i < times && status == TK_OK; i++)
        status = result->contender->run(state, result->contender->which, stream);
    return status;
}

static enum tk_status timed(const struct bench_backend *backend, const struct kernel_result *result, void *state,
                            int iterations, double *seconds)
{
    if (!backend->clock_start())
        return tk_error(TK_ERR_CUDA, "%s: %s", result->contender->name, backend->error());
    enum tk_status status = call(result, state, backend->stream(), iterations);
    if (!backend->clock_stop(seconds) && status == TK_OK)
        status = tk_error(TK_ERR_CUDA, "%s: %s", result->contender->name, backend->error());
    *seconds /= iterations;
    return status;
}

/* See whether a contender serves this point, and how many calls make a batch. */
static enum tk_status warm_up(const struct bench_backend *backend, const struct kernel_options *options, void *state,
                              struct kernel_result *result)
{
    double seconds = 0;
    enum tk_status status = call(result, state, backend->stream(), 1);
    if (status == TK_ERR_UNSUPPORTED) {
        result->state = BENCH_NOT_SERVED;
        snprintf(result->why, sizeof result->why, "%s", tk_last_error());
        return TK_OK;
    }
    for (int i = 0; i < WARM_UP && status == TK_OK; i++)
        status = timed(backend, result, state, 1, &seconds);
    double wanted = seconds > 0 ? batch_seconds / seconds + 1 : most_iterations;
    result->iterations =
        options->iterations ? options->iterations : (int)(wanted < most_iterations ? wanted : most_iterations);
    return status;
}

/* Time a batch; with `checked`, see that what it left is right. */
static enum tk_status run_batch(const struct bench_backend *backend, const struct kernel_point *point, void *state,
                                bool checked, struct kernel_result *result, double *seconds)
{
    enum tk_status status = checked ? point->row->poison(state) : TK_OK;
    if (status == TK_OK)
        status = timed(backend, result, state, result->iterations, seconds);
    if (status == TK_OK && checked)
        status = point->row->check(state, &result->error);
    if (status == TK_OK && checked && !(result->error <= 1))
        result->state = BENCH_WRONG_DATA;
    return status;
}

static double samples[KERNEL_CONTENDERS][MOST_ROUNDS];

static enum tk_status run_rounds(const struct bench_backend *backend, const struct kernel_options *options, void *state,
                                 struct kernel_point *point)
{
    int order[KERNEL_CONTENDERS], rounds = options->rounds < MOST_ROUNDS ? options->rounds : MOST_ROUNDS;
    struct random random = {options->seed};
    enum tk_status status = TK_OK;
    for (int round = 0; round < rounds; round++) {
        random_order(&random, order, point->ncontenders);
        for (int i = 0; i < point->ncontenders && status == TK_OK; i++) {
            struct kernel_result *result = &point->results[order[i]];
            /* the first and the last round are checked */
            if (result->state == BENCH_MEASURED)
                status = run_batch(backend, point, state, round == 0 || round == rounds - 1, result,
                                   &samples[order[i]][round]);
        }
    }
    for (int i = 0; i < point->ncontenders; i++)
        if (point->results[i].state == BENCH_MEASURED)
            point->results[i].time = stats_of(samples[i], rounds);
    return status;
}

static void take_contenders(const struct kernel_options *options, struct kernel_point *point)
{
    point->ncontenders = 0;
    for (const struct kernel_contender *c = point->row->contenders; c->name; c++)
        if (kernel_is_listed(options->contenders, c->name) && point->ncontenders < KERNEL_CONTENDERS)
            point->results[point->ncontenders++] = (struct kernel_result){.contender = c};
}

enum tk_status kernel_point_run(const struct bench_backend *backend, const struct kernel_options *options,
                                struct kernel_point *point)
{
    void *state;
    take_contenders(options, point);
    enum tk_status status = point->row->open(backend, &point->shape, point->variant, options->seed, &state);
    if (status != TK_OK)
        return status;
    for (int i = 0; i < point->ncontenders && status == TK_OK; i++)
        status = warm_up(backend, options, state, &point->results[i]);
    if (status == TK_OK)
        status = run_rounds(backend, options, state, point);
    point->row->close(state);
    return status;
}

/*
 * regret_test.c - the regret of `auto`, and the comparison with a baseline: what is found is what was put in, and noise
 * alone is nothing.
 */
#include "bench/backend.h"
#include "bench/baseline.h"
#include "bench/random.h"
#include "bench/regret.h"
#include "bench/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 25, OURS = 4 };

/* ---- Regret ------------------------------------------------------------------------------------------------------ */

static const struct bench_contender contenders[OURS] = {
    {.name = "ring", .algorithm = TR_ALGORITHM_RING},
    {.name = "tree", .algorithm = TR_ALGORITHM_TREE},
    {.name = "auto", .algorithm = TR_ALGORITHM_AUTO},
    {.name = "mpi", .algorithm = TR_ALGORITHM_MPI, .peer = true},
};

struct scene {
    struct bench_result results[OURS];
    struct bench_point point;
    double samples[OURS][SAMPLES];
    const double *by_contender[OURS];
};

/* Times with noise of a share, around the given ones; `chosen`: what auto ran. */
static void stage(struct scene *scene, const double *us, double noise, enum tr_algorithm chosen, struct random *random)
{
    static const enum tr_algorithm ran[] = {TR_ALGORITHM_RING, TR_ALGORITHM_TREE, TR_ALGORITHM_AUTO, TR_ALGORITHM_AUTO};
    memset(scene, 0, sizeof *scene);
    scene->point = (struct bench_point){.shape = {.count = 2, .bytes = 8}, .results = scene->results};
    for (int c = 0; c < OURS; c++) {
        for (int i = 0; i < SAMPLES; i++)
            scene->samples[c][i] = us[c] * (1 + noise * (double)random_below(random, 1000) / 1000);
        scene->by_contender[c] = scene->samples[c];
        scene->results[c].time = stats_of(scene->samples[c], SAMPLES);
        scene->results[c].resolved = (struct tr_tuning){ran[c], TR_PROTOCOL_LL, 1};
    }
    scene->results[2].resolved.algorithm = chosen;
}

static struct bench_regret regret(const struct scene *scene)
{
    return regret_of(contenders, OURS, &scene->point, scene->by_contender, SAMPLES);
}

static void test_a_wrong_choice_is_found(void **state)
{
    (void)state;
    struct scene scene;
    struct random random = {1};
    stage(&scene, (double[]){10, 5, 10, 1}, 0.01, TR_ALGORITHM_RING, &random);
    struct bench_regret found = regret(&scene);
    assert_true(found.known && !found.same && found.best == 1);
    assert_true(fabs(found.value - 1) < 0.02 && found.low > 0.95 && found.low <= found.value);
}

/* Auto ran what the tree ran, the best: whatever the noise says, there is no regret, in no scene. */
static void test_noise_is_no_regret(void **state)
{
    (void)state;
    struct scene scene;
    struct random random = {2};
    for (int i = 0; i < 1000; i++) {
        stage(&scene, (double[]){12, 5, 5, 1}, 0.5, TR_ALGORITHM_TREE, &random);
        struct bench_regret found = regret(&scene);
        assert_true(found.known && found.same && found.value == 0 && found.low == 0);
    }
}

/* Two that are as fast, and auto ran one: about half of the scenes have a small regret, hardly any beyond the intervals. */
static void test_equals_leave_doubt(void **state)
{
    (void)state;
    struct scene scene;
    struct random random = {3};
    int certain = 0;
    for (int i = 0; i < 1000; i++) {
        stage(&scene, (double[]){5, 5, 5, 1}, 0.5, TR_ALGORITHM_TREE, &random);
        certain += regret(&scene).low > 0;
    }
    assert_true(certain < 20);
}

static void test_unknown_where_nothing_compares(void **state)
{
    (void)state;
    struct scene scene;
    struct random random = {4};
    stage(&scene, (double[]){10, 5, 10, 1}, 0.01, TR_ALGORITHM_RING, &random);
    scene.results[1].state = BENCH_WRONG_DATA; /* only what auto ran itself, and a peer, are left */
    assert_false(regret(&scene).known);
    stage(&scene, (double[]){10, 5, 10, 1}, 0.01, TR_ALGORITHM_RING, &random);
    scene.results[2].state = BENCH_NOT_SERVED;
    assert_false(regret(&scene).known);
    stage(&scene, (double[]){10, 5, 10, 1}, 0.01, TR_ALGORITHM_RING, &random);
    scene.point.shape.count = 0;
    assert_false(regret(&scene).known);
}

/* ---- Baseline ---------------------------------------------------------------------------------------------------- */

static int compare(double now, double low, double high, double then, double then_low, double then_high)
{
    struct bench_stats stats = {.median = now, .ci_low = low, .ci_high = high};
    struct tr_result result = {.median_us = then, .ci_low_us = then_low, .ci_high_us = then_high};
    return baseline_compare(&stats, &result, 0.1);
}

static void test_slower_and_faster(void **state)
{
    (void)state;
    assert_int_equal(compare(10, 9.9, 10.1, 10, 9.9, 10.1), 0);
    assert_int_equal(compare(12, 11.8, 12.2, 10, 9.9, 10.1), 1);
    assert_int_equal(compare(10.9, 10.8, 11, 10, 9.9, 10.1), 0); /* within the tolerance */
    assert_int_equal(compare(12, 10, 14, 10, 9.9, 10.1), 0);     /* intervals meet */
    assert_int_equal(compare(12, 11.8, 12.2, 10, 9, 11.9), 0);   /* the baseline's is wide */
    assert_int_equal(compare(10, 9.9, 10.1, 12, 11.8, 12.2), -1);
    assert_int_equal(compare(NAN, NAN, NAN, 10, 9.9, 10.1), 0);
}

/* The same distribution measured twice: hardly ever slower, whatever the noise. */
static void test_noise_is_not_slower(void **state)
{
    struct random random = {5};
    int slower = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        double a[SAMPLES], b[SAMPLES];
        for (int k = 0; k < SAMPLES; k++) {
            a[k] = 10 + (double)random_below(&random, 10000) / 1000;
            b[k] = 10 + (double)random_below(&random, 10000) / 1000;
        }
        struct bench_stats now = stats_of(a, SAMPLES), then = stats_of(b, SAMPLES);
        slower += compare(now.median, now.ci_low, now.ci_high, then.median, then.ci_low, then.ci_high) > 0;
    }
    assert_true(slower < 40);
}

static struct tr_result_file matching_file(void)
{
    return (struct tr_result_file){.path = "old.json",
                                   .collective = TR_ALLREDUCE,
                                   .machine = {.memory = TR_MEMORY_HOST, .name = "AMD EPYC", .nranks = 8},
                                   .registered = true};
}

static void test_what_can_be_compared(void **state)
{
    static const struct bench_collective allreduce = {.collective = TR_ALLREDUCE};
    struct bench bench = {.collective = &allreduce, .nranks = 8, .backend = &backend_host};
    struct tr_result_file good = matching_file(), other[8];
    char why[512];
    (void)state;
    assert_true(baseline_matches(&bench, "AMD EPYC", &good, why, sizeof why));
    for (int i = 0; i < 8; i++)
        other[i] = matching_file();
    other[0].collective = TR_ALLGATHER;
    other[1].machine.memory = TR_MEMORY_CUDA;
    strcpy(other[2].machine.name, "Intel Xeon");
    other[3].machine.nranks = 4;
    other[4].machine.ranks_on_device = 2;
    other[5].in_place = true;
    other[6].registered = false;
    other[7].graph = true;
    static const char *const named[] = {
        "collective is allgather", "memory is cuda",       "CPU is Intel Xeon", "number of ranks is 4",
        "ranks a GPU is 2",        "-I (in place) is yes", "-B is plain",       "-G (CUDA graph) is yes"};
    for (int i = 0; i < 8; i++) {
        assert_false(baseline_matches(&bench, "AMD EPYC", &other[i], why, sizeof why));
        assert_non_null(strstr(why, named[i]));
        assert_non_null(strstr(why, "old.json"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_choice_is_found), cmocka_unit_test(test_noise_is_no_regret),
        cmocka_unit_test(test_equals_leave_doubt),      cmocka_unit_test(test_unknown_where_nothing_compares),
        cmocka_unit_test(test_slower_and_faster),       cmocka_unit_test(test_noise_is_not_slower),
        cmocka_unit_test(test_what_can_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

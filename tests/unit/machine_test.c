/*
 * machine_test.c - a machine's alpha, beta, gamma, overhead and launch cost are recovered from the times of several
 * algorithms, under noise and outliers; what cannot be told apart has wide intervals.
 */
#include "model/machine.h"
#include "model/regression.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static unsigned short random_state[3];

static void seed_random(int seed)
{
    random_state[0] = 0x330E;
    random_state[1] = (unsigned short)seed;
    random_state[2] = 7;
}

static double noisy(double us, double noise)
{
    double normal = sqrt(-2 * log(1 - erand48(random_state))) * cos(2 * M_PI * erand48(random_state));
    double outlier = erand48(random_state) < 0.05 ? 1.5 + 3 * erand48(random_state) : 1;
    return us * exp(noise * normal) * outlier;
}

/* ---- A machine of 8 ranks ---------------------------------------------------------------------------------------- */

struct truth {
    double launch, alpha, overhead, beta, gamma;
};
static const struct truth machine = {2, 0.8, 0.3, 50, 200}, far_caches = {2, 0.8, 0.3, 5, 20};

/* Messages, steps, link and reduced bytes of a byte: all-reduce by ring, two-shot, one-shot, tree, recursive. */
static const struct {
    enum tr_algorithm algorithm;
    double messages, steps, link, reduced;
} algorithms[] = {{TR_ALGORITHM_RING, 14, 15, 1.75, 0.875},
                  {TR_ALGORITHM_TWOSHOT, 2, 15, 1.75, 0.875},
                  {TR_ALGORITHM_ONESHOT, 1, 2, 7, 7},
                  {TR_ALGORITHM_TREE, 6, 2, 3, 2},
                  {TR_ALGORITHM_RECURSIVE, 6, 15, 1.75, 0.875}};
enum { NALGORITHMS = sizeof algorithms / sizeof *algorithms, NSIZES = 24, NPOINTS = NALGORITHMS * NSIZES };

static double true_us(const struct truth *t, const struct tr_cost *c)
{
    return t->launch + c->messages * t->alpha + c->steps * t->overhead + c->link_bytes / t->beta * 1e-3 +
           c->reduced_bytes / t->gamma * 1e-3;
}

/* From 4 MiB on by `beyond`. */
static int measure(const struct truth *beyond, double noise, int first, int end, struct tr_priced *points)
{
    int n = 0;
    for (int a = first; a < end; a++)
        for (int i = 0; i < NSIZES; i++) {
            double bytes = ldexp(8, i);
            struct tr_cost cost = {algorithms[a].messages, algorithms[a].steps, algorithms[a].link * bytes,
                                   algorithms[a].reduced * bytes};
            const struct truth *t = bytes >= 4 << 20 ? beyond : &machine;
            points[n++] = (struct tr_priced){.collective = TR_ALLREDUCE,
                                             .algorithm = algorithms[a].algorithm,
                                             .protocol = TR_PROTOCOL_DIRECT,
                                             .bytes = bytes,
                                             .best = true,
                                             .us = noisy(true_us(t, &cost), noise),
                                             .cost = cost};
        }
    return n;
}

static bool holds(const struct tr_interval *interval, double truth)
{
    return interval->low <= truth && truth <= interval->high;
}

static void test_parameters_are_recovered(void **state)
{
    (void)state;
    enum { SETS = 40 };
    int held = 0, one_range = 0;
    for (int set = 0; set < SETS; set++) {
        struct tr_priced points[NPOINTS];
        struct tr_parameters *p;
        int n;
        seed_random(set);
        measure(&machine, 0.05, 0, NALGORITHMS, points);
        assert_int_equal(tr_machine_fit(points, NPOINTS, (unsigned)set, &p, &n), TR_OK);
        one_range += n == 1;
        held += holds(&p->launch_us, machine.launch) + holds(&p->alpha_us, machine.alpha) +
                holds(&p->overhead_us, machine.overhead) + holds(&p[n - 1].beta_gbps, machine.beta) +
                holds(&p[n - 1].gamma_gbps, machine.gamma);
        free(p);
    }
    print_message("# of %d intervals %d hold the truth; %d of %d sets in one range\n", 5 * SETS, held, one_range, SETS);
    assert_true(held >= 5 * SETS * 93 / 100);
    assert_true(one_range >= SETS * 9 / 10);
}

static void test_caches_make_ranges(void **state)
{
    (void)state;
    struct tr_priced points[NPOINTS];
    struct tr_parameters *p;
    int n;
    seed_random(1);
    measure(&far_caches, 0.02, 0, NALGORITHMS, points);
    assert_int_equal(tr_machine_fit(points, NPOINTS, 1, &p, &n), TR_OK);
    assert_int_equal(n, 2);
    assert_true(p[0].to_bytes == 2 << 20 && p[1].from_bytes == 4 << 20);
    assert_true(fabs(p[0].beta_gbps.value / machine.beta - 1) < 0.1);
    assert_true(holds(&p[1].beta_gbps, far_caches.beta));
    free(p);
}

/* One algorithm alone: launch, alpha and overhead are one constant, beta and gamma one slope. */
static void test_what_cannot_be_told_apart(void **state)
{
    (void)state;
    struct tr_priced points[NPOINTS];
    struct tr_parameters *p;
    int n, npoints = measure(&machine, 0.02, 0, 1, points);
    assert_int_equal(tr_machine_fit(points, npoints, 1, &p, &n), TR_OK);
    assert_true(n >= 1);
    const struct tr_parameters *last = &p[n - 1];
    double constant = true_us(&machine, &(struct tr_cost){14, 15, 0, 0});
    assert_true(p->launch_us.low == 0 && p->alpha_us.low == 0 && p->overhead_us.low == 0);
    assert_true(p->launch_us.high > 0.8 * constant || p->alpha_us.high > 0.8 * constant / 14 ||
                p->overhead_us.high > 0.8 * constant / 15);
    assert_true(isinf(last->beta_gbps.high) && isinf(last->gamma_gbps.high));
    assert_true(last->median_residual < 0.05);
    free(p);
}

static void test_too_few_points(void **state)
{
    (void)state;
    struct tr_priced points[NPOINTS];
    struct tr_parameters *p;
    int n;
    measure(&machine, 0, 0, 1, points);
    assert_int_equal(tr_machine_fit(points, 5, 1, &p, &n), TR_OK);
    assert_int_equal(n, 0);
    free(p);
    assert_int_equal(tr_machine_fit(points, 0, 1, &p, &n), TR_OK);
    assert_int_equal(n, 0);
    free(p);
}

/* ---- Regression -------------------------------------------------------------------------------------------------- */

static void test_exact_times_are_reproduced(void **state)
{
    (void)state;
    struct tr_priced points[NPOINTS];
    struct tr_observation o[NPOINTS];
    seed_random(1);
    measure(&machine, 0, 0, NALGORITHMS, points);
    for (int i = 0; i < NPOINTS; i++)
        o[i] = (struct tr_observation){
            {1, points[i].cost.messages, points[i].cost.steps, points[i].cost.link_bytes, points[i].cost.reduced_bytes},
            true_us(&machine, &points[i].cost)};
    struct tr_regression fit = tr_regression_fit(o, NPOINTS, 0);
    assert_true(fit.loss < 1e-6);
    assert_true(fabs(fit.c[1] / machine.alpha - 1) < 1e-6 && fabs(fit.c[3] * machine.beta * 1e3 - 1) < 1e-6);
    struct tr_regression without = tr_regression_fit(o, NPOINTS, 1u << 1);
    assert_true(without.c[1] == 0 && without.loss > fit.loss);
}

/* ---- Models ------------------------------------------------------------------------------------------------------ */

static struct tr_result_file file_of(struct tr_result *results, int n, const char *host)
{
    struct tr_result_file file = {.path = "a/b.json",
                                  .collective = TR_ALLREDUCE,
                                  .machine = {.memory = TR_MEMORY_HOST, .name = "CPU", .nranks = 4},
                                  .registered = true,
                                  .cpus = 4,
                                  .results = results,
                                  .nresults = n};
    for (size_t i = 0; host[i]; i++)
        file.machine.host[i] = host[i];
    return file;
}

/* Times 1 + bytes / 1e3, of a contender, one that was wrong, AUTO and a peer at each of 12 sizes. */
static int fill_results(struct tr_result *results)
{
    int n = 0;
    for (int i = 0; i < 12; i++)
        for (int who = 0; who < 4; who++) {
            struct tr_result result = {.datatype = TR_F32,
                                       .has_op = true,
                                       .bytes = (size_t)64 << i,
                                       .algorithm = who == 3 ? TR_ALGORITHM_MPI : TR_ALGORITHM_RING,
                                       .peer = who == 3,
                                       .protocol = TR_PROTOCOL_DIRECT,
                                       .channels = 1,
                                       .measured = who != 1,
                                       .median_us = 1 + (double)((size_t)64 << i) / 1e3};
            static const char *const names[] = {"ring", "ring/LL", "auto", "mpi"};
            for (size_t k = 0; names[who][k]; k++)
                result.contender[k] = names[who][k];
            results[n++] = result;
        }
    return n;
}

static void test_model_of_files(void **state)
{
    (void)state;
    struct tr_result results[48];
    struct tr_result_file file = file_of(results, fill_results(results), "one");
    struct tr_result_file *files[] = {&file};
    struct tr_priced *priced;
    struct tr_model *model;
    int n;
    assert_int_equal(tr_machine_price(files, 1, &priced, &n), TR_OK);
    assert_int_equal(n, 12); /* neither what was wrong, nor AUTO, nor the peer */
    assert_true(priced[0].cost.messages == 6);
    assert_int_equal(tr_machine_model(files, 1, priced, n, 1, &model), TR_OK);
    assert_int_equal(model->ncurves, 1);
    assert_true(model->curves[0].registered && model->curves[0].algorithm == TR_ALGORITHM_RING);
    assert_true(fabs(model->curves[0].fit.segments[0].alpha_us.value - 1) < 1e-6);
    assert_string_equal(model->origin, "1 run: b.json");
    assert_string_equal(model->machine.host, "one");
    tr_model_free(model);
    free(priced);
}

static void test_files_of_several_machines(void **state)
{
    (void)state;
    struct tr_result results[48];
    int n = fill_results(results);
    struct tr_result_file one = file_of(results, n, "one"), other = file_of(results, n, "other");
    struct tr_result_file *files[] = {&one, &other};
    struct tr_priced *priced;
    assert_int_equal(tr_machine_price(files, 2, &priced, &n), TR_ERR_ARGUMENT);
    other = one;
    other.machine.nranks = 5;
    assert_int_equal(tr_machine_price(files, 2, &priced, &n), TR_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_are_recovered),   cmocka_unit_test(test_caches_make_ranges),
        cmocka_unit_test(test_what_cannot_be_told_apart),  cmocka_unit_test(test_too_few_points),
        cmocka_unit_test(test_exact_times_are_reproduced), cmocka_unit_test(test_model_of_files),
        cmocka_unit_test(test_files_of_several_machines),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

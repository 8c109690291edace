/*
 * closed_test.c - the formulas against the simulator, for every algorithm that has one: 2 to 64, 512 and 1,024 ranks, powers
 * of two and others, one level and two, latency and bandwidth deciding, registered or not, in slots of their own or not.
 * How far apart they may be stands in `tolerances`; each test says in its output how far they were.
 */
#include "model/closed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { ELEMENT_BYTES = 4, CHANNELS = 32, CAPACITY = 65536 };

static const int rank_counts[] = {2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 48, 63, 64};
static const int large_counts[] = {512, 1000, 1024};
static const size_t sizes[] = {8, 65536, 1 << 20, 16 << 20, (size_t)1 << 30};

/* Ranks per node, links, inside, between, gamma, launch, overhead. */
static const struct tr_sim_machine machines[] = {
    {4096, 1, {1, 365}, {4, 48}, 1500, 2, 0},   /* one level */
    {4096, 1, {1, 365}, {4, 48}, 1500, 2, 0.2}, /* with an overhead */
    {8, 8, {1, 365}, {4, 48}, 1500, 2, 0},      /* a link a rank */
    {8, 1, {1, 365}, {4, 48}, 1500, 2, 0},      /* one link */
    {4, 2, {0.5, 20}, {2, 12}, 10, 0, 0.1},     /* a slow machine */
};

/* One level; two, of full nodes and a power of two of ranks; other counts (a node that is not full; in recursive halving
 * any that is no power of two); and 512 ranks and more on 8 a node, nearest to where the formulas are used. */
enum kind { ONE_LEVEL, WHOLE_NODES, OTHER_COUNTS, MANY_RANKS, KINDS };
static const char *const kind_names[KINDS] = {"one level", "whole nodes", "other counts", "many ranks"};

static const double tolerances[TR_ALGORITHM_COUNT][KINDS] = {
    [TR_ALGORITHM_RING] = {0.01, 0.01, 0.01, 0.01},    [TR_ALGORITHM_TREE] = {0.10, 0.30, 0.31, 0.02},
    [TR_ALGORITHM_DTREE] = {0.11, 0.20, 0.23, 0.02},   [TR_ALGORITHM_ONESHOT] = {0.01, 0.23, 0.21, 0.01},
    [TR_ALGORITHM_TWOSHOT] = {0.01, 0.30, 0.34, 0.01}, [TR_ALGORITHM_RECURSIVE] = {0.01, 0.06, 0.31, 0.01},
};

static double worst[TR_ALGORITHM_COUNT][KINDS];

static bool is_power(int n)
{
    return (n & (n - 1)) == 0;
}

static enum kind kind_of(enum tr_algorithm algorithm, int n, const struct tr_sim_machine *m)
{
    if (n > 64)
        return MANY_RANKS;
    if (algorithm == TR_ALGORITHM_RECURSIVE && !is_power(n))
        return OTHER_COUNTS;
    if (n <= m->ranks_per_node)
        return ONE_LEVEL;
    return n % m->ranks_per_node == 0 && is_power(n) ? WHOLE_NODES : OTHER_COUNTS;
}

/* What is compared: kept small enough to be simulated in a moment. */
static bool affordable(enum tr_algorithm algorithm, const struct tr_geometry *g, int n)
{
    bool tree = algorithm == TR_ALGORITHM_TREE || algorithm == TR_ALGORITHM_DTREE;
    double messages = (double)g->npieces * n * (tree ? 4 : n);
    return messages <= 3e5 || (n > 64 && g->npieces <= 2);
}

static void compare(const struct tr_schedule *s, const struct tr_sim_machine *m, size_t bytes)
{
    const struct tr_schedule_spec *spec = &s->spec;
    size_t n = (size_t)spec->nranks, count = bytes / ELEMENT_BYTES;
    if (spec->collective != TR_ALLREDUCE)
        count = (count - 1) / n + 1;
    struct tr_layout layout = tr_closed_layout(spec);
    struct tr_geometry g = spec->unique
                               ? tr_layout_whole(&layout, spec->collective, count, ELEMENT_BYTES, CHANNELS)
                               : tr_layout_cut(&layout, spec->collective, count, ELEMENT_BYTES, CHANNELS, CAPACITY);
    double simulated = NAN, formula = NAN;
    if (!affordable(spec->algorithm, &g, spec->nranks))
        return;
    assert_int_equal(tr_simulate(s, &g, ELEMENT_BYTES, m, NULL, NULL, &simulated), TR_OK);
    assert_int_equal(tr_closed_form(spec, &g, ELEMENT_BYTES, m, &formula), TR_OK);
    enum kind kind = kind_of(spec->algorithm, spec->nranks, m);
    double apart = fabs(formula / simulated - 1);
    worst[spec->algorithm][kind] = fmax(worst[spec->algorithm][kind], apart);
    if (!(apart <= tolerances[spec->algorithm][kind]))
        fail_msg("%s %s, %d ranks%s%s, %zu bytes in %u pieces, machine %td (%s): simulated %.3f us, by formula %.3f",
                 tr_collective_name(spec->collective), tr_algorithm_name(spec->algorithm), spec->nranks,
                 spec->remote ? ", registered" : "", spec->unique ? ", unique" : "", bytes, g.npieces, m - machines,
                 kind_names[kind], simulated, formula);
}

static void check_layout(const struct tr_schedule *s)
{
    struct tr_layout built = tr_schedule_layout(s), formula = tr_closed_layout(&s->spec);
    assert_int_equal(formula.nranks, built.nranks);
    assert_int_equal(formula.nchunks, built.nchunks);
    assert_int_equal(formula.nslots > 0, built.nslots > 0);
    assert_int_equal(formula.depth, built.depth);
    assert_int_equal(formula.max_lag, built.max_lag);
}

static void check_spec(struct tr_schedule_spec spec)
{
    struct tr_schedule *schedule;
    assert_int_equal(tr_schedule_build(&spec, &schedule), TR_OK);
    check_layout(schedule);
    bool large = spec.nranks > 64;
    for (size_t m = 0; m < LENGTH(machines); m++)
        for (size_t i = 0; i < LENGTH(sizes); i++)
            if (!large || (m == 2 && (sizes[i] == 8 || sizes[i] == 16 << 20)))
                compare(schedule, &machines[m], sizes[i]);
    tr_schedule_free(schedule);
}

static void check_ranks(enum tr_collective collective, enum tr_algorithm algorithm, int nranks)
{
    struct tr_schedule_spec spec = {.collective = collective, .algorithm = algorithm, .nranks = nranks};
    check_spec(spec);
    if (nranks > 64)
        return;
    spec.unique = true;
    check_spec(spec);
    spec.unique = false;
    spec.remote = true;
    check_spec(spec);
}

static void test_algorithm(void **state)
{
    enum tr_algorithm algorithm = *(const enum tr_algorithm *)*state;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++) {
        enum tr_collective collective = (enum tr_collective)c;
        if (!tr_closed_exists(collective, algorithm))
            continue;
        for (size_t i = 0; i < LENGTH(rank_counts); i++)
            check_ranks(collective, algorithm, rank_counts[i]);
        for (size_t i = 0; i < LENGTH(large_counts) && collective == TR_ALLREDUCE; i++)
            check_ranks(collective, algorithm, large_counts[i]);
    }
    for (int kind = 0; kind < KINDS; kind++)
        printf("# %s, %s: at most %.1f%% apart\n", tr_algorithm_name(algorithm), kind_names[kind],
               100 * worst[algorithm][kind]);
}

/* All-reduce, reduce-scatter and all-gather have a formula for every schedule. */
static void test_complete(void **state)
{
    (void)state;
    for (int c = TR_ALLREDUCE; c <= TR_ALLGATHER; c++)
        for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
            assert_int_equal(tr_closed_exists((enum tr_collective)c, (enum tr_algorithm)a),
                             tr_schedule_exists((enum tr_collective)c, (enum tr_algorithm)a));
}

/* Past what can be simulated times go on growing with ranks, and with bytes. */
static void test_growth(void **state)
{
    (void)state;
    for (int a = TR_ALGORITHM_RING; a <= TR_ALGORITHM_RECURSIVE; a++) {
        double before = 0;
        for (int n = 1024; n <= 65536; n *= 4) {
            struct tr_schedule_spec spec = {.collective = TR_ALLREDUCE, .algorithm = (enum tr_algorithm)a, .nranks = n};
            struct tr_layout layout = tr_closed_layout(&spec);
            double us = NAN, more = NAN;
            for (size_t count = 1 << 20, i = 0; i < 2; i++, count *= 64) {
                struct tr_geometry g = tr_layout_cut(&layout, TR_ALLREDUCE, count, ELEMENT_BYTES, CHANNELS, CAPACITY);
                assert_int_equal(tr_closed_form(&spec, &g, ELEMENT_BYTES, &machines[2], i ? &more : &us), TR_OK);
            }
            assert_true(more > us && us > before);
            before = us;
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct tr_schedule_spec spec = {.collective = TR_BROADCAST, .algorithm = TR_ALGORITHM_RING, .nranks = 4};
    struct tr_geometry g = {.total = 100, .stride = 100, .tile = 100, .npieces = 1, .channels = 1};
    double us = -1;
    assert_int_equal(tr_closed_form(&spec, &g, 4, &machines[0], &us), TR_ERR_UNSUPPORTED);
    struct tr_sim_machine wrong = machines[0];
    wrong.gamma_gbps = 0;
    spec.collective = TR_ALLREDUCE;
    assert_int_equal(tr_closed_form(&spec, &g, 4, &wrong, &us), TR_ERR_ARGUMENT);
    spec.nranks = 0;
    assert_int_equal(tr_closed_form(&spec, &g, 4, &machines[0], &us), TR_ERR_ARGUMENT);
    assert_true(us < 0);
}

int main(void)
{
    static enum tr_algorithm algorithms[TR_ALGORITHM_COUNT];
    struct CMUnitTest tests[TR_ALGORITHM_COUNT + 3];
    size_t n = 0;
    for (int a = TR_ALGORITHM_RING; a <= TR_ALGORITHM_RECURSIVE; a++, n++) {
        algorithms[a] = (enum tr_algorithm)a;
        tests[n] = (struct CMUnitTest){tr_algorithm_name(algorithms[a]), test_algorithm, NULL, NULL, &algorithms[a]};
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_complete);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_growth);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_refused);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("closed", tests, n, NULL, NULL);
}

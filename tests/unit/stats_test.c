/*
 * stats_test.c - quantiles against their definition, and the interval of the median: its ranks against known ones, and
 * that it holds the median of known distributions as often as it says.
 */
#include "bench/random.h"
#include "bench/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static double uniform(struct random *random)
{
    return ((double)(random_next(random) >> 11) + 0.5) * 0x1p-53;
}

/* ---- Quantiles --------------------------------------------------------------------------------------------------- */

/* n samples that are 1 .. n in a scrambled order. */
static struct bench_stats stats_of_ranks(int n)
{
    double samples[2000];
    int order[2000];
    struct random random = {7};
    random_order(&random, order, n);
    for (int i = 0; i < n; i++)
        samples[i] = order[i] + 1;
    return stats_of(samples, n);
}

static void test_quantiles(void **state)
{
    (void)state;
    for (int n = 1; n <= 2000; n++) {
        struct bench_stats stats = stats_of_ranks(n);
        assert_int_equal(stats.n, n);
        assert_true(stats.min == 1 && stats.max == n);
        assert_true(stats.median == (n + 1) / 2.0);
        assert_int_equal(stats.p5, (n + 19) / 20);
        assert_int_equal(stats.p95, (19 * n + 19) / 20);
        assert_int_equal(stats.p99, (99 * n + 99) / 100);
        assert_true(stats.ci_low <= stats.median && stats.median <= stats.ci_high);
    }
}

static void test_ties_and_share(void **state)
{
    (void)state;
    double same[20];
    for (int i = 0; i < 20; i++)
        same[i] = 3;
    struct bench_stats stats = stats_of(same, 20);
    assert_true(stats.median == 3 && stats.ci_low == 3 && stats.ci_high == 3 && stats_share(&stats) == 0);
    double spread[] = {9, 10, 11, 10, 10, 8, 12};
    stats = stats_of(spread, 7); /* all seven: [8, 12] around 10 */
    assert_true(fabs(stats_share(&stats) - 0.2) < 1e-12);
    stats = stats_of(spread, 5);
    assert_true(isinf(stats_share(&stats)));
    double none[6] = {0};
    stats = stats_of(none, 6);
    assert_true(isinf(stats_share(&stats)));
}

/* ---- The interval's ranks ---------------------------------------------------------------------------------------- */

/* The ranks that tables of the sign test have at 5%, two-sided; the coverage is 1 - 2 P(B <= low) of the binomial
 * distribution, n = 10: 1 - 2 x 11/1024. */
static void test_known_intervals(void **state)
{
    static const struct {
        int n, low; /* counted from 0 */
        double level;
    } known[] = {
        {1, 0, 0},         {2, 0, 0.5},       {3, 0, 0.75},      {5, 0, 0.9375},     {6, 0, 0.96875},
        {8, 0, 0.9921875}, {9, 1, 0.9609375}, {10, 1, 0.978516}, {11, 1, 0.988281},  {12, 2, 0.961426},
        {20, 5, 0.958611}, {25, 7, 0.956715}, {30, 9, 0.957226}, {50, 17, 0.967161}, {100, 39, 0.964800},
    };
    (void)state;
    for (size_t i = 0; i < LENGTH(known); i++) {
        int low;
        double level = stats_median_interval(known[i].n, &low);
        assert_int_equal(low, known[i].low);
        assert_true(fabs(level - known[i].level) < 1e-6);
    }
}

/* P(B <= k) for n tosses, from logarithms: another way than the one tested. */
static double binomial_below(int n, int k)
{
    double sum = 0;
    for (int i = 0; i <= k; i++)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) - n * log(2));
    return sum;
}

static void test_interval_is_the_narrowest(void **state)
{
    (void)state;
    for (int n = 6; n <= 3000; n += n < 1010 ? 1 : 97) {
        int low;
        double level = stats_median_interval(n, &low);
        assert_true(low >= 0 && low < n - 1 - low);
        assert_true(fabs(level - (1 - 2 * binomial_below(n, low))) < (n <= 1000 ? 1e-9 : 1e-3));
        assert_true(level >= 0.95);
        assert_true(1 - 2 * binomial_below(n, low + 1) < (n <= 1000 ? 0.95 : 0.951));
    }
}

/* ---- Coverage ---------------------------------------------------------------------------------------------------- */

static double draw_uniform(struct random *random)
{
    return uniform(random);
}

/* Heavy tails, as times have: Pareto with exponent 1.1, which has no variance. */
static double draw_pareto(struct random *random)
{
    return pow(uniform(random), -1 / 1.1);
}

/* Two modes, as a machine with a clock that steps: the upper one holds 30%. */
static double draw_two_modes(struct random *random)
{
    return uniform(random) < 0.3 ? 5 + uniform(random) : 1 + uniform(random);
}

/* Over many draws the share of intervals that hold the true median is ci_level, within four standard errors. */
static void check_coverage(double (*draw)(struct random *random), double median, int n)
{
    enum { DRAWS = 20000 };
    struct random random = {(uint64_t)n};
    double samples[128], level = 0;
    int held = 0;
    for (int i = 0; i < DRAWS; i++) {
        for (int k = 0; k < n; k++)
            samples[k] = draw(&random);
        struct bench_stats stats = stats_of(samples, n);
        held += stats.ci_low <= median && median <= stats.ci_high;
        level = stats.ci_level;
    }
    assert_true(fabs((double)held / DRAWS - level) < 4 * sqrt(level * (1 - level) / DRAWS));
}

static void test_coverage(void **state)
{
    static const int sizes[] = {2, 3, 5, 6, 7, 12, 25, 100};
    (void)state;
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        check_coverage(draw_uniform, 0.5, sizes[i]);
        check_coverage(draw_pareto, pow(0.5, -1 / 1.1), sizes[i]);
        check_coverage(draw_two_modes, 1 + 0.5 / 0.7, sizes[i]);
    }
}

/* ---- Random orders ----------------------------------------------------------------------------------------------- */

/* The first numbers of SplitMix64 from seed 1234567, as its authors' C code gives them (prng.di.unimi.it/splitmix64.c). */
static void test_splitmix(void **state)
{
    static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431)};
    struct random random = {1234567};
    (void)state;
    for (size_t i = 0; i < LENGTH(expected); i++)
        assert_true(random_next(&random) == expected[i]);
}

/* Each of the 24 orders of 4 comes as often as any other: chi-squared with 23 degrees, 49.7 at 0.1%. */
static void test_orders_are_fair(void **state)
{
    enum { DRAWS = 24000 };
    int seen[256] = {0}, kinds = 0;
    double chi = 0;
    struct random random = {99};
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        int order[4];
        random_order(&random, order, 4);
        seen[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (int k = 0; k < 256; k++)
        if (seen[k]) {
            kinds++;
            chi += (seen[k] - 1000.0) * (seen[k] - 1000.0) / 1000;
        }
    assert_int_equal(kinds, 24);
    assert_true(chi < 49.7);
}

static void test_same_seed_same_orders(void **state)
{
    struct random a = {42}, b = {42};
    (void)state;
    for (int i = 0; i < 100; i++) {
        int first[9], second[9];
        random_order(&a, first, 9);
        random_order(&b, second, 9);
        assert_memory_equal(first, second, sizeof first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),       cmocka_unit_test(test_ties_and_share),
        cmocka_unit_test(test_known_intervals), cmocka_unit_test(test_interval_is_the_narrowest),
        cmocka_unit_test(test_coverage),        cmocka_unit_test(test_splitmix),
        cmocka_unit_test(test_orders_are_fair), cmocka_unit_test(test_same_seed_same_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

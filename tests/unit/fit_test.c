/*
 * fit_test.c - curves fitted to synthetic data: alpha and beta are recovered within the stated 95% intervals under noise
 * and outliers, breakpoints are found, and one line is the best of all lines.
 */
#include "model/fit.h"
#include "model/line.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST_POINTS = 64 };

static unsigned short state_of_random[3];

static void seed_random(int seed)
{
    state_of_random[0] = 0x330E;
    state_of_random[1] = (unsigned short)seed;
    state_of_random[2] = (unsigned short)(seed >> 16);
}

static double uniform(void)
{
    return erand48(state_of_random);
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* What a measurement makes of a time: multiplicative noise, and 1 point in 20 takes 1.5 to 4.5 times as long. */
static double noisy(double us, double noise)
{
    double outlier = uniform() < 0.05 ? 1.5 + 3 * uniform() : 1;
    return us * exp(noise * normal()) * outlier;
}

/* ---- Coverage ---------------------------------------------------------------------------------------------------- */

struct sweep {
    int npoints;
    double factor; /* from one size to the next, from 8 bytes on */
    double noise;
};

static bool holds(const struct tr_interval *interval, double truth)
{
    return interval->low <= truth && truth <= interval->high;
}

struct coverage {
    int alpha, beta, half, one_piece;
};

static void cover(const struct sweep *sweep, unsigned seed, struct coverage *coverage)
{
    double alpha = exp(4 * uniform()), beta = exp(8 * uniform() - 1), bytes = 8; /* 1..55 us, 0.4..1100 GB/s */
    struct tr_fit_point points[MOST_POINTS];
    for (int i = 0; i < sweep->npoints; i++, bytes *= sweep->factor)
        points[i] = (struct tr_fit_point){bytes, noisy(alpha + bytes / (beta * 1e3), sweep->noise)};
    struct tr_fit fit;
    assert_int_equal(tr_fit_curve(points, sweep->npoints, seed, &fit), TR_OK);
    const struct tr_segment *first = &fit.segments[0], *last = &fit.segments[fit.nsegments - 1];
    coverage->alpha += holds(&first->alpha_us, alpha);
    coverage->beta += holds(&last->beta_gbps, beta);
    coverage->half += holds(&first->half_bytes, alpha * beta * 1e3);
    coverage->one_piece += fit.nsegments == 1;
}

static void check_coverage(const struct sweep *sweep)
{
    enum { SETS = 400, LEAST = SETS * 93 / 100 }; /* 95 in 100, less what 400 tries may miss by */
    struct coverage coverage = {0};
    seed_random(sweep->npoints);
    for (int set = 0; set < SETS; set++)
        cover(sweep, (unsigned)set, &coverage);
    print_message("# %d points, noise %g: of %d intervals, %d hold alpha, %d beta, %d m_1/2; %d in one piece\n",
                  sweep->npoints, sweep->noise, SETS, coverage.alpha, coverage.beta, coverage.half, coverage.one_piece);
    assert_true(coverage.alpha >= LEAST);
    assert_true(coverage.beta >= LEAST);
    assert_true(coverage.half >= SETS * 92 / 100);
    assert_true(coverage.one_piece >= SETS * 93 / 100);
}

static void test_intervals_hold_the_truth(void **state)
{
    static const struct sweep sweeps[] = {{24, 2, 0.02}, {24, 2, 0.1}, {12, 4, 0.05}};
    (void)state;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++)
        check_coverage(&sweeps[i]);
}

/* ---- Breakpoints ------------------------------------------------------------------------------------------------- */

/* Three protocols: until 1 KiB, until 256 KiB, beyond. */
static double three_pieces_us(double bytes)
{
    if (bytes <= 1024)
        return 2 + bytes / 1e3;
    return bytes <= 262144 ? 12 + bytes / 4e3 : 300 + bytes / 30e3;
}

static void test_breakpoints_are_found(void **state)
{
    (void)state;
    enum { SETS = 100 };
    int found = 0, within = 0;
    seed_random(3);
    for (int set = 0; set < SETS; set++) {
        struct tr_fit_point points[24];
        for (int i = 0; i < 24; i++)
            points[i] = (struct tr_fit_point){ldexp(8, i), noisy(three_pieces_us(ldexp(8, i)), 0.02)};
        struct tr_fit fit;
        assert_int_equal(tr_fit_curve(points, 24, (unsigned)set, &fit), TR_OK);
        bool right = fit.nsegments == 3 && fit.segments[0].to_bytes == 1024 && fit.segments[1].to_bytes == 262144;
        found += right;
        within += right && fabs(fit.segments[2].beta_gbps.value / 30 - 1) < 0.05;
    }
    print_message("# of %d sets, both breakpoints were found exactly in %d\n", SETS, found);
    assert_true(found >= 85);
    assert_true(within >= 80);
}

/* Without noise a cut costs nothing: exact pieces, and the prediction is the truth. */
static void test_exact_data_is_reproduced(void **state)
{
    (void)state;
    struct tr_fit_point points[24];
    for (int i = 0; i < 24; i++)
        points[i] = (struct tr_fit_point){ldexp(8, i), three_pieces_us(ldexp(8, i))};
    struct tr_fit fit;
    assert_int_equal(tr_fit_curve(points, 24, 1, &fit), TR_OK);
    assert_int_equal(fit.nsegments, 3);
    assert_true(fit.largest_residual < 1e-9);
    for (int i = 0; i < 24; i++)
        assert_true(fabs(tr_fit_predict(&fit, points[i].bytes) / points[i].us - 1) < 1e-9);
    assert_true(fabs(fit.segments[1].alpha_us.value - 12) < 1e-6);
    assert_true(fabs(fit.segments[1].beta_gbps.value - 4) < 1e-6);
    assert_true(fabs(fit.segments[1].half_bytes.value - 48000) < 1e-1);
}

static void test_predictions_grow_between_pieces(void **state)
{
    (void)state;
    struct tr_fit_point points[24];
    for (int i = 0; i < 24; i++)
        points[i] = (struct tr_fit_point){ldexp(8, i), three_pieces_us(ldexp(8, i))};
    struct tr_fit fit;
    assert_int_equal(tr_fit_curve(points, 24, 1, &fit), TR_OK);
    double last = 0;
    for (double bytes = 1; bytes < 1e10; bytes *= 1.01) {
        double us = tr_fit_predict(&fit, bytes);
        assert_true(us >= last);
        last = us;
    }
}

/* ---- One line ---------------------------------------------------------------------------------------------------- */

static double loss(double alpha, double slope, const struct tr_fit_point *points, int n)
{
    if (!(alpha >= 0 && slope >= 0))
        return INFINITY;
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += fabs((alpha + slope * points[i].bytes) / points[i].us - 1);
    return sum;
}

/* The least loss of all lines through two points, one point and the origin, and one point and slope 0. */
static double least_loss(const struct tr_fit_point *p, int n)
{
    double best = INFINITY;
    for (int i = 0; i < n; i++) {
        best = fmin(best, loss(p[i].us, 0, p, n));
        if (p[i].bytes > 0)
            best = fmin(best, loss(0, p[i].us / p[i].bytes, p, n));
        for (int j = 0; j < i; j++) {
            double slope = (p[i].us - p[j].us) / (p[i].bytes - p[j].bytes);
            if (p[i].bytes != p[j].bytes)
                best = fmin(best, loss(p[i].us - slope * p[i].bytes, slope, p, n));
        }
    }
    return best;
}

/* Few different sizes and times, so that many points lie on one line, or many decades of sizes. */
static void make_points(int set, struct tr_fit_point *points, int n)
{
    for (int i = 0; i < n; i++) {
        points[i].bytes = set % 3 == 0 ? floor(7 * uniform()) : ldexp(8, i / (1 + set % 2));
        double us = (1 + points[i].bytes * 1e-3 * (set % 4)) * exp((uniform() - 0.5) * (set % 7 == 0 ? 3 : 0.2));
        points[i].us = set % 5 == 0 ? 1 + floor(3 * uniform()) : us;
    }
}

static void test_line_is_the_best_of_all(void **state)
{
    (void)state;
    seed_random(1);
    for (int set = 0; set < 5000; set++) {
        struct tr_fit_point points[MOST_POINTS];
        struct tr_weighted scratch[MOST_POINTS];
        int n = 1 + set % 22;
        make_points(set, points, n);
        struct tr_line line = tr_line_fit(points, n, scratch);
        double best = least_loss(points, n);
        assert_true(fabs(line.loss - best) <= 1e-9 * (1 + best));
        assert_true(line.alpha >= 0 && line.slope >= 0);
        assert_true(fabs(line.loss - loss(line.alpha, line.slope, points, n)) <= 1e-9);
    }
}

/* ---- Edges ------------------------------------------------------------------------------------------------------- */

static void test_size_zero_and_repeated_sizes(void **state)
{
    (void)state;
    const struct tr_fit_point points[] = {{3000, 5}, {0, 2}, {1000, 3}, {0, 2}, {2000, 4}, {1000, 3}, {3000, 5}};
    struct tr_fit fit;
    assert_int_equal(tr_fit_curve(points, 7, 0, &fit), TR_OK);
    assert_int_equal(fit.nsegments, 1);
    assert_true(fabs(fit.segments[0].alpha_us.value - 2) < 1e-9);
    assert_true(fabs(fit.segments[0].beta_gbps.value - 1) < 1e-9);
    assert_true(fit.segments[0].from_bytes == 0 && fit.segments[0].to_bytes == 3000);
    assert_int_equal(fit.segments[0].npoints, 7);
    assert_true(fabs(tr_fit_predict(&fit, 0) - 2) < 1e-9);
}

static void test_time_that_does_not_grow(void **state)
{
    (void)state;
    const struct tr_fit_point points[] = {{8, 5}, {16, 5}, {32, 5}, {64, 5}, {128, 4.9}};
    struct tr_fit fit;
    assert_int_equal(tr_fit_curve(points, 5, 0, &fit), TR_OK);
    assert_true(isinf(fit.segments[0].beta_gbps.value) && isinf(fit.segments[0].beta_gbps.high));
    assert_true(isinf(fit.segments[0].half_bytes.value));
    assert_true(tr_fit_predict(&fit, 1e9) == 5);
}

static void test_same_points_same_fit(void **state)
{
    (void)state;
    struct tr_fit_point points[24], backwards[24];
    seed_random(9);
    for (int i = 0; i < 24; i++)
        backwards[23 - i] = points[i] = (struct tr_fit_point){ldexp(8, i), noisy(three_pieces_us(ldexp(8, i)), 0.05)};
    struct tr_fit first, second;
    assert_int_equal(tr_fit_curve(points, 24, 7, &first), TR_OK);
    assert_int_equal(tr_fit_curve(backwards, 24, 7, &second), TR_OK);
    assert_int_equal(first.nsegments, second.nsegments);
    for (int k = 0; k < first.nsegments; k++) {
        assert_true(first.segments[k].alpha_us.low == second.segments[k].alpha_us.low);
        assert_true(first.segments[k].beta_gbps.high == second.segments[k].beta_gbps.high);
    }
}

/* More sizes than places to cut at. */
static void test_many_sizes(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct tr_fit_point points[N];
    for (int i = 0; i < N; i++)
        points[i] = (struct tr_fit_point){64.0 * i, i < 500 ? 3 + 64.0 * i / 2e3 : 30 + 64.0 * i / 8e3};
    struct tr_fit fit;
    assert_int_equal(tr_fit_curve(points, N, 1, &fit), TR_OK);
    assert_true(fit.nsegments >= 2);
    assert_true(fit.median_residual < 0.01);
}

static void test_what_cannot_be_fitted(void **state)
{
    (void)state;
    const struct tr_fit_point two_sizes[] = {{8, 1}, {8, 1}, {16, 1}, {16, 2}};
    struct tr_fit_point bad[] = {{8, 1}, {16, 1}, {32, 1}};
    static const double bad_us[] = {0, -1, NAN, INFINITY, 1e-300};
    struct tr_fit fit = {.nsegments = 42};
    assert_int_equal(tr_fit_curve(two_sizes, 2, 0, &fit), TR_ERR_ARGUMENT);
    assert_int_equal(tr_fit_curve(two_sizes, 4, 0, &fit), TR_ERR_ARGUMENT);
    for (size_t i = 0; i < sizeof bad_us / sizeof *bad_us; i++) {
        bad[1].us = bad_us[i];
        assert_int_equal(tr_fit_curve(bad, 3, 0, &fit), TR_ERR_ARGUMENT);
    }
    bad[1] = (struct tr_fit_point){-1, 1};
    assert_int_equal(tr_fit_curve(bad, 3, 0, &fit), TR_ERR_ARGUMENT);
    assert_int_equal(fit.nsegments, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals_hold_the_truth),
        cmocka_unit_test(test_breakpoints_are_found),
        cmocka_unit_test(test_exact_data_is_reproduced),
        cmocka_unit_test(test_predictions_grow_between_pieces),
        cmocka_unit_test(test_line_is_the_best_of_all),
        cmocka_unit_test(test_size_zero_and_repeated_sizes),
        cmocka_unit_test(test_time_that_does_not_grow),
        cmocka_unit_test(test_same_points_same_fit),
        cmocka_unit_test(test_many_sizes),
        cmocka_unit_test(test_what_cannot_be_fitted),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

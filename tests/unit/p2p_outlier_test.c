/* p2p_outlier_test.c - pairs slower than their peers: found where there are some, and none where there is none. */
#include "bench/p2p_outlier.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))

/* With intervals of no width. */
static struct p2p_value at(double x)
{
    return (struct p2p_value){.x = x, .low = x, .outlier = true, .score = 99};
}

static int count(const struct p2p_value *values, int n)
{
    int outliers = 0;
    for (int i = 0; i < n; i++)
        outliers += values[i].outlier;
    return outliers;
}

static void test_score_is_that_of_iglewicz_and_hoaglin(void **state)
{
    (void)state;
    /* median 10, |x - 10|: 2 1 0 1 10, MAD 1 */
    struct p2p_value values[] = {at(8), at(9), at(10), at(11), at(20)};
    assert_true(p2p_find_outliers(values, LENGTH(values)));
    assert_true(fabs(values[0].score - (0.6745 * -2)) < 1e-9);
    assert_true(fabs(values[4].score - (6.745)) < 1e-9);
    assert_int_equal(count(values, LENGTH(values)), 1);
    assert_true(values[4].outlier);
}

static void test_limit_of_the_score(void **state)
{
    (void)state;
    /* MAD 1: 3.5 is reached at 10 + 5.1891 */
    struct p2p_value under[] = {at(8), at(9), at(10), at(11), at(15.18)};
    struct p2p_value over[] = {at(8), at(9), at(10), at(11), at(15.20)};
    assert_true(p2p_find_outliers(under, LENGTH(under)) && p2p_find_outliers(over, LENGTH(over)));
    assert_int_equal(count(under, LENGTH(under)), 0);
    assert_int_equal(count(over, LENGTH(over)), 1);
}

static void test_fast_ones_are_none(void **state)
{
    (void)state;
    struct p2p_value values[] = {at(1), at(99), at(100), at(101), at(102), at(98)};
    assert_true(p2p_find_outliers(values, LENGTH(values)));
    assert_int_equal(count(values, LENGTH(values)), 0);
    assert_true(values[0].score < -P2P_OUTLIER_SCORE);
}

static void test_small_differences_do_not_matter(void **state)
{
    (void)state;
    /* all but one within 0.1%: 4.9% is far out by the score, and yet too little */
    struct p2p_value values[] = {at(100), at(100.1), at(99.9), at(100), at(100.05), at(104.9)};
    assert_true(p2p_find_outliers(values, LENGTH(values)));
    assert_true(values[5].score > P2P_OUTLIER_SCORE);
    assert_int_equal(count(values, LENGTH(values)), 0);
    values[5] = at(105.2);
    assert_true(p2p_find_outliers(values, LENGTH(values)));
    assert_true(values[5].outlier);
}

static void test_uncertain_ones_are_none(void **state)
{
    (void)state;
    struct p2p_value values[] = {at(10), at(11), at(9), at(10), at(50)};
    values[4].low = 10.4; /* its interval reaches down to its peers */
    assert_true(p2p_find_outliers(values, LENGTH(values)));
    assert_true(values[4].score > P2P_OUTLIER_SCORE);
    assert_int_equal(count(values, LENGTH(values)), 0);
}

static void test_most_are_equal(void **state)
{
    (void)state;
    struct p2p_value same[] = {at(7), at(7), at(7), at(7), at(7), at(7)};
    assert_true(p2p_find_outliers(same, LENGTH(same)));
    assert_int_equal(count(same, LENGTH(same)), 0);
    /* MAD 0: the mean of |x - 7| is 1, the score 7 / 1.2533 */
    struct p2p_value one[] = {at(7), at(7), at(7), at(7), at(7), at(7), at(14)};
    assert_true(p2p_find_outliers(one, LENGTH(one)));
    assert_true(fabs(one[6].score - (7 / 1.2533)) < 1e-9);
    assert_int_equal(count(one, LENGTH(one)), 1);
}

static void test_too_few_to_tell(void **state)
{
    (void)state;
    struct p2p_value values[] = {at(1), at(1), at(1), at(100)};
    assert_false(p2p_find_outliers(values, LENGTH(values)));
    assert_int_equal(count(values, LENGTH(values)), 0);
    assert_false(p2p_find_outliers(values, 0));
}

/* Several slow pairs, those of one bad link, do not hide each other: the median and MAD stay where the rest is. */
static void test_masking(void **state)
{
    (void)state;
    struct p2p_value values[56];
    for (int i = 0; i < LENGTH(values); i++)
        values[i] = at(i % 4 ? 10 + 0.01 * (i % 7) : 20);
    assert_true(p2p_find_outliers(values, LENGTH(values)));
    assert_int_equal(count(values, LENGTH(values)), 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score_is_that_of_iglewicz_and_hoaglin),
        cmocka_unit_test(test_limit_of_the_score),
        cmocka_unit_test(test_fast_ones_are_none),
        cmocka_unit_test(test_small_differences_do_not_matter),
        cmocka_unit_test(test_uncertain_ones_are_none),
        cmocka_unit_test(test_most_are_equal),
        cmocka_unit_test(test_too_few_to_tell),
        cmocka_unit_test(test_masking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

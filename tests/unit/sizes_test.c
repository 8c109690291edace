/* sizes_test.c - sizes as people write them, and the sizes of a sweep. */
#include "bench/sizes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void test_parse(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {
        {"0", 0},
        {"8", 8},
        {"64K", 65536},
        {"64k", 65536},
        {"1M", 1 << 20},
        {"007", 7},
        {"2G", 2ULL << 30},
        {"1T", 1ULL << 40},
        {"18446744073709551615", SIZE_MAX},
        {"16777215T", 16777215ULL << 40},
    };
    static const char *const bad[] = {"",
                                      " 8",
                                      "8 ",
                                      "-8",
                                      "+8",
                                      "K",
                                      "8B",
                                      "8KB",
                                      "8KiB",
                                      "1.5M",
                                      "0x10",
                                      "1e3",
                                      "18446744073709551616",
                                      "16777216T",
                                      "99999999999999999999"};
    (void)state;
    for (size_t i = 0; i < LENGTH(good); i++) {
        size_t bytes = 1;
        assert_true(size_parse(good[i].text, &bytes));
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < LENGTH(bad); i++) {
        size_t bytes = 12345;
        assert_false(size_parse(bad[i], &bytes));
        assert_true(bytes == 12345);
    }
}

/* What is written is read back as the same number. */
static void test_format_is_exact(void **state)
{
    (void)state;
    for (int shift = 0; shift < 64; shift++)
        for (int off = -1; off <= 1; off++) {
            size_t bytes = ((size_t)1 << shift) + (size_t)off, back;
            char text[SIZE_TEXT];
            assert_true(size_parse(size_format(bytes, text), &back));
            assert_true(back == bytes);
        }
}

static void test_round_down(void **state)
{
    (void)state;
    assert_int_equal(size_round_down(0), 0);
    for (size_t bytes = 1; bytes < 100000; bytes += 7) {
        size_t rounded = size_round_down(bytes);
        assert_true(rounded <= bytes && 8 * (bytes - rounded) <= 2 * bytes);
    }
}

static size_t count(struct size_range range, size_t *last)
{
    size_t n = 1;
    *last = range.first;
    while (size_next(&range, *last, last))
        n++;
    return n;
}

static void test_ranges(void **state)
{
    size_t last;
    (void)state;
    assert_int_equal(count((struct size_range){8, 64, 0, 2}, &last), 4);
    assert_int_equal(last, 64);
    assert_int_equal(count((struct size_range){8, 63, 0, 2}, &last), 3);
    assert_int_equal(count((struct size_range){1, 100, 33, 0}, &last), 4);
    assert_int_equal(last, 100);
    assert_int_equal(count((struct size_range){0, 0, 0, 2}, &last), 1);
    assert_int_equal(count((struct size_range){0, 10, 5, 0}, &last), 3);
    /* the largest sizes do not wrap around */
    assert_int_equal(count((struct size_range){SIZE_MAX / 2, SIZE_MAX, 0, 2}, &last), 2);
    assert_true(last == SIZE_MAX - 1);
    assert_int_equal(count((struct size_range){SIZE_MAX - 10, SIZE_MAX, 7, 0}, &last), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_format_is_exact),
        cmocka_unit_test(test_round_down),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* choice_test.c - the chooser takes the fastest curve that serves a size and agrees with what is fixed. */
#include "model/choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* alpha + m / beta, measured from `first` to `last` bytes. */
static struct tr_curve line(enum tr_algorithm algorithm, enum tr_protocol protocol, int channels, double alpha_us,
                            double beta_gbps, double first, double last)
{
    struct tr_curve curve = {.collective = TR_ALLREDUCE,
                             .registered = true,
                             .algorithm = algorithm,
                             .protocol = protocol,
                             .channels = channels,
                             .fit = {.nsegments = 1}};
    curve.fit.segments[0] = (struct tr_segment){.from_bytes = first,
                                                .to_bytes = last,
                                                .alpha_us = {alpha_us, alpha_us, alpha_us},
                                                .beta_gbps = {beta_gbps, beta_gbps, beta_gbps}};
    return curve;
}

/* Ahead: LL up to 64 KiB, where it ends; then the ring, which two-shot overtakes at (20 - 10) us / (1/10 - 1/20) GB/s =
 * 200,000 bytes; one more channel, half a percent faster in the end, is not worth a change. The tree, measured from 1 MiB on, is slow
 * there, and its line says nothing of small sizes. */
static const double TWOSHOT_FROM = 200e3;

static struct tr_chooser *make_chooser(void)
{
    struct tr_curve curves[] = {
        line(TR_ALGORITHM_ONESHOT, TR_PROTOCOL_LL, 1, 2, 1e3, 8, 65536),
        line(TR_ALGORITHM_RING, TR_PROTOCOL_DIRECT, 4, 10, 10, 8, 1 << 26),
        line(TR_ALGORITHM_TWOSHOT, TR_PROTOCOL_DIRECT, 8, 20, 20, 8, 1 << 26),
        line(TR_ALGORITHM_TWOSHOT, TR_PROTOCOL_DIRECT, 9, 20.1, 20.1, 8, 1 << 26),
        line(TR_ALGORITHM_TREE, TR_PROTOCOL_DIRECT, 1, 0, 0.1, 1 << 20, 1 << 26),
    };
    struct tr_chooser *chooser = NULL;
    assert_int_equal(tr_chooser_create(curves, 5, &chooser), TR_OK);
    return chooser;
}

static struct tr_tuning pick(const struct tr_chooser *chooser, double bytes, struct tr_tuning fixed)
{
    assert_true(tr_chooser_pick(chooser, TR_ALLREDUCE, (size_t)bytes, true, &fixed));
    return fixed;
}

static void test_fastest_at_each_size(void **state)
{
    (void)state;
    struct tr_chooser *chooser = make_chooser();
    struct tr_tuning any = {0};
    assert_int_equal(pick(chooser, 0, any).algorithm, TR_ALGORITHM_ONESHOT);
    assert_int_equal(pick(chooser, 8, any).protocol, TR_PROTOCOL_LL);
    assert_int_equal(pick(chooser, 65536, any).algorithm, TR_ALGORITHM_ONESHOT);
    assert_int_equal(pick(chooser, 1.1 * 65536, any).algorithm, TR_ALGORITHM_RING);
    assert_int_equal(pick(chooser, 0.9 * TWOSHOT_FROM, any).algorithm, TR_ALGORITHM_RING);
    assert_int_equal(pick(chooser, 1.2 * TWOSHOT_FROM, any).algorithm, TR_ALGORITHM_TWOSHOT);
    assert_int_equal(pick(chooser, 1.2 * TWOSHOT_FROM, any).channels, 8);
    assert_int_equal(pick(chooser, 1e15, any).algorithm, TR_ALGORITHM_TWOSHOT);
    tr_chooser_free(chooser);
}

static void test_rows_are_few(void **state)
{
    (void)state;
    struct tr_chooser *chooser = make_chooser();
    const struct tr_choice *rows;
    assert_int_equal(tr_chooser_rows(chooser, TR_ALLREDUCE, true, &rows), 3);
    assert_int_equal(rows[0].max_bytes, 65536);
    assert_true(rows[2].max_bytes == SIZE_MAX);
    assert_int_equal(tr_chooser_rows(chooser, TR_ALLREDUCE, false, &rows), 0);
    tr_chooser_free(chooser);
}

/* Nothing was measured from 64 bytes to 1 MiB: what won below stays until a curve begins. */
static void test_a_gap_does_not_end_the_table(void **state)
{
    (void)state;
    struct tr_curve curves[] = {
        line(TR_ALGORITHM_ONESHOT, TR_PROTOCOL_LL, 1, 2, 1, 8, 64),
        line(TR_ALGORITHM_TWOSHOT, TR_PROTOCOL_DIRECT, 1, 10, 10, 1 << 20, 1 << 24),
    };
    struct tr_chooser *chooser = NULL;
    struct tr_tuning any = {0};
    assert_int_equal(tr_chooser_create(curves, 2, &chooser), TR_OK);
    assert_int_equal(pick(chooser, 8, any).algorithm, TR_ALGORITHM_ONESHOT);
    assert_int_equal(pick(chooser, 4096, any).algorithm, TR_ALGORITHM_ONESHOT);
    assert_int_equal(pick(chooser, 1 << 21, any).algorithm, TR_ALGORITHM_TWOSHOT);
    assert_int_equal(pick(chooser, 1 << 26, any).algorithm, TR_ALGORITHM_TWOSHOT);
    tr_chooser_free(chooser);
}

static void test_what_is_fixed_stays(void **state)
{
    (void)state;
    struct tr_chooser *chooser = make_chooser();
    struct tr_tuning ring = {.algorithm = TR_ALGORITHM_RING}, direct = {.protocol = TR_PROTOCOL_DIRECT};
    struct tr_tuning nine = {.channels = 9}, dtree = {.algorithm = TR_ALGORITHM_DTREE};
    assert_int_equal(pick(chooser, 8, ring).protocol, TR_PROTOCOL_DIRECT);
    assert_int_equal(pick(chooser, 8, ring).channels, 4);
    assert_int_equal(pick(chooser, 8, direct).algorithm, TR_ALGORITHM_RING);
    assert_int_equal(pick(chooser, 8, nine).algorithm, TR_ALGORITHM_TWOSHOT);
    assert_false(tr_chooser_pick(chooser, TR_ALLREDUCE, 8, true, &dtree));
    assert_int_equal(dtree.protocol, TR_PROTOCOL_AUTO);
    assert_false(tr_chooser_pick(chooser, TR_ALLGATHER, 8, true, &direct));
    assert_false(tr_chooser_pick(chooser, TR_ALLREDUCE, 8, false, &direct));
    tr_chooser_free(chooser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastest_at_each_size),
        cmocka_unit_test(test_rows_are_few),
        cmocka_unit_test(test_a_gap_does_not_end_the_table),
        cmocka_unit_test(test_what_is_fixed_stays),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

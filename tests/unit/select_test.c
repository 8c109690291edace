/* select_test.c - AUTO always resolves to something that serves the call, and never overrides what the caller fixed. */
#include "collectives/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const enum tr_memory memories[] = {TR_MEMORY_HOST, TR_MEMORY_CUDA};
static const int sizes[] = {1, 2, 3, 8, 9, 64, 255};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void check_resolved(const struct tr_comm *comm, enum tr_collective collective, size_t bytes, bool registered,
                           struct tr_tuning wanted)
{
    struct tr_tuning got = wanted;
    assert_int_equal(tr_select(comm, collective, bytes, registered, &got), TR_OK);
    assert_true(got.algorithm != TR_ALGORITHM_AUTO && got.protocol != TR_PROTOCOL_AUTO && got.channels > 0);
    if (wanted.algorithm == TR_ALGORITHM_AUTO)
        assert_true(tr_schedule_exists(collective, got.algorithm));
    else
        assert_int_equal(got.algorithm, wanted.algorithm);
    if (wanted.protocol != TR_PROTOCOL_AUTO)
        assert_int_equal(got.protocol, wanted.protocol);
    else if (comm->memory == TR_MEMORY_HOST)
        assert_int_not_equal(got.protocol, TR_PROTOCOL_LL128);
    if (wanted.channels)
        assert_int_equal(got.channels, wanted.channels);
    else if (comm->memory == TR_MEMORY_HOST)
        assert_int_equal(got.channels, 1);
}

static void check_tunings(const struct tr_comm *comm, enum tr_collective collective, size_t bytes, bool registered)
{
    for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
        for (int p = 0; p < TR_PROTOCOL_COUNT; p++)
            for (int channels = 0; channels < 8; channels += 7)
                check_resolved(comm, collective, bytes, registered,
                               (struct tr_tuning){(enum tr_algorithm)a, (enum tr_protocol)p, channels});
}

static void test_every_call_resolves(void **state)
{
    (void)state;
    for (size_t m = 0; m < LENGTH(memories); m++)
        for (size_t n = 0; n < LENGTH(sizes); n++)
            for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
                for (int shift = 0; shift < 40; shift++) {
                    struct tr_comm comm = {.memory = memories[m], .size = sizes[n]};
                    check_tunings(&comm, (enum tr_collective)c, ((size_t)1 << shift) - 1, shift % 2);
                    check_tunings(&comm, (enum tr_collective)c, (size_t)1 << shift, shift % 2);
                }
}

static void test_short_is_low_latency(void **state)
{
    (void)state;
    for (size_t m = 0; m < LENGTH(memories); m++) {
        struct tr_comm comm = {.memory = memories[m], .size = 2};
        struct tr_tuning tuning = {0};
        assert_int_equal(tr_select(&comm, TR_ALLREDUCE, 8, false, &tuning), TR_OK);
        assert_int_equal(tuning.algorithm, TR_ALGORITHM_ONESHOT);
        assert_int_equal(tuning.protocol, TR_PROTOCOL_LL);
    }
}

static void test_long_is_direct(void **state)
{
    (void)state;
    for (size_t m = 0; m < LENGTH(memories); m++)
        for (int c = 0; c < TR_COLLECTIVE_COUNT; c++) {
            struct tr_comm comm = {.memory = memories[m], .size = 8};
            struct tr_tuning tuning = {0};
            assert_int_equal(tr_select(&comm, (enum tr_collective)c, (size_t)1 << 30, true, &tuning), TR_OK);
            assert_int_equal(tuning.protocol, TR_PROTOCOL_DIRECT);
        }
}

static void test_too_many_ranks(void **state)
{
    (void)state;
    struct tr_comm comm = {.memory = TR_MEMORY_HOST, .size = 256};
    struct tr_tuning tuning = {0};
    assert_int_equal(tr_select(&comm, TR_ALLREDUCE, 8, false, &tuning), TR_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_resolves),
        cmocka_unit_test(test_short_is_low_latency),
        cmocka_unit_test(test_long_is_direct),
        cmocka_unit_test(test_too_many_ranks),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

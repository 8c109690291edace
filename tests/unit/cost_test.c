/*
 * cost_test.c - the coefficients that cost.c takes from schedules are those of the closed forms, for every algorithm and
 * many numbers of ranks; and what pieces, slots and remote references add.
 */
#include "model/cost.h"
#include "model/workload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 100, 128, 255};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static int floor_log2(int n)
{
    int log = 0;
    while (n >> (log + 1))
        log++;
    return log;
}

static int ceil_log2(int n)
{
    return n > 1 ? floor_log2(n - 1) + 1 : 0;
}

/* The cost of a vector of n chunks that are all alike, in one piece; bytes as multiples of the vector's. */
static struct tr_cost cost_of(enum tr_collective collective, enum tr_algorithm algorithm, int n, bool remote)
{
    const struct tr_schedule_spec spec = {
        .collective = collective, .algorithm = algorithm, .nranks = n, .remote = remote};
    struct tr_schedule *schedule;
    struct tr_cost cost;
    size_t segment = 1024 * 4, count = segment * (size_t)n;
    assert_int_equal(tr_schedule_build(&spec, &schedule), TR_OK);
    struct tr_layout layout = tr_schedule_layout(schedule);
    struct tr_geometry geometry =
        tr_layout_whole(&layout, collective, collective == TR_ALLREDUCE ? count : segment, 4, 1);
    assert_int_equal(tr_cost_of(schedule, &geometry, 4, &cost), TR_OK);
    tr_schedule_free(schedule);
    cost.link_bytes /= (double)count * 4;
    cost.reduced_bytes /= (double)count * 4;
    return cost;
}

static void check(enum tr_collective collective, enum tr_algorithm algorithm, int n, double messages, double link,
                  double reduced)
{
    for (int remote = 0; remote < 2; remote++) {
        struct tr_cost cost = cost_of(collective, algorithm, n, remote);
        bool right = cost.messages == messages && fabs(cost.link_bytes - link) <= 1e-9 * n &&
                     fabs(cost.reduced_bytes - reduced) <= 1e-9 * n;
        if (!right)
            fail_msg("%s, %s, %d ranks, remote %d: %g messages, %g m, %g m; not %g, %g, %g",
                     tr_collective_name(collective), tr_algorithm_name(algorithm), n, remote, cost.messages,
                     cost.link_bytes, cost.reduced_bytes, messages, link, reduced);
    }
}

static void test_ring(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        double n = ranks[i], share = (n - 1) / n;
        check(TR_ALLREDUCE, TR_ALGORITHM_RING, ranks[i], 2 * (n - 1), 2 * share, share);
        check(TR_REDUCE_SCATTER, TR_ALGORITHM_RING, ranks[i], n - 1, share, share);
        check(TR_ALLGATHER, TR_ALGORITHM_RING, ranks[i], n - 1, share, 0);
    }
}

static void test_oneshot(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        double n = ranks[i], share = (n - 1) / n, one = n > 1;
        check(TR_ALLREDUCE, TR_ALGORITHM_ONESHOT, ranks[i], one, n - 1, n - 1);
        check(TR_REDUCE_SCATTER, TR_ALGORITHM_ONESHOT, ranks[i], one, share, share);
        check(TR_ALLGATHER, TR_ALGORITHM_ONESHOT, ranks[i], one, share, 0);
    }
}

/* Registered, its single step reads from everybody and writes to everybody: two messages as well. */
static void test_twoshot(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        double n = ranks[i], share = (n - 1) / n;
        check(TR_ALLREDUCE, TR_ALGORITHM_TWOSHOT, ranks[i], n > 1 ? 2 : 0, 2 * share, share);
    }
}

static void test_recursive(void **state)
{
    (void)state;
    for (int n = 1; n <= 128; n *= 2) {
        double share = (n - 1.0) / n;
        check(TR_ALLREDUCE, TR_ALGORITHM_RECURSIVE, n, 2 * floor_log2(n), 2 * share, share);
        check(TR_REDUCE_SCATTER, TR_ALGORITHM_RECURSIVE, n, floor_log2(n), share, share);
        check(TR_ALLGATHER, TR_ALGORITHM_RECURSIVE, n, floor_log2(n), share, 0);
    }
}

/* Other numbers of ranks pay for the fold: more latency than the power of two below, but no linear term. */
static void test_recursive_folds(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        int n = ranks[i], log = floor_log2(n);
        struct tr_cost cost = cost_of(TR_ALLREDUCE, TR_ALGORITHM_RECURSIVE, n, false);
        bool power = n == 1 << log;
        assert_true(cost.messages == 2 * log + (power ? 0 : 3));
        assert_true(power || (cost.link_bytes > 2 * (n - 1.0) / n && cost.link_bytes < 4));
    }
}

/* An inner rank receives the vector from two children and, later, the result: 3 m, and reduces 2 m. */
static void test_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        int n = ranks[i];
        double link = n > 4 ? 3 : (const double[]){0, 0, 1, 2, 2}[n], reduced = n > 2 ? 2 : n - 1;
        check(TR_ALLREDUCE, TR_ALGORITHM_TREE, n, 2 * floor_log2(n), link, reduced);
    }
}

/* Two trees of half of the vector each: from 4 ranks on every rank sends 2 m and reduces m. */
static void test_dtree(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        int n = ranks[i];
        struct tr_cost cost = cost_of(TR_ALLREDUCE, TR_ALGORITHM_DTREE, n, false);
        assert_true(cost.messages == 2 * ceil_log2(n));
        if (n >= 4)
            check(TR_ALLREDUCE, TR_ALGORITHM_DTREE, n, 2 * ceil_log2(n), 2, 1);
    }
}

/* ---- Steps, pieces ----------------------------------------------------------------------------------------------- */

static void test_steps(void **state)
{
    (void)state;
    assert_true(cost_of(TR_ALLREDUCE, TR_ALGORITHM_TWOSHOT, 8, true).steps == 1);
    assert_true(cost_of(TR_ALLREDUCE, TR_ALGORITHM_TWOSHOT, 8, false).steps == 7 + 1 + 7);
    assert_true(cost_of(TR_ALLREDUCE, TR_ALGORITHM_ONESHOT, 8, false).steps == 2);
    assert_true(cost_of(TR_ALLREDUCE, TR_ALGORITHM_RECURSIVE, 8, false).steps == 4 + 2 + 1 + 1 + 2 + 4 + 1);
}

static struct tr_workload all_reduce(enum tr_algorithm algorithm, size_t bytes)
{
    return (struct tr_workload){.memory = TR_MEMORY_HOST,
                                .collective = TR_ALLREDUCE,
                                .algorithm = algorithm,
                                .protocol = TR_PROTOCOL_DIRECT,
                                .channels = 1,
                                .nranks = 8,
                                .bytes = bytes,
                                .element_bytes = 4};
}

/* A vector that does not fit the slots goes in pieces: no more bytes, but more messages, since slots are used again. */
static void test_pieces_cost_messages(void **state)
{
    (void)state;
    struct tr_workload small = all_reduce(TR_ALGORITHM_RING, 65536), large = all_reduce(TR_ALGORITHM_RING, 64 << 20);
    struct tr_cost few, many;
    assert_int_equal(tr_workload_cost(&small, &few), TR_OK);
    assert_int_equal(tr_workload_cost(&large, &many), TR_OK);
    assert_true(few.messages == 14 && many.messages > 14 * 2);
    assert_true(many.steps > 10 * few.steps);
    assert_true(fabs(many.link_bytes / (64 << 20) - 1.75) < 1e-9);
}

static void test_what_fits_no_protocol(void **state)
{
    (void)state;
    struct tr_workload w = all_reduce(TR_ALGORITHM_ONESHOT, 64 << 20);
    struct tr_cost cost;
    w.protocol = TR_PROTOCOL_LL;
    assert_int_equal(tr_workload_cost(&w, &cost), TR_ERR_UNSUPPORTED);
    w.protocol = TR_PROTOCOL_AUTO;
    assert_int_equal(tr_workload_cost(&w, &cost), TR_ERR_ARGUMENT);
    w = all_reduce(TR_ALGORITHM_MPI, 8);
    assert_int_equal(tr_workload_cost(&w, &cost), TR_ERR_UNSUPPORTED);
    w = all_reduce(TR_ALGORITHM_RING, 8);
    w.channels = 0;
    assert_int_equal(tr_workload_cost(&w, &cost), TR_ERR_ARGUMENT);
}

/* The mailboxes' capacities on a GPU: LL carries half of its bytes, LL128 15 of 16. */
static void test_capacity_on_a_gpu(void **state)
{
    (void)state;
    struct tr_workload w = all_reduce(TR_ALGORITHM_ONESHOT, 64 << 10);
    struct tr_schedule *schedule;
    struct tr_geometry geometry;
    w.memory = TR_MEMORY_CUDA;
    w.protocol = TR_PROTOCOL_LL;
    w.channels = 16;
    assert_int_equal(tr_workload_build(&w, &schedule, &geometry), TR_OK);
    assert_int_equal(geometry.channels, 16);
    assert_int_equal(geometry.npieces, 1);
    tr_schedule_free(schedule);
    w.bytes = 128 << 10; /* 7 slots of 1 MiB / 16, half of it payload: 4608 bytes a channel, 16 of them 73728 */
    assert_int_equal(tr_workload_build(&w, &schedule, &geometry), TR_ERR_UNSUPPORTED);
    w.protocol = TR_PROTOCOL_LL128;
    assert_int_equal(tr_workload_build(&w, &schedule, &geometry), TR_OK);
    tr_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_oneshot),
        cmocka_unit_test(test_twoshot),
        cmocka_unit_test(test_recursive),
        cmocka_unit_test(test_recursive_folds),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_dtree),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_pieces_cost_messages),
        cmocka_unit_test(test_what_fits_no_protocol),
        cmocka_unit_test(test_capacity_on_a_gpu),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

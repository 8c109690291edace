/*
 * simulate_test.c - simulated times against times worked out by hand, for a few ranks, pieces and links; and the
 * bookkeeping behind them: what was sent arrives, in order, and a schedule that deadlocks is refused.
 */
#include "model/simulate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Inside a node 1 us and 1 GB/s, so that 1000 bytes take 1 us; between nodes 5 us and 0.5 GB/s. */
static const struct tr_sim_machine machine = {
    .ranks_per_node = 64, .links_per_node = 1, .inside = {1, 1}, .between = {5, 0.5}, .gamma_gbps = 2, .launch_us = 10};

static struct tr_schedule *build(struct tr_schedule_spec spec)
{
    struct tr_schedule *schedule;
    assert_int_equal(tr_schedule_build(&spec, &schedule), TR_OK);
    return schedule;
}

/* Of `count` bytes in one piece (chunks are then multiples of 128 bytes), or in pieces of `tile` bytes of a chunk. */
static double simulate_cut(struct tr_schedule_spec spec, size_t count, size_t tile, const struct tr_sim_machine *m,
                           tr_sim_observer *observe, void *context)
{
    struct tr_schedule *schedule = build(spec);
    struct tr_layout layout = tr_schedule_layout(schedule);
    struct tr_geometry g = tr_layout_whole(&layout, spec.collective, count, 1, 1);
    if (tile) {
        g.tile = tile;
        g.npieces = (uint32_t)((g.stride + tile - 1) / tile);
    }
    double us = NAN;
    assert_int_equal(tr_simulate(schedule, &g, 1, m, observe, context, &us), TR_OK);
    tr_schedule_free(schedule);
    return us;
}

static double simulate(struct tr_schedule_spec spec, size_t count, const struct tr_sim_machine *m)
{
    return simulate_cut(spec, count, 0, m, NULL, NULL);
}

#define ASSERT_US(got, wanted)                                                 \
    do {                                                                       \
        double got_us = (got), wanted_us = (wanted);                           \
        if (!(fabs(got_us - wanted_us) <= 1e-9))                               \
            fail_msg("%s takes %.12g us, not %.12g", #got, got_us, wanted_us); \
    } while (0)

static struct tr_schedule_spec spec_of(enum tr_collective collective, enum tr_algorithm algorithm, int nranks)
{
    return (struct tr_schedule_spec){.collective = collective, .algorithm = algorithm, .nranks = nranks};
}

/* launch + alpha + m / beta */
static void test_message(void **state)
{
    (void)state;
    ASSERT_US(simulate(spec_of(TR_SENDRECV, TR_ALGORITHM_ONESHOT, 2), 3000, &machine), 10 + 1 + 3);
    ASSERT_US(simulate(spec_of(TR_SENDRECV, TR_ALGORITHM_ONESHOT, 2), 0, &machine), 10 + 1);
    struct tr_sim_machine two_nodes = machine;
    two_nodes.ranks_per_node = 1;
    ASSERT_US(simulate(spec_of(TR_SENDRECV, TR_ALGORITHM_ONESHOT, 2), 3000, &two_nodes), 10 + 5 + 6);
}

/* One rank copies. */
static void test_alone(void **state)
{
    (void)state;
    ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 1), 3000, &machine), 10);
}

/* 2 ranks, chunks of 1280 bytes: two messages after each other, one of them reduced. */
static void test_ring_of_two(void **state)
{
    (void)state;
    ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 2), 2560, &machine), 10 + 2 * (1 + 1.28) + 0.64);
    /* two pieces of 640 bytes: the second begins when the first is over */
    ASSERT_US(simulate_cut(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 2), 2560, 640, &machine, NULL, NULL),
              10 + 2 * (2 * (1 + 0.64) + 0.32));
    /* registered: the first piece's result need not have arrived when the second begins, only have left */
    struct tr_schedule_spec registered = spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 2);
    registered.remote = true;
    ASSERT_US(simulate_cut(registered, 2560, 640, &machine, NULL, NULL), 10 + 2 * (2 * (1 + 0.64) + 0.32) - 1);
}

/* 3 ranks, chunks of 1280 bytes, the last of 512: the time is that of a chunk of full length. */
static void test_ring_of_three(void **state)
{
    (void)state;
    ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 3), 3 * 1280, &machine),
              10 + 4 * (1 + 1.28) + 2 * 0.64);
    ASSERT_US(simulate(spec_of(TR_ALLGATHER, TR_ALGORITHM_RING, 3), 1280, &machine), 10 + 2 * (1 + 1.28));
    ASSERT_US(simulate(spec_of(TR_REDUCE_SCATTER, TR_ALGORITHM_RING, 3), 1280, &machine),
              10 + 2 * (1 + 1.28) + 2 * 0.64);
}

/* The overhead is a rank's, once for every chunk of a step: ring, 3 steps of one; recursive reduce-scatter of 4, a step of
 * two chunks, one of one, and one that ends it. */
static void test_overhead(void **state)
{
    (void)state;
    struct tr_sim_machine m = machine;
    m.overhead_us = 0.25;
    m.gamma_gbps = INFINITY;
    ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 2), 2560, &m), 10 + 2 * (1 + 1.28) + 3 * 0.25);
    ASSERT_US(simulate(spec_of(TR_REDUCE_SCATTER, TR_ALGORITHM_RECURSIVE, 4), 1000, &m),
              10 + (1 + 2 * 1) + (1 + 1) + (2 + 1 + 1) * 0.25);
}

/* 3 ranks each send the vector to two: the port out is shared, the latency is not. */
static void test_oneshot(void **state)
{
    (void)state;
    ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_ONESHOT, 3), 1000, &machine), 10 + 2 * 1 + 1 + 2 * 0.5);
    /* reduce: two messages meet at the root's port in */
    ASSERT_US(simulate(spec_of(TR_REDUCE, TR_ALGORITHM_ONESHOT, 3), 1000, &machine), 10 + 1 + 2 * 1 + 2 * 0.5);
}

/* Registered, each step reads two chunks and writes two. */
static void test_registered_twoshot(void **state)
{
    (void)state;
    struct tr_schedule_spec spec = spec_of(TR_ALLREDUCE, TR_ALGORITHM_TWOSHOT, 3);
    spec.remote = true;
    double one_way = 1 + 2 * 1.28;
    ASSERT_US(simulate(spec, 3 * 1280, &machine), 10 + one_way + 2 * 0.64 + one_way);
}

/* Tree of 3: both children's sums meet at the root, which then sends the result twice. */
static void test_tree(void **state)
{
    (void)state;
    ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_TREE, 3), 1000, &machine),
              10 + (1 + 2 * 1) + 2 * 0.5 + (2 * 1 + 1));
}

/* Broadcast along a chain of 3 in two pieces of 500 bytes: the second piece follows 0.5 us behind. */
static void test_pipeline(void **state)
{
    (void)state;
    ASSERT_US(simulate_cut(spec_of(TR_BROADCAST, TR_ALGORITHM_RING, 3), 1000, 500, &machine, NULL, NULL),
              10 + 2 * (1 + 0.5) + 0.5);
}

/* A slot is used again only when it has been read: a send of 4 pieces through 2 slots to a reader that is held up. */
static void test_slots(void **state)
{
    (void)state;
    struct tr_schedule_spec spec = spec_of(TR_REDUCE, TR_ALGORITHM_RING, 2);
    struct tr_sim_machine slow = machine;
    slow.gamma_gbps = 0.1; /* 100 bytes: 1 us, and 0.1 us on the wire */
    /* 6 pieces, depth 4: the reader takes 1 us each from 10 + 1.1 on; the sender is never what it waits for */
    ASSERT_US(simulate_cut(spec, 600, 100, &slow, NULL, NULL), 10 + 1.1 + 6);
    /* with one copy of the slot each piece waits for the reading of the one before, then travels */
    struct tr_schedule *schedule = build(spec);
    schedule->depth = 1;
    struct tr_geometry g = {.total = 600, .stride = 600, .tile = 100, .npieces = 6, .channels = 1};
    double us = NAN;
    assert_int_equal(tr_simulate(schedule, &g, 1, &slow, NULL, NULL, &us), TR_OK);
    tr_schedule_free(schedule);
    ASSERT_US(us, 10 + 6 * (1.1 + 1));
}

/* Two nodes of 2 ranks: in an all-gather by one-shot every rank sends its 1000 bytes to 1 rank inside, 2 outside. */
static void test_links(void **state)
{
    (void)state;
    struct tr_schedule_spec spec = spec_of(TR_ALLGATHER, TR_ALGORITHM_ONESHOT, 4);
    struct tr_sim_machine m = machine;
    m.ranks_per_node = 2;
    m.links_per_node = 1; /* 4 messages of 2 us through one link */
    ASSERT_US(simulate(spec, 1000, &m), 10 + 4 * 2 + 5);
    m.links_per_node =
        2; /* 2 messages a link, but both ranks of a node send to the same link first: it gets 2, idle 0 */
    ASSERT_US(simulate(spec, 1000, &m), 10 + 2 * 2 + 5 + 2);
    m.links_per_node = 1;
    m.between.beta_gbps = INFINITY;
    ASSERT_US(simulate(spec, 1000, &m), 10 + 5);
}

struct tally {
    int steps, messages;
    double last;
    bool ordered;
};

static void count(const struct tr_sim_event *event, void *context)
{
    struct tally *tally = context;
    tally->steps += event->kind == TR_SIM_STEP;
    tally->messages += event->kind != TR_SIM_STEP;
    tally->last = fmax(tally->last, event->end_us);
    tally->ordered =
        tally->ordered && event->start_us <= event->end_us && (event->peer < 0) == (event->kind == TR_SIM_STEP);
}

/* Every step and message of every piece is shown, and the last to end is the end. */
static void check_observed(struct tr_schedule_spec spec, int pieces)
{
    struct tr_schedule *schedule = build(spec);
    int steps = 0, messages = 0;
    for (int r = 0; r < spec.nranks; r++)
        for (int i = 0; i < schedule->ranks[r].nsteps; i++) {
            const struct tr_step *step = &schedule->ranks[r].steps[i];
            steps++;
            for (int k = 0; k < step->nsrc + step->ndst; k++)
                messages += schedule->refs[step->ref + k].rank != r;
        }
    tr_schedule_free(schedule);
    struct tr_sim_machine m = machine;
    m.ranks_per_node = 3;
    struct tally tally = {.ordered = true};
    size_t chunk = 128 * (size_t)pieces, nchunks = (size_t)spec.nranks;
    double us = simulate_cut(spec, spec.collective == TR_ALLREDUCE ? chunk * nchunks : chunk, 0, &m, count, &tally);
    assert_int_equal(tally.steps, steps);
    assert_int_equal(tally.messages, messages);
    assert_true(tally.ordered);
    ASSERT_US(tally.last, us);
}

static void test_observed(void **state)
{
    (void)state;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
            for (int remote = 0; remote < 2; remote++)
                for (int n = 2; n <= 9; n++) {
                    struct tr_schedule_spec spec = spec_of((enum tr_collective)c, (enum tr_algorithm)a, n);
                    spec.remote = remote;
                    if (tr_schedule_exists(spec.collective, spec.algorithm) && (c != TR_SENDRECV || n == 2))
                        check_observed(spec, 2);
                }
}

/* With a latency alone, and a bandwidth alone, a ring of any size is what the theory says, on one level. */
static void test_theory(void **state)
{
    (void)state;
    struct tr_sim_machine m = machine;
    m.ranks_per_node = TR_SIM_MAX_RANKS;
    for (int n = 2; n <= 512; n += n < 20 ? 1 : 123) {
        m.launch_us = 0;
        m.inside = (struct tr_level){1, INFINITY};
        m.gamma_gbps = INFINITY;
        ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, n), 128 * (size_t)n, &m), 2 * (n - 1));
        m.inside = (struct tr_level){0, 0.128};
        ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, n), 128 * (size_t)n, &m), 2 * (n - 1));
        ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_TWOSHOT, n), 128 * (size_t)n, &m), 2 * (n - 1));
        m.inside = (struct tr_level){0, INFINITY};
        m.gamma_gbps = 0.128;
        ASSERT_US(simulate(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, n), 128 * (size_t)n, &m), n - 1);
    }
}

/* A ring in which a rank reads before anybody has written. */
static void test_deadlock(void **state)
{
    (void)state;
    struct tr_schedule *schedule = build(spec_of(TR_ALLREDUCE, TR_ALGORITHM_RING, 3));
    for (int r = 0; r < 3; r++) {
        struct tr_step *steps = schedule->ranks[r].steps, first = steps[0];
        steps[0] = steps[1];
        steps[1] = first;
    }
    struct tr_layout layout = tr_schedule_layout(schedule);
    struct tr_geometry g = tr_layout_whole(&layout, TR_ALLREDUCE, 3000, 1, 1);
    double us = -1;
    assert_int_equal(tr_simulate(schedule, &g, 1, &machine, NULL, NULL, &us), TR_ERR_INTERNAL);
    assert_non_null(strstr(tr_last_error(), "deadlocks"));
    assert_true(us < 0);
    tr_schedule_free(schedule);
}

static void test_refused(void **state)
{
    (void)state;
    struct tr_schedule *schedule = build(spec_of(TR_ALLREDUCE, TR_ALGORITHM_TREE, 4));
    struct tr_geometry g = {.total = 100, .stride = 100, .tile = 100, .npieces = 1, .channels = 1};
    struct tr_sim_machine wrong[] = {machine, machine, machine, machine, machine, machine};
    wrong[0].ranks_per_node = 0;
    wrong[1].ranks_per_node = 2;
    wrong[1].links_per_node = 0;
    wrong[2].inside.alpha_us = -1;
    wrong[3].inside.beta_gbps = 0;
    wrong[4].gamma_gbps = NAN;
    wrong[5].launch_us = NAN;
    double us;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tr_simulate(schedule, &g, 1, &wrong[i], NULL, NULL, &us), TR_ERR_ARGUMENT);
    tr_schedule_free(schedule);
    schedule = build(spec_of(TR_ALLREDUCE, TR_ALGORITHM_TREE, TR_SIM_MAX_RANKS + 1));
    assert_int_equal(tr_simulate(schedule, &g, 1, &machine, NULL, NULL, &us), TR_ERR_ARGUMENT);
    tr_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_ring_of_two),
        cmocka_unit_test(test_ring_of_three),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_oneshot),
        cmocka_unit_test(test_registered_twoshot),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_observed),
        cmocka_unit_test(test_theory),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * plan_test.c - the derivation refuses schedules that break the rules, and programs say what their plans say.
 */
#include "collectives/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* ---- Schedules by hand: two ranks, rank 0's IN to rank 1's OUT through its slots, unless said otherwise ---------- */

static struct tr_schedule *empty(enum tr_collective collective, int nchunks)
{
    struct tr_schedule *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->spec = (struct tr_schedule_spec){.collective = collective, .nranks = 2};
    s->nchunks = nchunks;
    s->depth = 1;
    s->ranks = calloc(2, sizeof *s->ranks);
    assert_non_null(s->ranks);
    return s;
}

static void emit(struct tr_schedule *s, int rank, struct tr_ref src, struct tr_ref dst)
{
    tr_emit_copy(s, rank, 0, src, dst);
}

static const struct tr_ref in0 = {0, TR_IN, 0}, in1 = {1, TR_IN, 0}, out0 = {0, TR_OUT, 0}, out1 = {1, TR_OUT, 0};
static const struct tr_ref box0 = {0, TR_BOX, 0}, box1 = {1, TR_BOX, 0};

static void expect_refusal(struct tr_schedule *s, enum tr_protocol protocol, const char *words)
{
    struct tr_plan *plan = NULL;
    assert_int_equal(tr_plan_build(s, protocol, &plan), TR_ERR_ARGUMENT);
    assert_null(plan);
    if (!strstr(tr_last_error(), words))
        fail_msg("expected \"%s\" in: %s", words, tr_last_error());
    tr_schedule_free(s);
}

static void test_message_never_read(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    emit(s, 0, in0, box1);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "never read");
}

static void test_message_never_written(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    emit(s, 1, box1, out1);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "never written");
}

static void test_other_mailbox(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    emit(s, 0, in0, box0);
    emit(s, 1, box0, out1);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "another rank's mailbox");
}

static void test_two_writers(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_ALLREDUCE, 1);
    emit(s, 0, in0, box1);
    emit(s, 1, in1, box1);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "two writers");
}

static void test_slot_reused_under_ll(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    for (int i = 0; i < 2; i++) {
        emit(s, 0, in0, box1);
        emit(s, 1, box1, out1);
    }
    expect_refusal(s, TR_PROTOCOL_LL128, "unique");
}

static void test_deadlock(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    emit(s, 0, box0, out0);
    emit(s, 0, in0, box1);
    emit(s, 1, box1, out1);
    emit(s, 1, in1, box0);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "deadlock");
}

static void test_write_to_in(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_ALLREDUCE, 1);
    emit(s, 0, in0, in0);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "IN is never written");
}

static void test_not_remote(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    emit(s, 0, in0, out1);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "not remote");
}

/* In place the first step destroys what the second reads. */
static void test_in_place(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_ALLREDUCE, 1);
    emit(s, 1, in1, box0);
    emit(s, 0, box0, out0);
    emit(s, 0, in0, box1);
    emit(s, 1, box1, out1);
    expect_refusal(s, TR_PROTOCOL_DIRECT, "in place");
}

static void test_past_the_end(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_REDUCE_SCATTER, 2);
    emit(s, 0, in0, (struct tr_ref){0, TR_OUT, 1});
    expect_refusal(s, TR_PROTOCOL_DIRECT, "past the end");
}

static void test_protocol(void **state)
{
    (void)state;
    expect_refusal(empty(TR_ALLREDUCE, 1), TR_PROTOCOL_AUTO, "protocol");
}

/* ---- What the waits look like ------------------------------------------------------------------------------------ */

/* One slot, one message a piece: the reader waits for the writer's piece, the writer for the reader of `depth` before.
 * */
static void test_one_slot(void **state)
{
    (void)state;
    struct tr_schedule *s = empty(TR_SENDRECV, 1);
    s->depth = 3;
    emit(s, 0, in0, box1);
    emit(s, 1, box1, out1);
    struct tr_plan *plan;
    assert_int_equal(tr_plan_build(s, TR_PROTOCOL_DIRECT, &plan), TR_OK);
    const struct tr_sync *write = &plan->ranks[0].steps[0], *read = &plan->ranks[1].steps[0];
    assert_int_equal(write->nwaits, 1);
    assert_int_equal(write->waits[0].delta, 3);
    assert_int_equal(read->nwaits, 1);
    assert_int_equal(read->waits[0].delta, 0);
    assert_int_equal(plan->ranks[0].exit.nwaits, 1);
    assert_int_equal(plan->ranks[0].exit.waits[0].step, TR_ENTRY);
    assert_int_equal(plan->ranks[1].exit.nwaits, 0);
    assert_int_equal(plan->ranks[1].entry.nsignals, 1);
    assert_int_equal(plan->ranks[0].entry.nsignals, 0);
    tr_plan_free(plan);
    tr_schedule_free(s);
}

/* Under LL the message is its own signal. */
static void test_ll_waits_for_messages_alone(void **state)
{
    (void)state;
    struct tr_schedule *s;
    struct tr_plan *plan;
    struct tr_schedule_spec spec = {
        .collective = TR_ALLREDUCE, .algorithm = TR_ALGORITHM_RING, .nranks = 5, .unique = true};
    assert_int_equal(tr_schedule_build(&spec, &s), TR_OK);
    assert_int_equal(tr_plan_build(s, TR_PROTOCOL_LL, &plan), TR_OK);
    for (int r = 0; r < 5; r++) {
        assert_int_equal(plan->ranks[r].exit.nwaits, 0);
        for (int i = 0; i < s->ranks[r].nsteps; i++)
            assert_int_equal(plan->ranks[r].steps[i].nwaits, 0);
    }
    tr_plan_free(plan);
    tr_schedule_free(s);
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

static void expect_waits(const struct tr_plan *plan, const struct tr_program_wait *waits, int n,
                         const struct tr_sync *sync)
{
    assert_int_equal(n, sync->nwaits);
    for (int i = 0; i < n; i++) {
        const struct tr_wait *want = &sync->waits[i];
        assert_int_equal(waits[i].rank, want->rank);
        assert_int_equal(waits[i].entry, want->step == TR_ENTRY);
        assert_int_equal(waits[i].delta, want->delta);
        if (want->step == TR_ENTRY)
            continue;
        int lag = plan->schedule->ranks[want->rank].steps[want->step].lag;
        assert_int_equal(waits[i].offset, (lag - want->delta) * plan->stride + want->step);
    }
}

static void expect_signals(const uint8_t *signals, int n, const struct tr_sync *sync)
{
    assert_int_equal(n, sync->nsignals);
    for (int i = 0; i < n; i++)
        assert_int_equal(signals[i], sync->signals[i]);
}

static void expect_refs(const struct tr_program_ref *refs, const struct tr_ref *want, int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(refs[i].rank, want[i].rank);
        assert_int_equal(refs[i].buffer, want[i].buffer);
        assert_int_equal(refs[i].index, want[i].index);
    }
}

static void expect_step(const struct tr_program *p, int i, const struct tr_plan *plan)
{
    const struct tr_program_step *step = &tr_program_steps(p)[i];
    const struct tr_step *want = &plan->schedule->ranks[p->rank].steps[i];
    const struct tr_sync *sync = &plan->ranks[p->rank].steps[i];
    assert_int_equal(step->chunk, want->chunk);
    assert_int_equal(step->span, want->span);
    assert_int_equal(step->lag, want->lag);
    assert_int_equal(step->final, want->final);
    assert_int_equal(step->nsrc, want->nsrc);
    assert_int_equal(step->ndst, want->ndst);
    expect_refs(tr_program_refs(p) + step->ref, &plan->schedule->refs[want->ref], want->nsrc + want->ndst);
    expect_waits(plan, tr_program_waits(p) + step->wait, step->nwait, sync);
    expect_signals(tr_program_signals(p) + step->signal, step->nsignal, sync);
}

static void expect_program(const struct tr_plan *plan, int rank)
{
    struct tr_program *p;
    assert_int_equal(tr_program_build(plan, rank, &p), TR_OK);
    assert_int_equal(p->rank, rank);
    assert_int_equal(p->nranks, plan->schedule->spec.nranks);
    assert_int_equal(p->nchunks, plan->schedule->nchunks);
    assert_int_equal(p->nslots, plan->schedule->nslots);
    assert_int_equal(p->depth, plan->schedule->depth);
    assert_int_equal(p->max_lag, plan->schedule->max_lag);
    assert_int_equal(p->stride, plan->stride);
    assert_int_equal(p->remote, tr_schedule_is_remote(plan->schedule));
    assert_int_equal(p->bytes % 8, 0);
    assert_int_equal((uintptr_t)tr_program_waits(p) % _Alignof(struct tr_program_wait), 0);
    assert_true((const char *)tr_program_signals(p) + p->nsignals <= (const char *)p + p->bytes);
    assert_int_equal(p->nsteps, plan->schedule->ranks[rank].nsteps);
    for (int i = 0; i < p->nsteps; i++)
        expect_step(p, i, plan);
    expect_signals(tr_program_signals(p) + p->entry_signal, p->entry_nsignal, &plan->ranks[rank].entry);
    expect_waits(plan, tr_program_waits(p) + p->exit_wait, p->exit_nwait, &plan->ranks[rank].exit);
    free(p);
}

static void expect_programs(const struct tr_schedule_spec *spec)
{
    struct tr_schedule *s;
    struct tr_plan *plan, *copy;
    assert_int_equal(tr_schedule_build(spec, &s), TR_OK);
    assert_int_equal(tr_plan_build(s, TR_PROTOCOL_DIRECT, &plan), TR_OK);
    copy = tr_plan_copy(plan, s);
    assert_non_null(copy);
    tr_plan_free(plan);
    for (int rank = 0; rank < spec->nranks; rank++)
        expect_program(copy, rank);
    tr_plan_free(copy);
    tr_schedule_free(s);
}

static void test_programs(void **state)
{
    (void)state;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
            for (int n = c == TR_SENDRECV ? 2 : 1; n <= (c == TR_SENDRECV ? 2 : 9); n++)
                for (int remote = 0; remote < 2; remote++) {
                    if (!tr_schedule_exists((enum tr_collective)c, (enum tr_algorithm)a))
                        continue;
                    struct tr_schedule_spec spec = {.collective = (enum tr_collective)c,
                                                    .algorithm = (enum tr_algorithm)a,
                                                    .nranks = n,
                                                    .remote = remote};
                    expect_programs(&spec);
                }
}

static void test_program_limits(void **state)
{
    (void)state;
    struct tr_schedule *s;
    struct tr_plan *plan;
    struct tr_program *p = NULL;
    struct tr_schedule_spec spec = {.collective = TR_BROADCAST, .algorithm = TR_ALGORITHM_RING, .nranks = 256};
    assert_int_equal(tr_schedule_build(&spec, &s), TR_OK);
    assert_int_equal(tr_plan_build(s, TR_PROTOCOL_DIRECT, &plan), TR_OK);
    assert_int_equal(tr_program_build(plan, 0, &p), TR_ERR_UNSUPPORTED);
    assert_int_equal(tr_program_build(plan, 256, &p), TR_ERR_ARGUMENT);
    assert_null(p);
    tr_plan_free(plan);
    tr_plan_free(NULL);
    tr_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_never_read),
        cmocka_unit_test(test_message_never_written),
        cmocka_unit_test(test_other_mailbox),
        cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_slot_reused_under_ll),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_write_to_in),
        cmocka_unit_test(test_not_remote),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_past_the_end),
        cmocka_unit_test(test_protocol),
        cmocka_unit_test(test_one_slot),
        cmocka_unit_test(test_ll_waits_for_messages_alone),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_program_limits),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}

/*
 * schedule_test.c - building, copying and asking about schedules, and what every algorithm keeps to.
 */
#include "collectives/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 17 };

static struct tr_schedule *build(struct tr_schedule_spec spec)
{
    struct tr_schedule *schedule = NULL;
    if (tr_schedule_build(&spec, &schedule) != TR_OK)
        fail_msg("%s", tr_last_error());
    return schedule;
}

typedef void look_fn(const struct tr_schedule *s);

/* Every schedule of 1 .. MAX_RANKS ranks, the last rank as root. */
static void for_every_schedule(look_fn *look)
{
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
            for (int n = c == TR_SENDRECV ? 2 : 1; n <= (c == TR_SENDRECV ? 2 : MAX_RANKS); n++)
                for (int variant = 0; variant < 4; variant++) {
                    if (!tr_schedule_exists((enum tr_collective)c, (enum tr_algorithm)a))
                        continue;
                    bool rooted = c == TR_BROADCAST || c == TR_REDUCE;
                    struct tr_schedule *s = build((struct tr_schedule_spec){.collective = (enum tr_collective)c,
                                                                            .algorithm = (enum tr_algorithm)a,
                                                                            .nranks = n,
                                                                            .root = rooted ? n - 1 : 0,
                                                                            .remote = variant & 1,
                                                                            .unique = variant & 2});
                    look(s);
                    tr_schedule_free(s);
                }
}

/* ---- The builder ------------------------------------------------------------------------------------------------- */

static void expect_refusal(struct tr_schedule_spec spec, enum tr_status want, const char *word)
{
    struct tr_schedule *untouched = NULL;
    assert_int_equal(tr_schedule_build(&spec, &untouched), want);
    assert_null(untouched);
    assert_non_null(strstr(tr_last_error(), word));
}

static void test_refusals(void **state)
{
    (void)state;
    struct tr_schedule_spec good = {.collective = TR_BROADCAST, .algorithm = TR_ALGORITHM_TREE, .nranks = 4};
    struct tr_schedule_spec bad = good;
    bad.nranks = 0;
    expect_refusal(bad, TR_ERR_ARGUMENT, "0");
    bad = good;
    bad.root = 4;
    expect_refusal(bad, TR_ERR_ARGUMENT, "root 4");
    bad.root = -1;
    expect_refusal(bad, TR_ERR_ARGUMENT, "root -1");
    bad = good;
    bad.algorithm = TR_ALGORITHM_RECURSIVE;
    expect_refusal(bad, TR_ERR_UNSUPPORTED, "broadcast");
    bad.algorithm = TR_ALGORITHM_NCCL;
    expect_refusal(bad, TR_ERR_UNSUPPORTED, "nccl");
    bad = good;
    bad.collective = TR_SENDRECV;
    bad.algorithm = TR_ALGORITHM_ONESHOT;
    expect_refusal(bad, TR_ERR_ARGUMENT, "2 ranks");
}

static void test_table(void **state)
{
    (void)state;
    assert_true(tr_schedule_exists(TR_ALLREDUCE, TR_ALGORITHM_RING));
    assert_true(tr_schedule_exists(TR_SENDRECV, TR_ALGORITHM_ONESHOT));
    assert_false(tr_schedule_exists(TR_REDUCE_SCATTER, TR_ALGORITHM_TREE));
    assert_false(tr_schedule_exists(TR_ALLREDUCE, TR_ALGORITHM_AUTO));
    assert_false(tr_schedule_exists(TR_ALLREDUCE, TR_ALGORITHM_MPI));
    assert_false(tr_schedule_exists(TR_COLLECTIVE_COUNT, TR_ALGORITHM_RING));
    assert_false(tr_schedule_exists(TR_ALLREDUCE, TR_ALGORITHM_COUNT));
}

static void test_free_nothing(void **state)
{
    (void)state;
    tr_schedule_free(NULL);
}

static void expect_equal(const struct tr_schedule *a, const struct tr_schedule *b)
{
    assert_int_equal(a->nchunks, b->nchunks);
    assert_int_equal(a->nslots, b->nslots);
    assert_int_equal(a->depth, b->depth);
    assert_int_equal(a->max_lag, b->max_lag);
    assert_int_equal(a->nrefs, b->nrefs);
    assert_ptr_not_equal(a->refs, b->refs);
    assert_memory_equal(a->refs, b->refs, (size_t)a->nrefs * sizeof *a->refs);
    for (int r = 0; r < a->spec.nranks; r++) {
        assert_int_equal(a->ranks[r].nsteps, b->ranks[r].nsteps);
        for (int i = 0; i < a->ranks[r].nsteps; i++) {
            const struct tr_step *x = &a->ranks[r].steps[i], *y = &b->ranks[r].steps[i];
            assert_ptr_not_equal(x, y);
            assert_int_equal(x->chunk, y->chunk);
            assert_int_equal(x->nsrc, y->nsrc);
            assert_int_equal(x->ref, y->ref);
        }
    }
}

static void look_copy(const struct tr_schedule *s)
{
    struct tr_schedule *copy = tr_schedule_copy(s);
    assert_non_null(copy);
    expect_equal(s, copy);
    tr_schedule_free(copy);
}

static void test_copy(void **state)
{
    (void)state;
    for_every_schedule(look_copy);
}

/* A copy takes more steps and references, and the original does not see them. */
static void test_copy_grows(void **state)
{
    (void)state;
    struct tr_schedule *s =
        build((struct tr_schedule_spec){.collective = TR_ALLREDUCE, .algorithm = TR_ALGORITHM_RING, .nranks = 3});
    struct tr_schedule *copy = tr_schedule_copy(s);
    assert_non_null(copy);
    int nsteps = s->ranks[1].nsteps, nrefs = s->nrefs;
    tr_emit_copy(copy, 1, 0, (struct tr_ref){1, TR_IN, 0}, (struct tr_ref){1, TR_OUT, 0});
    assert_int_equal(copy->ranks[1].nsteps, nsteps + 1);
    assert_int_equal(copy->nrefs, nrefs + 2);
    assert_int_equal(s->ranks[1].nsteps, nsteps);
    assert_int_equal(s->nrefs, nrefs);
    tr_schedule_free(copy);
    tr_schedule_free(s);
}

/* ---- What every schedule keeps to -------------------------------------------------------------------------------- */

/* User memory of other ranks is touched only where the spec allows it. */
static void look_remote(const struct tr_schedule *s)
{
    if (!s->spec.remote)
        assert_false(tr_schedule_is_remote(s));
}

static void test_remote(void **state)
{
    (void)state;
    for_every_schedule(look_remote);
    struct tr_schedule_spec spec = {
        .collective = TR_ALLREDUCE, .algorithm = TR_ALGORITHM_TWOSHOT, .nranks = 4, .remote = true};
    struct tr_schedule *s = build(spec);
    assert_true(tr_schedule_is_remote(s));
    tr_schedule_free(s);
}

static int writes_to_slot(const struct tr_schedule *s, int owner, int slot)
{
    int writes = 0;
    for (int r = 0; r < s->spec.nranks; r++)
        for (int i = 0; i < s->ranks[r].nsteps; i++) {
            const struct tr_step *step = &s->ranks[r].steps[i];
            const struct tr_ref *dst = &s->refs[step->ref + step->nsrc];
            for (int k = 0; k < step->ndst; k++)
                writes += dst[k].buffer == TR_BOX && dst[k].rank == owner && dst[k].index <= slot &&
                          slot < dst[k].index + step->span;
        }
    return writes;
}

/* With `unique`, which the LL protocols need, a slot takes one message; no slot lies past nslots. */
static void look_unique(const struct tr_schedule *s)
{
    for (int owner = 0; owner < s->spec.nranks && s->spec.unique && s->spec.nranks <= 6; owner++)
        for (int slot = 0; slot < s->nslots; slot++)
            assert_in_range(writes_to_slot(s, owner, slot), 0, 1);
}

static void test_unique(void **state)
{
    (void)state;
    for_every_schedule(look_unique);
}

static void test_indices(void **state)
{
    (void)state;
    struct tr_schedule s = {.spec = {.collective = TR_ALLGATHER}};
    assert_int_equal(tr_in_index(&s, 5), 0);
    assert_int_equal(tr_out_index(&s, 5), 5);
    s.spec.collective = TR_REDUCE_SCATTER;
    assert_int_equal(tr_in_index(&s, 5), 5);
    assert_int_equal(tr_out_index(&s, 5), 0);
    s.spec.collective = TR_ALLREDUCE;
    assert_int_equal(tr_in_index(&s, 5), 5);
    assert_int_equal(tr_out_index(&s, 5), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_table),      cmocka_unit_test(test_free_nothing),
        cmocka_unit_test(test_copy),     cmocka_unit_test(test_copy_grows), cmocka_unit_test(test_remote),
        cmocka_unit_test(test_unique),   cmocka_unit_test(test_indices),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}

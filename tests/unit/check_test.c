/*
 * check_test.c - every schedule that the library can build is proved: each algorithm for each collective that it
 * serves, with and without registered buffers, under LL and direct, for 1..64 ranks and every root.
 */
#include "collectives/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

enum { MAX_RANKS = 64 };

struct subject {
    enum tr_collective collective;
    enum tr_algorithm algorithm;
    char name[96];
};

static void prove(const struct tr_schedule_spec *spec)
{
    enum tr_protocol protocol = spec->unique ? TR_PROTOCOL_LL : TR_PROTOCOL_DIRECT;
    if (tr_check_spec(spec, protocol) != TR_OK)
        fail_msg("%d ranks, root %d, remote %d, %s: %s", spec->nranks, spec->root, spec->remote,
                 tr_protocol_name(protocol), tr_last_error());
}

static void prove_all_roots(struct tr_schedule_spec spec)
{
    bool rooted = spec.collective == TR_BROADCAST || spec.collective == TR_REDUCE;
    for (spec.root = 0; spec.root < (rooted ? spec.nranks : 1); spec.root++)
        prove(&spec);
}

static void test_subject(void **state)
{
    const struct subject *subject = *state;
    bool pair = subject->collective == TR_SENDRECV;
    for (int nranks = pair ? 2 : 1; nranks <= (pair ? 2 : MAX_RANKS); nranks++)
        for (int variant = 0; variant < 4; variant++)
            prove_all_roots((struct tr_schedule_spec){.collective = subject->collective,
                                                      .algorithm = subject->algorithm,
                                                      .nranks = nranks,
                                                      .remote = variant & 1,
                                                      .unique = variant & 2});
}

int main(void)
{
    static struct subject subjects[TR_COLLECTIVE_COUNT * TR_ALGORITHM_COUNT];
    static struct CMUnitTest tests[TR_COLLECTIVE_COUNT * TR_ALGORITHM_COUNT];
    size_t n = 0;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int a = 0; a < TR_ALGORITHM_COUNT; a++) {
            if (!tr_schedule_exists((enum tr_collective)c, (enum tr_algorithm)a))
                continue;
            struct subject *s = &subjects[n];
            s->collective = (enum tr_collective)c;
            s->algorithm = (enum tr_algorithm)a;
            snprintf(s->name, sizeof s->name, "%s %s is proved for every rank count and root",
                     tr_algorithm_name(s->algorithm), tr_collective_name(s->collective));
            tests[n++] = (struct CMUnitTest){.name = s->name, .test_func = test_subject, .initial_state = s};
        }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("check", tests, n, NULL, NULL); /* the macro takes no array that is filled in part */
}

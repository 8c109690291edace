/* p2p_turns_test.c - every ordered pair has its turn, once, and the ranks of a turn agree on who is paired with whom. */
#include "bench/p2p_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_RANKS = 33 };

static void check_turns(int nranks, bool together)
{
    static int seen[MOST_RANKS][MOST_RANKS];
    memset(seen, 0, sizeof seen);
    for (int turn = 0; turn < p2p_turn_count(nranks, together); turn++)
        for (int rank = 0; rank < nranks; rank++) {
            int from = -1, to = -1, other_from = -1, other_to = -1;
            if (!p2p_turn_pair(nranks, together, turn, rank, &from, &to))
                continue;
            assert_true(from != to && from >= 0 && to >= 0 && from < nranks && to < nranks);
            assert_true(rank == from || rank == to);
            assert_true(p2p_turn_pair(nranks, together, turn, rank == from ? to : from, &other_from, &other_to));
            assert_true(other_from == from && other_to == to);
            seen[from][to] += rank == from;
        }
    for (int from = 0; from < nranks; from++)
        for (int to = 0; to < nranks; to++)
            assert_int_equal(seen[from][to], from != to);
}

static void test_every_pair_once(void **state)
{
    (void)state;
    for (int nranks = 2; nranks <= MOST_RANKS; nranks++) {
        check_turns(nranks, false);
        check_turns(nranks, true);
    }
}

/* As few turns as can be, and a turn either all upwards or all downwards: tests both ways run in the former alone. */
static void test_together(void **state)
{
    (void)state;
    for (int nranks = 2; nranks <= MOST_RANKS; nranks++) {
        int turns = p2p_turn_count(nranks, true);
        assert_int_equal(turns, nranks % 2 ? 2 * nranks : 2 * (nranks - 1));
        for (int turn = 0; turn < turns; turn++) {
            int active = 0;
            for (int rank = 0; rank < nranks; rank++) {
                int from, to;
                if (!p2p_turn_pair(nranks, true, turn, rank, &from, &to))
                    continue;
                active++;
                assert_int_equal(from < to, turn % 2 == 0);
            }
            assert_int_equal(active, nranks - nranks % 2);
        }
    }
}

static void test_shuffle(void **state)
{
    (void)state;
    int order[100], again[100], differ = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        bool seen[100] = {false};
        p2p_shuffle(seed, order, 100);
        p2p_shuffle(seed, again, 100);
        assert_memory_equal(order, again, sizeof order);
        for (int i = 0; i < 100; i++)
            seen[order[i]] = true;
        for (int i = 0; i < 100; i++)
            assert_true(seen[i]);
        p2p_shuffle(seed + 1, again, 100);
        differ += memcmp(order, again, sizeof order) != 0;
    }
    assert_int_equal(differ, 50);
}

/* Each of 4 things comes first about as often as the others. */
static void test_shuffle_is_fair(void **state)
{
    (void)state;
    int first[4] = {0}, order[4];
    for (uint64_t seed = 0; seed < 4000; seed++) {
        p2p_shuffle(p2p_mix(7, seed), order, 4);
        first[order[0]]++;
    }
    for (int i = 0; i < 4; i++)
        assert_in_range(first[i], 850, 1150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_once),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_shuffle),
        cmocka_unit_test(test_shuffle_is_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* stress.c - random calls of all kinds in a row. */
#include "stress.h"
#include "batch.h"
#include "matrix.h"
#include "memory.h"
#include "tap.h"

#include <mpi.h>
#include <stdlib.h>

enum { CALLS_A_POINT = 24, LONGEST = 20000, FIRST_SEED = 20240607 };

/* A few calls after the first ones the 32-bit counter wraps. */
static const unsigned FIRST_EPOCH = 0xfffffff0u;

/* The same on every rank: xorshift64* (Vigna 2016). */
static uint64_t state;

static unsigned random_below(unsigned n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545f4914f6cdd1du >> 32) * n >> 32);
}

static int random_of(const int *list)
{
    unsigned n = 0;
    while (list[n] >= 0)
        n++;
    return list[random_below(n)];
}

static struct test_case random_case(bool reducing_only, int nranks)
{
    struct test_case c = {0};
    do {
        c.collective = (enum tr_collective)random_below(nranks > 1 ? TR_COLLECTIVE_COUNT : TR_SENDRECV);
        c.tuning.algorithm = (enum tr_algorithm)random_below(MATRIX_ALGORITHMS);
    } while (!matrix_serves(c.tuning.algorithm, c.collective) || (reducing_only && !batch_reduces(c.collective)));
    c.tuning.protocol = (enum tr_protocol)random_of(memory_protocols);
    c.tuning.channels = random_of(memory_channels);
    c.root = batch_is_rooted(c.collective) ? (int)random_below((unsigned)nranks) : 0;
    c.in_place = c.collective != TR_SENDRECV && random_below(2);
    c.in_shift = random_below(4);
    c.out_shift = random_below(4);
    return c;
}

/* Short ones mostly. */
static size_t random_count(void)
{
    static const unsigned limits[] = {4, 40, 400, 4000, LONGEST};
    return random_below(limits[random_below(5)]);
}

/* Values as they are rounded are run twice and compared (batch.h). */
static bool run_random_point(struct batch *batch, int nranks)
{
    struct data data = {(enum tr_datatype)random_below(TR_DATATYPE_COUNT), (enum tr_op)random_below(TR_OP_COUNT),
                        VALUES_EXACT, nranks, random_below(1u << 30)};
    if (reference_is_float(data.datatype))
        data.values = (enum values)random_below(3);
    size_t count = random_count();
    bool going = batch_begin_point(batch, &data, count, count / (1 + random_below(3)));
    bool registered = random_below(2);
    for (int i = 0; i < CALLS_A_POINT && going; i++) {
        struct test_case c = random_case(data.op != 0, nranks);
        c.registered = registered;
        batch_add(batch, &c);
    }
    return batch_end_point(batch) && going;
}

/* All failures of a batch as one. */
static struct tally sum_up(const struct batch *batch)
{
    struct tally sum = {0};
    for (int collective = 0; collective < TR_COLLECTIVE_COUNT; collective++)
        for (int algorithm = 0; algorithm < MATRIX_ALGORITHMS; algorithm++) {
            const struct tally *tally =
                batch_tally(batch, (enum tr_collective)collective, (enum tr_algorithm)algorithm);
            size_t calls = sum.calls + tally->calls, failures = sum.failures + tally->failures;
            if (tally->failures && !sum.failures)
                sum = *tally;
            sum.calls = calls;
            sum.failures = failures;
        }
    return sum;
}

static unsigned long setting(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

void stress_run(unsigned long calls)
{
    calls = setting("TREERING_TEST_CALLS", calls);
    unsigned long seed = setting("TREERING_TEST_SEED", FIRST_SEED);
    struct tr_config config = {.memory = memory_kind(), .timeout_s = 60, .no_nccl = 1, .first_epoch = FIRST_EPOCH};
    struct tr_comm *comm;
    double start = tap_seconds();
    state = seed ? seed : 1;
    if (tr_comm_create(MPI_COMM_WORLD, &config, &comm) != TR_OK)
        tap_bail_out("tr_comm_create: %s", tr_last_error());
    int nranks = tr_comm_size(comm);
    struct batch *batch = batch_new(MPI_COMM_WORLD, comm, (LONGEST + 8) * 8 * (size_t)nranks);
    batch_set_delays(batch, (unsigned)seed);
    bool going = true;
    for (unsigned long i = 0; i < calls && going; i += CALLS_A_POINT)
        going = run_random_point(batch, nranks);
    struct tally tally = sum_up(batch);
    tap_test(tally.failures == 0, tally.why, "%zu random calls on %d ranks from seed %lu in %.1f s", tally.calls,
             nranks, seed, tap_seconds() - start);
    batch_delete(batch);
    tr_comm_destroy(comm);
}

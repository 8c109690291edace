/*
 * matrix.c - the loops over everything that a collective call can be.
 *
 * Where it is cheap the product is full; elsewhere, coverage rotates: of the 8 variants (in place, registered, aligned)
 * each call takes some, other ones from one point to the next, so that over the points of one sub-communicator each
 * algorithm and protocol meets each variant. Roots, shifts and channels rotate everywhere.
 *
 *     values    counts                      datatypes   operations  variants
 *     exact     0, 1, n-1, n, n+1           all         all         8 (n <= 3), 4 (n = N), 2
 *     exact     7919                        all         all         1
 *     real      67, 7919                    floats      all         2, 1   (each call twice, same bytes wanted)
 *     special   11 n + 1                    floats      all         2
 *     exact     2^20 + 3                    2 of 7      1 of 5      1; one protocol (direct or auto) a call
 *     real      2^20 + 3                    1 of 4      sum         likewise
 *
 * An all-gather, broadcast and message know no operation and are run with the first. A count is that of the call,
 * except that with 2^20 + 3 a rank's segment of a reduce-scatter or all-gather is about that over n.
 */
#include "matrix.h"
#include "batch.h"
#include "memory.h"
#include "tap.h"

#include <mpi.h>
#include <stdio.h>

#define BIT(x) (1u << (x))

enum { VARIANTS = 8, PRIME = 7919, SHORT = 67, LARGE = (1 << 20) + 3 };
static const double TIMEOUT_S = 60;

/* What serves what, sets of BIT(enum tr_algorithm). All others must refuse. */
enum {
    ROOTED = BIT(TR_ALGORITHM_AUTO) | BIT(TR_ALGORITHM_RING) | BIT(TR_ALGORITHM_TREE) | BIT(TR_ALGORITHM_DTREE) |
             BIT(TR_ALGORITHM_ONESHOT) | BIT(TR_ALGORITHM_TWOSHOT),
    PER_RANK =
        BIT(TR_ALGORITHM_AUTO) | BIT(TR_ALGORITHM_RING) | BIT(TR_ALGORITHM_ONESHOT) | BIT(TR_ALGORITHM_RECURSIVE),
};
static const unsigned served[TR_COLLECTIVE_COUNT] = {
    [TR_ALLREDUCE] = ROOTED | BIT(TR_ALGORITHM_RECURSIVE),
    [TR_REDUCE_SCATTER] = PER_RANK,
    [TR_ALLGATHER] = PER_RANK,
    [TR_BROADCAST] = ROOTED,
    [TR_REDUCE] = ROOTED,
    [TR_SENDRECV] = BIT(TR_ALGORITHM_AUTO) | BIT(TR_ALGORITHM_ONESHOT),
};

/* A sub-communicator under test. */
struct run {
    struct batch *batch;
    int nranks;
    bool is_last; /* all ranks of the launch */
    unsigned points;
};

/* How much of the product a point takes. */
struct coverage {
    int variants;      /* of VARIANTS */
    bool one_protocol; /* AUTO or DIRECT in turn, instead of all */
};

bool matrix_serves(enum tr_algorithm algorithm, enum tr_collective collective)
{
    return served[collective] & BIT(algorithm);
}

/* ---- Cases of a point -------------------------------------------------------------------------------------------- */

static int list_length(const int *list)
{
    int n = 0;
    while (list[n] >= 0)
        n++;
    return n;
}

static void add_variant(const struct run *run, struct test_case c, unsigned variant, unsigned turn)
{
    c.in_place = variant & 1;
    c.in_shift = variant & 2 ? 1 : 0;
    c.out_shift = variant & 2 ? 1 + turn % 2 : 0;
    if (batch_is_rooted(c.collective))
        c.root = (int)((turn + variant) % (unsigned)run->nranks);
    c.tuning.channels = memory_channels[(turn / 8 + variant) % (unsigned)list_length(memory_channels)];
    if (c.in_place && c.collective == TR_SENDRECV)
        return;
    batch_add(run->batch, &c);
}

/* The cases of a point with either kind of buffer. A variant's third bit is `registered`. */
static void add_cases(const struct run *run, const struct coverage *coverage, bool registered, bool reducing_only)
{
    unsigned turn = run->points * 5;
    for (int collective = 0; collective < TR_COLLECTIVE_COUNT; collective++) {
        if ((reducing_only && !batch_reduces((enum tr_collective)collective)) ||
            (collective == TR_SENDRECV && run->nranks == 1))
            continue;
        for (int algorithm = 0; algorithm < MATRIX_ALGORITHMS; algorithm++)
            for (const int *protocol = memory_protocols; *protocol >= 0; protocol++) {
                struct test_case c = {.collective = (enum tr_collective)collective,
                                      .registered = registered,
                                      .tuning = {(enum tr_algorithm)algorithm, (enum tr_protocol) * protocol, 0}};
                if (!matrix_serves(c.tuning.algorithm, c.collective))
                    continue;
                turn++;
                int wanted = (turn + run->points) % 2 ? TR_PROTOCOL_AUTO : TR_PROTOCOL_DIRECT;
                if (coverage->one_protocol && *protocol != wanted)
                    continue;
                for (int v = 0; v < coverage->variants; v++) {
                    unsigned variant = (turn + (unsigned)v * 3) % VARIANTS;
                    if ((variant >> 2 & 1) == registered)
                        add_variant(run, c, variant, turn);
                }
            }
    }
}

static bool run_point(struct run *run, struct data data, size_t count, size_t segment, struct coverage coverage)
{
    data.seed = ++run->points;
    bool going = batch_begin_point(run->batch, &data, count, segment);
    for (int registered = 0; registered < 2 && going; registered++)
        add_cases(run, &coverage, registered, data.op != 0);
    return batch_end_point(run->batch) && going;
}

/* ---- Points ------------------------------------------------------------------------------------------------------ */

static bool run_small_counts(struct run *run, const struct data *data)
{
    size_t n = (size_t)run->nranks;
    struct coverage coverage = {n <= 3 ? VARIANTS : run->is_last ? VARIANTS / 2 : VARIANTS / 4, false};
    const size_t counts[] = {0, 1, n - 1, n, n + 1};
    bool going = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && going; i++) {
        bool had = false;
        for (size_t j = 0; j < i; j++)
            had = had || counts[j] == counts[i];
        going = had || run_point(run, *data, counts[i], counts[i], coverage);
    }
    return going;
}

static bool run_floats(struct run *run, struct data data)
{
    data.values = VALUES_REAL;
    bool going = run_point(run, data, SHORT, SHORT, (struct coverage){2, false}) &&
                 run_point(run, data, PRIME, PRIME, (struct coverage){1, false});
    data.values = VALUES_SPECIAL;
    size_t special = SPECIAL_PATTERNS * (size_t)run->nranks + 1;
    return going && run_point(run, data, special, special, (struct coverage){2, false});
}

static bool run_large(struct run *run, struct data data)
{
    static const struct coverage thin = {1, true};
    size_t segment = LARGE / (size_t)run->nranks + 3;
    for (int i = 0; i < 2; i++) {
        data.values = VALUES_EXACT;
        data.datatype = (enum tr_datatype)((run->nranks * 2 + i * 5) % TR_DATATYPE_COUNT);
        data.op = i ? (enum tr_op)(run->nranks % TR_OP_COUNT) : TR_SUM;
        if (!run_point(run, data, LARGE, segment, thin))
            return false;
    }
    static const enum tr_datatype floats[] = {TR_F32, TR_BF16, TR_F64, TR_F16};
    data = (struct data){floats[run->nranks % 4], TR_SUM, VALUES_REAL, run->nranks, 0};
    return run_point(run, data, LARGE, segment, thin);
}

static void run_points(struct run *run)
{
    bool going = true;
    for (int datatype = 0; datatype < TR_DATATYPE_COUNT && going; datatype++)
        for (int op = 0; op < TR_OP_COUNT && going; op++) {
            struct data data = {(enum tr_datatype)datatype, (enum tr_op)op, VALUES_EXACT, run->nranks, 0};
            going = run_small_counts(run, &data) && run_point(run, data, PRIME, PRIME, (struct coverage){1, false});
            if (going && reference_is_float(data.datatype))
                going = run_floats(run, data);
        }
    if (going)
        run_large(run, (struct data){.nranks = run->nranks});
}

/* ---- Sub-communicators ------------------------------------------------------------------------------------------- */

/* Whether every algorithm that does not serve a collective says so. `why` gets the first that does not. */
static bool check_refusals(struct tr_comm *comm, char *why, size_t bytes)
{
    for (int collective = 0; collective < TR_COLLECTIVE_COUNT; collective++)
        for (int algorithm = 1; algorithm < MATRIX_ALGORITHMS; algorithm++) {
            struct tr_tuning tuning = {.algorithm = (enum tr_algorithm)algorithm}, resolved;
            tr_comm_set_tuning(comm, &tuning);
            if (collective == TR_SENDRECV && tr_comm_size(comm) == 1)
                continue;
            enum tr_status status =
                tr_comm_resolve(comm, (enum tr_collective)collective, 1, TR_F32, TR_SUM, 0, &resolved);
            bool right = matrix_serves(tuning.algorithm, (enum tr_collective)collective)
                             ? status == TR_OK && resolved.algorithm == tuning.algorithm
                             : status == TR_ERR_UNSUPPORTED;
            if (right)
                continue;
            snprintf(why, bytes, "%s by %s: %s (%s)", tr_collective_name((enum tr_collective)collective),
                     tr_algorithm_name(tuning.algorithm), tr_strerror(status), tr_last_error());
            return false;
        }
    return true;
}

static void report(const struct batch *batch, int nranks, bool refuses, const char *why)
{
    static const struct tally outside; /* ranks that are not in the sub-communicator */
    tap_test(refuses, why, "%d ranks: each algorithm serves or refuses as documented", nranks);
    for (int collective = 0; collective < TR_COLLECTIVE_COUNT; collective++)
        for (int algorithm = 0; algorithm < MATRIX_ALGORITHMS; algorithm++) {
            if (!matrix_serves((enum tr_algorithm)algorithm, (enum tr_collective)collective) ||
                (nranks == 1 && collective == TR_SENDRECV))
                continue;
            const struct tally *tally =
                batch ? batch_tally(batch, (enum tr_collective)collective, (enum tr_algorithm)algorithm) : &outside;
            tap_test(tally->failures == 0 && (!batch || tally->calls > 0),
                     tally->failures ? tally->why : "not one call was made", "%d ranks: %s by %s (%zu calls)", nranks,
                     tr_collective_name((enum tr_collective)collective),
                     tr_algorithm_name((enum tr_algorithm)algorithm), tally->calls);
            if (tally->failures > 1)
                tap_note("%zu calls failed on rank 0", tally->failures);
        }
}

/* Where rank 0 spent its time. */
static void report_times(const struct batch *batch, int nranks, double seconds)
{
    const struct batch_times *t = batch_times(batch);
    tap_note("%d ranks: %.1f s, of which calls %.1f, copies %.1f, references %.1f, checks %.1f, comparing ranks %.1f",
             nranks, seconds, t->call, t->copy, t->reference, t->check, t->agree);
}

static void run_ranks(MPI_Comm mpi, int nranks, bool is_last)
{
    double start = tap_seconds();
    struct run run = {.nranks = nranks, .is_last = is_last};
    struct tr_comm *comm = NULL;
    char why[600] = "";
    bool refuses = true;
    if (mpi != MPI_COMM_NULL) {
        struct tr_config config = {.memory = memory_kind(), .timeout_s = TIMEOUT_S, .no_nccl = 1};
        if (tr_comm_create(mpi, &config, &comm) != TR_OK)
            tap_bail_out("tr_comm_create: %s", tr_last_error());
        refuses = check_refusals(comm, why, sizeof why);
        run.batch = batch_new(mpi, comm, ((size_t)LARGE + 4 * (size_t)nranks) * 8);
        run_points(&run);
    }
    tap_meet();
    report(run.batch, nranks, refuses, why);
    if (mpi == MPI_COMM_NULL)
        return;
    report_times(run.batch, nranks, tap_seconds() - start);
    batch_delete(run.batch);
    tr_comm_destroy(comm);
    MPI_Comm_free(&mpi);
}

void matrix_run(void)
{
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int n = 1; n <= size; n++) {
        MPI_Comm mpi;
        MPI_Comm_split(MPI_COMM_WORLD, rank < n ? 0 : MPI_UNDEFINED, rank, &mpi);
        run_ranks(mpi, n, n == size);
    }
}

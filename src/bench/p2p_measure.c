/*
 * p2p_measure.c - rounds of samples over all pairs.
 *
 * In every round all turns come in random order, and in every turn all tests of its pairs; a sample is one batch of
 * transfers, the slower rank's time over their number. Round 0 warms up and finds how many transfers a batch takes. The
 * data of every batch are new and verified after it. Ranks that have no pair in a turn sleep, so that they take no CPU from
 * those that do.
 */
#include "bench/p2p_measure.h"

#include "bench/backend.h"
#include "bench/fail.h"
#include "bench/p2p_fit.h"
#include "bench/p2p_memory.h"
#include "bench/p2p_method.h"
#include "bench/p2p_outlier.h"
#include "bench/p2p_turns.h"
#include "bench/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A batch takes about so long, and has so many transfers at least and at most. */
static const double batch_s = 1e-3;
/* Rounds that nobody asked for end by then. */
static const double patience_s = 80;
enum { LEAST_ROUNDS = 2 };
enum { LEAST_ITERATIONS = 4, MOST_ITERATIONS = 20000, CALIBRATIONS = 6 };

struct measure {
    struct p2p *p2p;
    double *samples;    /* [(to * ntests + test) * options.rounds + round], of pairs from this rank */
    int *iterations[2]; /* of pairs to and from a peer: [peer * ntests + test] */
    int *order;         /* of tests */
    bool failed;        /* on this rank or its partner; nothing is run any more */
};

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void add_test(struct p2p *p2p, const struct p2p_method *method, enum p2p_kind kind, size_t bytes)
{
    if (!method->run[kind] || (method->carries && !method->carries(p2p, method, bytes)))
        return;
    struct p2p_test *tests = realloc(p2p->tests, (size_t)(p2p->ntests + 1) * sizeof *tests);
    if (!tests)
        bench_die(&p2p->bench, "no memory for a list of tests");
    tests[p2p->ntests++] = (struct p2p_test){.method = method, .kind = kind, .bytes = bytes};
    p2p->tests = tests;
}

static void add_sizes(struct p2p *p2p, const struct p2p_method *method, enum p2p_kind kind)
{
    size_t bytes = p2p->options.range.first;
    do
        add_test(p2p, method, kind, bytes);
    while (size_next(&p2p->options.range, bytes, &bytes));
}

void p2p_tests_list(struct p2p *p2p)
{
    for (int m = 0; m < p2p->nmethods; m++) {
        const struct p2p_method *method = &p2p_methods[p2p->methods[m]];
        add_test(p2p, method, P2P_FLAG, 0);
        add_test(p2p, method, P2P_MESSAGE, p2p->options.message);
        add_sizes(p2p, method, P2P_ONE_WAY);
        add_sizes(p2p, method, P2P_TWO_WAY);
    }
    if (p2p->ntests == 0)
        bench_stop(&p2p->bench, BENCH_EXIT_CANNOT,
                   "none of the methods asked for carries messages of these sizes: add methods with -A");
}

/* ---- Data -------------------------------------------------------------------------------------------------------- */

static void must(struct p2p *p2p, bool good)
{
    if (!good)
        bench_die(&p2p->bench, "%s", p2p->bench.backend->error());
}

/* Whole words, and the bytes after them. */
struct data {
    struct pattern words, rest;
    size_t nwords, nrest;
};

static struct data data_of(size_t bytes, uint64_t seed)
{
    struct data data = {.nwords = bytes / 8, .nrest = bytes % 8};
    pattern_init(&data.words, TR_I64, TR_SUM, false, 1, (uint32_t)seed, false);
    pattern_init(&data.rest, TR_U8, TR_SUM, false, 1, (uint32_t)seed, false);
    data.words.segment = data.nwords; /* all of it is the pattern's rank 0's */
    data.rest.segment = data.nrest;
    return data;
}

static int slots_used(const struct p2p *p2p, bool one, int iterations)
{
    int slots = one ? 1 : (int)p2p->nslots;
    return iterations < slots ? iterations : slots;
}

static void fill(struct p2p *p2p, const struct p2p_run *run, uint64_t seed)
{
    const struct bench_backend *backend = p2p->bench.backend;
    struct data data = data_of(run->bytes, seed);
    int slots = slots_used(p2p, run->method->one_origin, run->iterations);
    for (int s = 0; s < slots; s++) {
        char *at = run->method->origin(p2p) + (size_t)s * p2p->slot_bytes;
        must(p2p, backend->fill(&data.words, 0, at, data.nwords) &&
                      backend->fill(&data.rest, 0, at + 8 * data.nwords, data.nrest));
    }
}

static void poison(struct p2p *p2p, const struct p2p_run *run)
{
    int slots = slots_used(p2p, run->method->one_target, run->iterations);
    for (int s = 0; s < slots; s++)
        must(p2p, p2p->bench.backend->poison(run->method->target(p2p) + (size_t)s * p2p->slot_bytes, run->bytes));
}

/* Elements that are not what the peer sent. */
static double count_wrong(struct p2p *p2p, const struct p2p_run *run, uint64_t seed)
{
    const struct bench_backend *backend = p2p->bench.backend;
    struct data data = data_of(run->bytes, seed);
    int slots = slots_used(p2p, run->method->one_target, run->iterations);
    double sum = 0;
    for (int s = 0; s < slots; s++) {
        char *at = run->method->target(p2p) + (size_t)s * p2p->slot_bytes;
        size_t words = 0, rest = 0;
        must(p2p, backend->count_wrong(&data.words, at, data.nwords, &words) &&
                      backend->count_wrong(&data.rest, at + 8 * data.nwords, data.nrest, &rest));
        sum += (double)words + (double)rest;
    }
    return sum;
}

/* ---- One batch --------------------------------------------------------------------------------------------------- */

enum { TAG = 9 };

/* What the ranks of a pair tell each other after a batch. */
struct outcome {
    double seconds, wrong;
    int failed;
};

/* The slower time, all that is wrong, and whether either failed. */
static struct outcome agree(const struct p2p *p2p, int peer, struct outcome mine)
{
    struct outcome other;
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, peer, TAG, &other, sizeof other, MPI_BYTE, peer, TAG, p2p->mpi,
                 MPI_STATUS_IGNORE);
    return (struct outcome){.seconds = fmax(mine.seconds, other.seconds),
                            .wrong = mine.wrong + other.wrong,
                            .failed = mine.failed || other.failed};
}

static void keep(struct p2p *p2p, const struct p2p_test *test, const struct p2p_run *run, enum tr_status status)
{
    char doing[160];
    snprintf(doing, sizeof doing, "%s, %s of %zu bytes, rank %d to rank %d", test->method->name,
             p2p_kind_names[test->kind], test->bytes, run->from, run->to);
    bench_keep_failure(&p2p->bench, status, doing);
}

static struct outcome run_batch(struct measure *m, const struct p2p_test *test, const struct p2p_run *run,
                                uint64_t seed)
{
    struct p2p *p2p = m->p2p;
    bool both = test->kind == P2P_MESSAGE || test->kind == P2P_TWO_WAY;
    bool sends = run->method->origin && (run->forward || both),
         receives = run->method->origin && (!run->forward || both);
    if (receives)
        poison(p2p, run);
    if (sends)
        fill(p2p, run, p2p_mix(seed, (uint64_t)p2p->rank));
    must(p2p, p2p->bench.backend->wait());
    agree(p2p, run->peer, (struct outcome){0});

    struct outcome mine = {0};
    enum tr_status status = run->method->run[test->kind](p2p, run, &mine.seconds);
    keep(p2p, test, run, status);
    mine.failed = status != TR_OK;
    struct outcome all = agree(p2p, run->peer, mine); /* only now is the peer done writing here, and reading */
    m->failed = m->failed || all.failed;
    if (receives && !all.failed)
        all.wrong = count_wrong(p2p, run, p2p_mix(seed, (uint64_t)run->peer));
    return agree(p2p, run->peer, all);
}

/* ---- One test ---------------------------------------------------------------------------------------------------- */

static int *iterations_of(const struct measure *m, const struct p2p_run *run, int test)
{
    return &m->iterations[run->forward][run->peer * m->p2p->ntests + test];
}

/* Run with more and more transfers until a batch is long enough. The same on both ranks, since the time is. */
static void calibrate(struct measure *m, int test, struct p2p_run *run, uint64_t seed)
{
    run->iterations = LEAST_ITERATIONS;
    for (int i = 0; i < CALIBRATIONS && !m->failed; i++) {
        double seconds = run_batch(m, &m->p2p->tests[test], run, p2p_mix(seed, (uint64_t)i)).seconds;
        if (seconds > batch_s / 2 || run->iterations == MOST_ITERATIONS)
            break;
        double factor = fmin(batch_s / fmax(seconds, 1e-9), 20);
        run->iterations = (int)fmin(ceil(run->iterations * factor), MOST_ITERATIONS);
    }
    *iterations_of(m, run, test) = run->iterations;
}

static void sample(struct measure *m, int test, struct p2p_run *run, int round, uint64_t seed)
{
    struct p2p *p2p = m->p2p;
    const struct p2p_test *what = &p2p->tests[test];
    run->iterations = *iterations_of(m, run, test);
    struct outcome outcome = run_batch(m, what, run, seed);
    if (!run->forward || m->failed)
        return;
    size_t at = (size_t)(run->to * p2p->ntests + test);
    struct p2p_result *result = &p2p->results[at];
    result->iterations = run->iterations;
    result->wrong += outcome.wrong;
    result->verified += what->method->origin != NULL;
    m->samples[at * (size_t)p2p->options.rounds + (size_t)(round - 1)] =
        outcome.seconds * 1e6 / run->iterations / (p2p_is_latency(what->kind) ? 2 : 1);
}

static void run_test(struct measure *m, int test, int from, int to, int round)
{
    struct p2p *p2p = m->p2p;
    bool forward = p2p->rank == from;
    struct p2p_run run = {.method = p2p->tests[test].method,
                          .from = from,
                          .to = to,
                          .peer = forward ? to : from,
                          .forward = forward,
                          .bytes = p2p->tests[test].bytes};
    uint64_t seed = p2p_mix(p2p_mix(p2p->options.seed, (uint64_t)round), (uint64_t)(test * p2p->nranks + to));
    if (round == 0)
        calibrate(m, test, &run, seed);
    else
        sample(m, test, &run, round, seed);
}

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

/* Until every rank has done with the turn; who waits long sleeps. Ends the run if any rank failed. */
static void end_turn(struct measure *m)
{
    struct bench *bench = &m->p2p->bench;
    int mine = m->failed, any = 0, done = 0;
    MPI_Request request;
    MPI_Iallreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    for (int looks = 0; !done; looks++) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done || looks < 100)
            continue;
        usleep(100);
        if (!mine)
            bench_keep_failure(bench, tr_comm_async_error(bench->comm), "waiting for the other pairs");
    }
    if (any)
        bench_agree_status(bench, TR_OK, "");
}

/* All pairs make the same test at the same time; who has none sleeps. */
static void meet(const struct p2p *p2p, bool active)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(p2p->mpi, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        if (!active)
            usleep(50);
}

static void run_turn(struct measure *m, int turn, int round)
{
    struct p2p *p2p = m->p2p;
    int from = -1, to = -1;
    bool active = p2p_turn_pair(p2p->nranks, p2p->options.together, turn, p2p->rank, &from, &to);
    watchdog_arm(&p2p->bench, 0, "measuring a pair of ranks");
    p2p_shuffle(p2p_mix(p2p_mix(p2p->options.seed, (uint64_t)round), ~(uint64_t)turn), m->order, p2p->ntests);
    for (int i = 0; i < p2p->ntests; i++) {
        if (p2p->options.together && round > 0)
            meet(p2p, active);
        if (active && !m->failed && p2p_applies(&p2p->tests[m->order[i]], from, to))
            run_test(m, m->order[i], from, to, round);
    }
    end_turn(m);
}

static void show_progress(const struct p2p *p2p, int round, int turn, int turns)
{
    if (p2p->rank == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%s: round %d of %d, turn %d of %d \r", p2p->bench.collective->program, round,
                p2p->options.rounds, turn + 1, turns);
}

static void clear_progress(const struct p2p *p2p)
{
    if (p2p->rank == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%70s\r", "");
}

/* Whether who did not ask for a number of rounds has waited long enough. The same on every rank. Collective. */
static bool is_long(const struct p2p *p2p, double began)
{
    int stop = !p2p->options.rounds_given && p2p->rounds >= LEAST_ROUNDS && MPI_Wtime() - began > patience_s;
    MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return stop;
}

static void run_round(struct measure *m, int round, int *order, int turns)
{
    struct p2p *p2p = m->p2p;
    p2p_shuffle(p2p_mix(p2p->options.seed, (uint64_t)round), order, turns);
    for (int t = 0; t < turns; t++) {
        show_progress(p2p, round, t, turns);
        run_turn(m, order[t], round);
    }
    p2p->rounds = round;
}

static void run_rounds(struct measure *m)
{
    struct p2p *p2p = m->p2p;
    double began = MPI_Wtime();
    int turns = p2p_turn_count(p2p->nranks, p2p->options.together);
    int *order = malloc((size_t)turns * sizeof *order);
    if (!order)
        bench_die(&p2p->bench, "no memory for the order of %d turns", turns);
    for (int round = 0; round <= p2p->options.rounds && !is_long(p2p, began); round++)
        run_round(m, round, order, turns);
    clear_progress(p2p);
    free(order);
    if (p2p->rounds < p2p->options.rounds)
        bench_note(&p2p->bench, "ended after %d rounds, which took long on this machine: --rounds %d takes them all",
                   p2p->rounds, p2p->options.rounds);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static void finish_results(struct measure *m)
{
    struct p2p *p2p = m->p2p;
    for (int to = 0; to < p2p->nranks; to++)
        for (int t = 0; t < p2p->ntests; t++) {
            size_t at = (size_t)(to * p2p->ntests + t);
            struct p2p_result *result = &p2p->results[at];
            if (!p2p_applies(&p2p->tests[t], p2p->rank, to))
                continue;
            result->state = result->wrong > 0 ? P2P_WRONG : P2P_MEASURED;
            result->time = stats_of(&m->samples[at * (size_t)p2p->options.rounds], p2p->rounds);
        }
}

/* Replace this rank's rows of a table by, on rank 0, those of all ranks. */
static void gather(struct p2p *p2p, void **table, size_t bytes)
{
    void *all = p2p->rank == 0 ? malloc(bytes * (size_t)p2p->nranks) : NULL;
    if (p2p->rank == 0 && !all)
        bench_die(&p2p->bench, "no memory for the results of %d ranks", p2p->nranks);
    MPI_Gather(*table, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (p2p->rank == 0) {
        free(*table);
        *table = all;
    }
}

/* Pairs of one transport are peers of each other. */
static void judge_group(struct p2p *p2p, int test, int group, struct p2p_value *values, struct p2p_result **members)
{
    int n = 0;
    for (int from = 0; from < p2p->nranks; from++)
        for (int to = 0; to < p2p->nranks; to++) {
            struct p2p_result *result = p2p_result_of(p2p, from, to, test);
            if (result->state != P2P_MEASURED || p2p_transport_of(p2p, from, to)->group != group)
                continue;
            members[n] = result;
            values[n++] = (struct p2p_value){.x = result->time.median, .low = result->time.ci_low};
        }
    bool told = p2p_find_outliers(values, n);
    for (int i = 0; i < n; i++) {
        members[i]->judged = told;
        members[i]->outlier = values[i].outlier;
        members[i]->score = values[i].score;
        p2p->noutliers += values[i].outlier;
    }
}

static void judge(struct p2p *p2p)
{
    size_t pairs = (size_t)p2p->nranks * (size_t)p2p->nranks;
    struct p2p_value *values = malloc(pairs * sizeof *values);
    struct p2p_result **members = malloc(pairs * sizeof(struct p2p_result *));
    if (!values || !members)
        bench_die(&p2p->bench, "no memory to compare %zu pairs", pairs);
    for (int t = 0; t < p2p->ntests; t++)
        for (int group = 0; group < p2p->ngroups; group++)
            judge_group(p2p, t, group, values, members);
    free(values);
    free(members);
}

static void name_wrong(struct p2p *p2p)
{
    struct bench *bench = &p2p->bench;
    for (int from = 0; p2p->rank == 0 && from < p2p->nranks; from++)
        for (int to = 0; to < p2p->nranks; to++)
            for (int t = 0; t < p2p->ntests && !bench->first_wrong[0]; t++)
                if (p2p_result_of(p2p, from, to, t)->state == P2P_WRONG)
                    snprintf(bench->first_wrong, sizeof bench->first_wrong,
                             "%s, %s of %zu bytes, rank %d to rank %d: %.0f elements differ",
                             p2p->tests[t].method->name, p2p_kind_names[p2p->tests[t].kind], p2p->tests[t].bytes, from,
                             to, p2p_result_of(p2p, from, to, t)->wrong);
    MPI_Bcast(bench->first_wrong, sizeof bench->first_wrong, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void allocate(struct measure *m)
{
    struct p2p *p2p = m->p2p;
    size_t cells = (size_t)p2p->nranks * (size_t)p2p->ntests;
    p2p->results = calloc(cells, sizeof *p2p->results);
    p2p->fits = calloc((size_t)p2p->nranks * (size_t)p2p->nmethods, sizeof *p2p->fits);
    m->samples = calloc(cells * (size_t)p2p->options.rounds, sizeof *m->samples);
    m->iterations[0] = calloc(cells, sizeof **m->iterations);
    m->iterations[1] = calloc(cells, sizeof **m->iterations);
    m->order = calloc((size_t)p2p->ntests, sizeof *m->order);
    if (!p2p->results || !p2p->fits || !m->samples || !m->iterations[0] || !m->iterations[1] || !m->order)
        bench_die(&p2p->bench, "no memory for %zu results", cells);
}

void p2p_measure(struct p2p *p2p)
{
    struct measure m = {.p2p = p2p};
    double began = MPI_Wtime();
    allocate(&m);
    run_rounds(&m);
    p2p->seconds = MPI_Wtime() - began;
    finish_results(&m);
    p2p_fit_all(p2p, m.samples);
    gather(p2p, (void **)&p2p->results, (size_t)p2p->nranks * (size_t)p2p->ntests * sizeof *p2p->results);
    gather(p2p, (void **)&p2p->fits, (size_t)p2p->nranks * (size_t)p2p->nmethods * sizeof *p2p->fits);
    if (p2p->rank == 0)
        judge(p2p);
    name_wrong(p2p);
    free(m.samples);
    free(m.iterations[0]);
    free(m.iterations[1]);
    free(m.order);
}

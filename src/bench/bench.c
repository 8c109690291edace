/* bench.c - the driver: parse, validate, set up, sweep, report. */
#include "bench/bench.h"
#include "bench/anchor.h"
#include "bench/backend.h"
#include "bench/baseline.h"
#include "bench/bench_cuda.h"
#include "bench/buffers.h"
#include "bench/card.h"
#include "bench/contender.h"
#include "bench/entry.h"
#include "bench/environment.h"
#include "bench/fail.h"
#include "bench/launcher.h"
#include "bench/limits.h"
#include "bench/match.h"
#include "bench/place.h"
#include "bench/point.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

double bench_algbw(const struct bench_point *point, double us)
{
    return us > 0 ? (double)point->shape.bytes / us * 1e-3 : 0;
}

double bench_busbw(const struct bench *bench, const struct bench_point *point, double us)
{
    return bench_algbw(point, us) * bench->collective->busbw_factor(bench->nranks);
}

void bench_note(struct bench *bench, const char *format, ...)
{
    if (bench->nnotes == BENCH_MAX_NOTES)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(bench->notes[bench->nnotes++], sizeof bench->notes[0], format, args);
    va_end(args);
}

/* ---- Set-up ------------------------------------------------------------------------------------------------------ */

/* --help and --version, without MPI. Only the launcher's rank 0 answers. */
static bool answer(const struct bench_collective *collective, enum options_outcome outcome)
{
    if (outcome != OPTIONS_HELP && outcome != OPTIONS_SHORT_HELP && outcome != OPTIONS_VERSION)
        return false;
    if (launcher_rank() != 0)
        return true;
    if (outcome == OPTIONS_VERSION)
        printf("%s (Treering) %s\n", collective->program, tr_version());
    else
        options_help(collective, outcome == OPTIONS_SHORT_HELP);
    return true;
}

/* argp may have written, and failed, before: its error stays in the stream. */
static enum bench_exit end_answer(const struct bench_collective *collective)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return BENCH_EXIT_OK;
    fprintf(stderr, "%s: cannot write to standard output: free space there, or write elsewhere\n", collective->program);
    return BENCH_EXIT_FAILED;
}

/* The sentence comes from the one rank that MPI and the launcher both count as 0, so it is there once. */
static void check_launcher(struct bench *bench)
{
    char why[1024];
    if (launcher_agrees(bench->collective->program, bench->nranks, why, sizeof why))
        return;
    if (launcher_rank() != 0)
        bench_end(bench, BENCH_EXIT_CANNOT);
    bench_stop(bench, BENCH_EXIT_CANNOT, "%s", why);
}

static const double launch_wait_s = 30; /* for a rank that does not come */

void bench_check_launch(struct bench *bench)
{
    char why[1024];
    check_launcher(bench);
    bool good = doctor_quick(bench->collective->program, launch_wait_s, why, sizeof why);
    watchdog_arm(bench, 0, "starting");
    if (!good)
        bench_stop(bench, BENCH_EXIT_CANNOT, "%s", why);
}

static void check_memory_kind(struct bench *bench)
{
    bool absent = bench->options.memory == TR_MEMORY_CUDA && bench_cuda_device_count() == 0;
    char why[256];
    snprintf(why, sizeof why,
             "-M cuda: rank %d on %s sees no GPU (or this build has no CUDA): run with -M host, or see "
             "nvidia-smi and CUDA_VISIBLE_DEVICES",
             bench->rank, bench->host);
    bench_agree(bench, absent ? BENCH_EXIT_CANNOT : BENCH_EXIT_OK, why);
}

/* Every rank gets every rank's. */
static void gather_infos(struct bench *bench)
{
    bench_agree_status(bench, tr_comm_get_info(bench->comm, &bench->info), "asking where the ranks are");
    bench->infos = calloc((size_t)bench->nranks, sizeof *bench->infos);
    if (!bench->infos)
        bench_die(bench, "no memory for %d ranks' places", bench->nranks);
    MPI_Allgather(&bench->info, sizeof bench->info, MPI_BYTE, bench->infos, sizeof bench->info, MPI_BYTE,
                  MPI_COMM_WORLD);
}

static bool asks_for_nccl(const struct bench_options *options)
{
    return !options->algorithms_given || options->algorithms[TR_ALGORITHM_NCCL] ||
           options->algorithms[TR_ALGORITHM_NCCL_SYM];
}

static void open_communicator(struct bench *bench)
{
    struct tr_config config = {
        .memory = bench->options.memory,
        .timeout_s = bench->options.timeout_s,
        .no_nccl = !asks_for_nccl(&bench->options),
    };
    struct tr_comm *comm = NULL;
    watchdog_arm(bench, 0, "creating the communicator");
    bench_agree_status(bench, tr_comm_create(MPI_COMM_WORLD, &config, &comm), "creating the communicator");
    bench->comm = comm;
    bench->backend = tr_comm_memory(comm) == TR_MEMORY_CUDA ? &backend_cuda : &backend_host;
    bench->oversubscribed = bench->backend->memory == TR_MEMORY_HOST && bench->nranks > sysconf(_SC_NPROCESSORS_ONLN);
    gather_infos(bench);
    if (!bench->backend->open(bench->info.device))
        bench_die(bench, "%s", bench->backend->error());
}

/* Host memory has one channel. */
static bool asks_for_blocks(const struct bench_options *options)
{
    for (int i = 0; i < options->nchannels; i++)
        if (options->channels[i] > 1)
            return true;
    return false;
}

/* Options that the parser could not judge before the kind of memory was known. */
static void check_options_for_memory(struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    if (bench->backend->memory == TR_MEMORY_CUDA)
        return;
    const char *option = options->graph_launches    ? "-G"
                         : options->blocking        ? "-z 1"
                         : options->launch_cost     ? "--launch-cost"
                         : asks_for_blocks(options) ? "--channels"
                                                    : NULL;
    if (option)
        bench_stop(bench, BENCH_EXIT_USAGE, "%s needs GPU memory and this run is on host memory: leave it out", option);
}

static void note_shared_device(struct bench *bench)
{
    int most = 0;
    for (int r = 0; r < bench->nranks; r++)
        most = bench->infos[r].ranks_on_device > most ? bench->infos[r].ranks_on_device : most;
    if (most > 1 && !environment_has_mps())
        bench_note(bench,
                   "%d ranks share a GPU without NVIDIA MPS and take turns of about 2 ms: start it with "
                   "`nvidia-cuda-mps-control -d`",
                   most);
}

/* The seed of the contenders' order: given, or drawn by rank 0. */
static void choose_seed(struct bench *bench)
{
    uint32_t drawn = 0; /* short enough to type again */
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        drawn = (uint32_t)getpid();
    bench->seed = bench->options.seed_given ? bench->options.seed : drawn;
    MPI_Bcast(&bench->seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    bench->random.state = bench->seed;
    bench->order = calloc((size_t)bench->ncontenders, sizeof *bench->order);
    if (!bench->order)
        bench_die(bench, "no memory for the order of %d contenders", bench->ncontenders);
}

/* CLOCK_MONOTONIC, and a GPU's clock as it is compared with it, are a host's own. */
static void compare_hosts(struct bench *bench)
{
    bench->common_clock = true;
    for (int r = 0; r < bench->nranks; r++)
        bench->common_clock &= strcmp(bench->infos[r].host, bench->infos[0].host) == 0;
}

static void set_up(struct bench *bench)
{
    bench_check_launch(bench);
    reports_open(bench);
    check_memory_kind(bench);
    open_communicator(bench);
    check_options_for_memory(bench);
    note_shared_device(bench);
    compare_hosts(bench);
    places_gather(bench);
    baseline_open(bench);
    contenders_select(bench);
    choose_seed(bench);
    limits_settle(bench);
    baseline_expect(bench);
    buffers_open(bench);
    card_measure(bench);
    progress_open(bench);
}

/* ---- Sweep ------------------------------------------------------------------------------------------------------- */

static const double patience_s = 80;         /* a sweep that was told neither -e nor how much to measure ends by then */
static const size_t growing_bytes = 1 << 20; /* from here on a size's time grows with the size */

/* Whether the next size would take longer than a person waits who asked for nothing in particular. The same on every
 * rank. Collective. */
static bool is_long(const struct bench *bench, double sweep_began, double size_began, size_t next)
{
    const struct bench_options *options = &bench->options;
    if (options->last_given || options->iterations || options->rounds)
        return false;
    double now = MPI_Wtime();
    double growth = next > growing_bytes && !options->range.step ? (double)options->range.factor : 1;
    int stop = now - sweep_began + growth * (now - size_began) > patience_s;
    MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return stop;
}

static void note_early_end(struct bench *bench, size_t size)
{
    char next[SIZE_TEXT], last[SIZE_TEXT];
    bench_note(bench, "ended before size %s, which would take long on this machine: -e %s goes on",
               size_format(size, next), size_format(bench->options.range.last, last));
}

static struct bench_point *add_point(struct bench *bench)
{
    size_t bytes = ((size_t)bench->npoints + 1) * sizeof *bench->points;
    struct bench_point **grown = realloc(bench->points, bytes);
    struct bench_point *point = malloc(sizeof *point);
    if (!grown || !point)
        bench_die(bench, "no memory for %d points", bench->npoints + 1);
    bench->points = grown;
    return point;
}

static void measure_size(struct bench *bench, size_t size, enum tr_datatype datatype, enum tr_op op)
{
    struct bench_point *point = add_point(bench);
    point_measure(bench, size, datatype, op, point);
    bench->points[bench->npoints++] = point;
    progress_clear();
    reports_row(bench, point);
    if (anchors_measure(bench, false))
        reports_anchor(bench);
}

static void sweep_sizes(struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    size_t size = bench->options.range.first;
    double began = MPI_Wtime(), size_began;
    do {
        size_began = MPI_Wtime();
        measure_size(bench, size, datatype, op);
        if (!size_next(&bench->options.range, size, &size))
            return;
    } while (!is_long(bench, began, size_began, size));
    note_early_end(bench, size);
}

/* No anchor was measured after it yet. */
static bool last_point_is_open(const struct bench *bench)
{
    return bench->npoints > 0 && bench->points[bench->npoints - 1]->anchor == bench->anchors.n - 1;
}

static void sweep(struct bench *bench)
{
    bench->began = MPI_Wtime();
    anchors_open(bench);
    anchors_measure(bench, true);
    for (int datatype = 0; datatype < TR_DATATYPE_COUNT; datatype++)
        for (int op = 0; op < TR_OP_COUNT; op++)
            if (bench->options.datatypes[datatype] && bench->options.ops[op]) {
                sweep_sizes(bench, (enum tr_datatype)datatype, (enum tr_op)op);
                reports_group(bench, (enum tr_datatype)datatype, (enum tr_op)op);
            }
    if (last_point_is_open(bench) && anchors_measure(bench, true))
        reports_anchor(bench);
    entry_gather(bench);
    anchors_note(bench);
}

static void free_results(struct bench *bench)
{
    for (int p = 0; p < bench->npoints; p++)
        point_free(bench->points[p], bench->ncontenders);
    free(bench->points);
    baseline_free(bench->baseline);
    anchors_close(bench);
    free(bench->entries);
    free(bench->places);
    free(bench->infos);
    free(bench->order);
    free(bench->contenders);
}

static void tear_down(struct bench *bench)
{
    watchdog_arm(bench, 0, "freeing buffers and the communicator");
    buffers_close(bench);
    bench->backend->close();
    struct tr_comm *comm = bench->comm;
    bench->comm = NULL;
    bench_agree_status(bench, tr_comm_destroy(comm), "destroying the communicator");
}

/* What was found ends the run with its own exit code. */
static void judge(struct bench *bench)
{
    if (bench->first_wrong[0])
        bench_stop(bench, BENCH_EXIT_WRONG, "wrong data: %s: this is a bug, please report it", bench->first_wrong);
    baseline_judge(bench);
}

/* ------------------------------------------------------------------------------------------------------------------ */

void bench_start(struct bench *bench, int *argc, char ***argv)
{
    gethostname(bench->host, sizeof bench->host - 1);
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench->nranks);
    watchdog_start(bench);
}

void bench_measure(struct bench *bench)
{
    set_up(bench);
    reports_begin(bench);
    sweep(bench);
    baseline_finish(bench);
    reports_finish(bench);
    tear_down(bench);
    judge(bench);
    free_results(bench);
    struct bench started = {
        .collective = bench->collective, .options = bench->options, .rank = bench->rank, .nranks = bench->nranks};
    memcpy(started.host, bench->host, sizeof started.host);
    *bench = started;
}

int bench_main(const struct bench_collective *collective, int argc, char **argv)
{
    static struct bench bench;
    bench.collective = collective;
    enum options_outcome outcome = options_parse(collective, argc, argv, false, &bench.options);
    if (answer(collective, outcome))
        return end_answer(collective);
    bench_start(&bench, &argc, &argv);
    match_refuse_bad(&bench, outcome == OPTIONS_BAD, argc, argv);
    match_options(&bench);
    bench_measure(&bench);
    bench_end(&bench, BENCH_EXIT_OK);
}

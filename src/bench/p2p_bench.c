/* p2p_bench.c - what lies between every two ranks: latency, and bandwidth one way and both ways, by each method. */
#include "bench/backend.h"
#include "bench/bench_cuda.h"
#include "bench/environment.h"
#include "bench/fail.h"
#include "bench/launcher.h"
#include "bench/p2p.h"
#include "bench/p2p_cuda.h"
#include "bench/p2p_measure.h"
#include "bench/p2p_memory.h"
#include "bench/p2p_method.h"
#include "bench/p2p_options.h"
#include "bench/p2p_report.h"
#include "bench/p2p_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What fail.c and the notes of a run need to know of it. */
static const struct bench_collective identity = {.collective = TR_SENDRECV, .program = "p2p_bench"};

/* ---- Before MPI -------------------------------------------------------------------------------------------------- */

/* --help and --version. Only the launcher's rank 0 answers. */
static bool answer(enum options_outcome outcome)
{
    if (outcome != OPTIONS_HELP && outcome != OPTIONS_SHORT_HELP && outcome != OPTIONS_VERSION)
        return false;
    if (launcher_rank() != 0)
        return true;
    if (outcome == OPTIONS_VERSION)
        printf("p2p_bench (Treering) %s\n", tr_version());
    else
        p2p_options_help(outcome == OPTIONS_SHORT_HELP);
    return true;
}

static enum bench_exit end_answer(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return BENCH_EXIT_OK;
    fprintf(stderr, "p2p_bench: cannot write to standard output: free space there, or write elsewhere\n");
    return BENCH_EXIT_FAILED;
}

/* ---- Set-up ------------------------------------------------------------------------------------------------------ */

static void start_mpi(struct p2p *p2p, int *argc, char ***argv)
{
    struct bench *bench = &p2p->bench;
    bench->collective = &identity;
    bench->options.timeout_s = p2p->options.timeout_s;
    bench_start(bench, argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &p2p->mpi);
    p2p->rank = bench->rank;
    p2p->nranks = bench->nranks;
}

static void check_launch(struct p2p *p2p)
{
    struct bench *bench = &p2p->bench;
    char why[1024];
    bench_check_launch(bench);
    if (p2p->nranks < 2)
        bench_stop(bench, BENCH_EXIT_CANNOT, "there is 1 rank and a pair takes two: run `mpirun -np 2 p2p_bench`");
    bool absent = p2p->options.memory == TR_MEMORY_CUDA && bench_cuda_device_count() == 0;
    snprintf(why, sizeof why,
             "-M cuda: rank %d on %s sees no GPU (or this build has no CUDA): run with -M host, or see nvidia-smi and "
             "CUDA_VISIBLE_DEVICES",
             p2p->rank, bench->host);
    bench_agree(bench, absent ? BENCH_EXIT_CANNOT : BENCH_EXIT_OK, why);
}

static void open_communicator(struct p2p *p2p)
{
    struct bench *bench = &p2p->bench;
    struct tr_config config = {.memory = p2p->options.memory, .timeout_s = p2p->options.timeout_s, .no_nccl = 1};
    struct tr_comm *comm = NULL;
    watchdog_arm(bench, 0, "creating the communicator");
    bench_agree_status(bench, tr_comm_create(MPI_COMM_WORLD, &config, &comm), "creating the communicator");
    bench->comm = comm;
    bench->backend = tr_comm_memory(comm) == TR_MEMORY_CUDA ? &backend_cuda : &backend_host;
    bench_agree_status(bench, tr_comm_get_info(comm, &bench->info), "asking where the ranks are");
    bench->infos = calloc((size_t)p2p->nranks, sizeof *bench->infos);
    if (!bench->infos)
        bench_die(bench, "no memory for %d ranks' places", p2p->nranks);
    MPI_Allgather(&bench->info, sizeof bench->info, MPI_BYTE, bench->infos, sizeof bench->info, MPI_BYTE,
                  MPI_COMM_WORLD);
    if (!bench->backend->open(bench->info.device))
        bench_die(bench, "%s", bench->backend->error());
    if (bench->backend->memory == TR_MEMORY_CUDA && !p2p_cuda_open())
        bench_die(bench, "%s", p2p_cuda_error());
}

static void note_sharing(struct p2p *p2p)
{
    int most = 0;
    for (int r = 0; r < p2p->nranks; r++)
        most = p2p->bench.infos[r].ranks_on_device > most ? p2p->bench.infos[r].ranks_on_device : most;
    if (most > 1 && !environment_has_mps())
        bench_note(&p2p->bench,
                   "%d ranks share a GPU without NVIDIA MPS and take turns of about 2 ms: start it with "
                   "`nvidia-cuda-mps-control -d`",
                   most);
}

/* Idle ranks sleep, but those of the pair may still be put on one CPU. */
static void note_crowding(struct p2p *p2p)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (p2p->bench.backend->memory == TR_MEMORY_HOST && p2p->nranks > cpus)
        bench_note(&p2p->bench,
                   "%d ranks share %ld CPUs: two of a pair may be put on the same one, which shows as a slow pair",
                   p2p->nranks, cpus);
}

static void settle(struct p2p *p2p)
{
    struct p2p_options *options = &p2p->options;
    p2p_options_settle(options, p2p->bench.backend->memory, p2p->nranks);
    if (options->range.first > options->range.last)
        bench_stop(&p2p->bench, BENCH_EXIT_USAGE, "-b is more than -e: give a range that starts at its smaller end");
    if (!options->seed_given)
        options->seed = (unsigned)time(NULL);
    MPI_Bcast(&options->seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
}

static void set_up(struct p2p *p2p)
{
    check_launch(p2p);
    p2p_reports_open(p2p);
    open_communicator(p2p);
    note_sharing(p2p);
    note_crowding(p2p);
    settle(p2p);
    p2p_memory_open(p2p);
    p2p_transports_find(p2p);
    p2p_methods_select(p2p);
    p2p_tests_list(p2p);
}

static void tear_down(struct p2p *p2p)
{
    struct bench *bench = &p2p->bench;
    watchdog_arm(bench, 0, "freeing buffers and the communicator");
    p2p_memory_close(p2p);
    if (bench->backend->memory == TR_MEMORY_CUDA)
        p2p_cuda_close();
    bench->backend->close();
    struct tr_comm *comm = bench->comm;
    bench->comm = NULL;
    bench_agree_status(bench, tr_comm_destroy(comm), "destroying the communicator");
    MPI_Comm_free(&p2p->mpi);
    free(p2p->transports);
    free(p2p->results);
    free(p2p->fits);
    free(p2p->tests);
    free(bench->infos);
}

/* ------------------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static struct p2p p2p;
    enum options_outcome outcome = p2p_options_parse(argc, argv, false, &p2p.options);
    if (answer(outcome))
        return end_answer();
    start_mpi(&p2p, &argc, &argv);
    struct bench *bench = &p2p.bench;
    if (outcome == OPTIONS_BAD) {
        if (p2p.rank == 0)
            p2p_options_parse(argc, argv, true, &p2p.options);
        bench_end(bench, BENCH_EXIT_USAGE);
    }
    set_up(&p2p);
    p2p_measure(&p2p);
    p2p_reports_write(&p2p);
    tear_down(&p2p);
    if (bench->first_wrong[0])
        bench_stop(bench, BENCH_EXIT_WRONG, "wrong data: %s: this is a bug or a broken link, please report it",
                   bench->first_wrong);
    bench_end(bench, BENCH_EXIT_OK);
}

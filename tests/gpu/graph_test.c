/* graph_test.c - calls captured into a CUDA graph, which is replayed with other inputs each time. */
#include "collectives/batch.h"
#include "collectives/matrix.h"
#include "collectives/memory.h"
#include "collectives/tap.h"

#include <cuda_runtime_api.h>
#include <mpi.h>

enum { REPLAYS = 50, COUNT = 1000 };

/* Close to where the 32-bit counter of calls wraps. */
static const unsigned FIRST_EPOCH = 0xffffffc0u;

static cudaGraph_t graph;
static cudaGraphExec_t instance;

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        tap_bail_out("%s: %s", what, cudaGetErrorString(error));
}

static void begin(void)
{
    must(cudaStreamBeginCapture(memory_stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

static void end(void)
{
    must(cudaStreamEndCapture(memory_stream(), &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&instance, graph, 0), "cudaGraphInstantiate");
}

static void launch(void)
{
    must(cudaGraphLaunch(instance, memory_stream()), "cudaGraphLaunch");
}

static const struct capture capture = {begin, end, launch};

#define CASE(collective, algorithm, protocol, ...)                                          \
    {                                                                                       \
        TR_##collective, {TR_ALGORITHM_##algorithm, TR_PROTOCOL_##protocol, 0}, __VA_ARGS__ \
    }

static const struct test_case cases[] = {
    CASE(ALLREDUCE, ONESHOT, LL, .in_place = true),
    CASE(ALLREDUCE, TWOSHOT, DIRECT, .in_place = false),
    CASE(REDUCE_SCATTER, RING, DIRECT, .in_place = true),
    CASE(ALLREDUCE, TWOSHOT, LL128, .in_place = false),
    CASE(ALLGATHER, ONESHOT, LL, .in_place = true),
    CASE(BROADCAST, DTREE, DIRECT, .in_shift = 1),
    CASE(ALLREDUCE, RING, DIRECT, .in_place = true),
    CASE(SENDRECV, AUTO, AUTO, .out_shift = 1),
    CASE(REDUCE, TREE, LL, .in_place = true),
    CASE(ALLREDUCE, RECURSIVE, DIRECT, .in_place = false),
};

/* Failures of all cases as one line. */
static void report(const struct batch *batch, bool registered)
{
    const struct tally *worst = batch_tally(batch, cases[0].collective, cases[0].tuning.algorithm);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tally *tally = batch_tally(batch, cases[i].collective, cases[i].tuning.algorithm);
        worst = tally->failures > worst->failures ? tally : worst;
    }
    tap_test(worst->failures == 0, worst->why, "a graph of ten calls, replayed %d times, %s buffers", REPLAYS,
             registered ? "registered" : "plain");
}

/* Each with a batch of its own: the graph refers to the batch's memory. */
static void test_graph(struct tr_comm *comm, bool registered)
{
    int nranks = tr_comm_size(comm);
    struct batch *batch = batch_new(MPI_COMM_WORLD, comm, (size_t)COUNT * 8 * (size_t)nranks);
    struct data data = {TR_F32, TR_SUM, VALUES_EXACT, nranks, 1};
    batch_begin_point(batch, &data, COUNT, COUNT / 7);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_case c = cases[i];
        c.registered = registered;
        c.root = batch_is_rooted(c.collective) ? nranks - 1 : 0;
        if (c.collective != TR_SENDRECV || nranks > 1)
            batch_add(batch, &c);
    }
    batch_replay_point(batch, REPLAYS, &capture);
    report(batch, registered);
    must(cudaGraphExecDestroy(instance), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    batch_delete(batch);
}

static void run(void)
{
    struct tr_config config = {.memory = TR_MEMORY_CUDA, .timeout_s = 20, .no_nccl = 1, .first_epoch = FIRST_EPOCH};
    struct tr_comm *comm;
    if (tr_comm_create(MPI_COMM_WORLD, &config, &comm) != TR_OK)
        tap_bail_out("tr_comm_create: %s", tr_last_error());
    test_graph(comm, false);
    test_graph(comm, true);
    tr_comm_destroy(comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *why = memory_unavailable();
    if (!why)
        run();
    int status = why ? tap_skip_all(why) : tap_end();
    MPI_Finalize();
    return status;
}

/*
 * stream_test.c - what only GPU communicators have: streams, memory that the caller registers, and errors that
 * appear while a call runs on the device.
 */
#include "collectives/memory.h"
#include "collectives/reference.h"
#include "collectives/tap.h"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        tap_bail_out("%s: %s", what, cudaGetErrorString(error));
}

static struct tr_comm *create(double timeout_s)
{
    struct tr_config config = {.memory = TR_MEMORY_CUDA, .timeout_s = timeout_s, .no_nccl = 1};
    struct tr_comm *comm;
    if (tr_comm_create(MPI_COMM_WORLD, &config, &comm) != TR_OK)
        tap_bail_out("tr_comm_create: %s", tr_last_error());
    memory_attach(comm);
    return comm;
}

/* One TAP line: every rank got `wanted`, and a sentence that holds `word`. */
static void expect(const char *name, enum tr_status status, enum tr_status wanted, const char *word)
{
    char why[1500];
    snprintf(why, sizeof why, "got \"%s\" with the sentence \"%s\"; wanted \"%s\" and \"%s\" in it",
             tr_strerror(status), tr_last_error(), tr_strerror(wanted), word);
    tap_test(status == wanted && strstr(tr_last_error(), word), why, "%s", name);
}

/* ---- Two streams ------------------------------------------------------------------------------------------------- */

enum { DEPTH = 16, COUNT = 3000, ROUNDS = 20 };

/* Sum link 0 into link 1, that into link 2, ..., alternately on two streams: a call must follow those before it. */
static enum tr_status run_chain(struct tr_comm *comm, int64_t *links, cudaStream_t streams[2])
{
    enum tr_status status = TR_OK;
    for (int d = 0; d < DEPTH && status == TR_OK; d++)
        status = tr_allreduce(links + (size_t)d * COUNT, links + (size_t)(d + 1) * COUNT, COUNT, TR_I64, TR_SUM, comm,
                              streams[d % 2]);
    for (int s = 0; s < 2; s++)
        must(cudaStreamSynchronize(streams[s]), "cudaStreamSynchronize");
    return status;
}

/* After the first sum all ranks hold the same, which each further one multiplies by their number. */
static bool check_chain(const int64_t *links, const int64_t *sums)
{
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t wanted = (uint64_t)sums[i];
        for (size_t d = 1; d <= DEPTH; d++, wanted *= (uint64_t)size)
            if ((uint64_t)links[d * COUNT + i] != wanted)
                return false;
    }
    return true;
}

static void test_streams(struct tr_comm *comm, const char *name, cudaStream_t first, cudaStream_t second)
{
    const size_t bytes = (DEPTH + 1) * COUNT * sizeof(int64_t);
    int64_t *links = memory_new(bytes), *image = memory_new_image(bytes),
            *sums = memory_new_image(COUNT * sizeof *sums);
    bool right = true;
    for (int round = 0; round < ROUNDS && right; round++) {
        struct data data = {TR_I64, TR_SUM, VALUES_EXACT, size, (uint64_t)round + 1};
        struct expectation expected = {.bits = sums};
        reference_reduce(&data, 0, COUNT, &expected);
        memset(image, 0xaa, bytes);
        reference_fill(&data, rank, 0, COUNT, image);
        must(cudaMemcpy(links, image, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
        right = run_chain(comm, links, (cudaStream_t[]){first, second}) == TR_OK;
        must(cudaMemcpy(image, links, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
        right = right && check_chain(image, sums);
    }
    tap_test(right, tr_last_error()[0] ? tr_last_error() : "a call overtook another", "%s", name);
    memory_delete(links);
    memory_delete_image(image);
    memory_delete_image(sums);
}

static void test_all_streams(void)
{
    struct tr_comm *comm = create(20);
    cudaStream_t streams[2];
    for (int s = 0; s < 2; s++)
        must(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    test_streams(comm, "calls on one stream follow each other", streams[0], streams[0]);
    test_streams(comm, "calls on two streams follow each other", streams[0], streams[1]);
    test_streams(comm, "calls on the default stream and another follow each other", NULL, streams[1]);
    tr_comm_destroy(comm);
    for (int s = 0; s < 2; s++)
        must(cudaStreamDestroy(streams[s]), "cudaStreamDestroy");
}

/* ---- Memory that the caller registers ---------------------------------------------------------------------------- */

/* All-reduce between the two halves of `memory`, `bytes` in all. */
static bool is_usable(struct tr_comm *comm, char *memory, size_t bytes, uint64_t seed)
{
    size_t count = bytes / 2 / sizeof(float);
    struct data data = {TR_F32, TR_SUM, VALUES_EXACT, size, seed};
    struct expectation expected = {.bits = malloc(bytes)};
    float *image = memory_new_image(bytes);
    reference_reduce(&data, 0, count, &expected);
    reference_fill(&data, rank, 0, count, image);
    memory_put(memory, image, count * sizeof(float));
    const struct tr_tuning direct = {TR_ALGORITHM_TWOSHOT, TR_PROTOCOL_DIRECT, 0};
    bool right = tr_comm_set_tuning(comm, &direct) == TR_OK &&
                 tr_allreduce(memory, memory + bytes / 2, count, TR_F32, TR_SUM, comm, memory_stream()) == TR_OK;
    memory_get(image, memory + bytes / 2, count * sizeof(float));
    right = right && reference_compare(&data, &expected, image, count) == count;
    memory_delete_image(image);
    free(expected.bits);
    return right && tr_comm_async_error(comm) == TR_OK;
}

/* Registered at an offset; then freed, allocated again (likely at the same address) and registered again. */
static void test_register(struct tr_comm *comm)
{
    const size_t bytes = 1 << 20, offset = 12345 * 16, whole = 4 << 20;
    for (unsigned round = 0; round < 3; round++) {
        char *memory = memory_new(whole), *part = memory + offset + round * 256;
        enum tr_status status = tr_mem_register(comm, part, bytes);
        tap_test(status == TR_OK, tr_last_error(), "a part of cudaMalloc's memory is registered (round %u)", round);
        if (status == TR_OK) {
            tap_test(is_usable(comm, part, bytes, round + 1), tr_last_error(), "and used");
            expect("what overlaps it is not", tr_mem_register(comm, part + 16, bytes), TR_ERR_ARGUMENT, "overlaps");
            status = tr_mem_deregister(comm, part);
            tap_test(status == TR_OK, tr_last_error(), "deregistered");
            tap_test(is_usable(comm, part, bytes, round + 9), tr_last_error(), "and used as it is");
        }
        memory_delete(memory);
    }
}

static void test_refused_memory(struct tr_comm *comm)
{
    char *pinned = memory_new_image(4096);
    void *pooled;
    expect("host memory is not registered", tr_mem_register(comm, pinned, 4096), TR_ERR_UNSUPPORTED, "");
    memory_delete_image(pinned);
    if (cudaMallocAsync(&pooled, 1 << 20, memory_stream()) != cudaSuccess) {
        tap_skip("this GPU has no memory pools", "a pool's memory is refused with a sentence");
        return;
    }
    memory_finish();
    expect("a pool's memory is not registered", tr_mem_register(comm, pooled, 1 << 20), TR_ERR_UNSUPPORTED, "");
    must(cudaFreeAsync(pooled, memory_stream()), "cudaFreeAsync");
    expect("what is not registered is not deregistered", tr_mem_deregister(comm, &pooled), TR_ERR_ARGUMENT,
           "was not given");
}

static void test_memory(void)
{
    struct tr_comm *comm = create(20);
    test_register(comm);
    test_refused_memory(comm);
    tr_comm_destroy(comm);
}

/* ---- Errors on the device ---------------------------------------------------------------------------------------- */

/* Wait for the stream, at most so long; a call that hangs must not hang the test. */
static bool drains(double seconds)
{
    double deadline = tap_seconds() + seconds;
    cudaError_t error;
    while ((error = cudaStreamQuery(memory_stream())) == cudaErrorNotReady && tap_seconds() < deadline)
        usleep(1000);
    return error == cudaSuccess;
}

/* The last rank comes late: the others' kernels end by themselves, and the state names it. */
static void test_late(enum tr_algorithm algorithm, enum tr_protocol protocol)
{
    struct tr_comm *comm = create(2);
    float *memory = memory_new(COUNT * sizeof *memory);
    char name[32], why[1400];
    snprintf(name, sizeof name, "rank %d", size - 1);
    tr_comm_set_tuning(comm, &(struct tr_tuning){algorithm, protocol, 0});
    enum tr_status status = tr_allreduce(memory, memory, COUNT, TR_F32, TR_SUM, comm, memory_stream());
    tap_test(status == TR_OK && drains(10) && tr_comm_async_error(comm) == TR_OK, tr_last_error(), "all ranks call");
    tap_meet();

    double start = tap_seconds();
    if (rank == size - 1)
        usleep(5000000);
    tr_allreduce(memory, memory, COUNT, TR_F32, TR_SUM, comm, memory_stream());
    bool drained = drains(15);
    status = tr_comm_async_error(comm);
    snprintf(why, sizeof why, "after %.2f s, %s: \"%s\" with the sentence \"%s\"", tap_seconds() - start,
             drained ? "ended" : "still running", tr_strerror(status), tr_last_error());
    tap_test(drained && (status == TR_ERR_TIMEOUT || status == TR_ERR_ABORTED), why,
             "%s over %s: a rank stays away, the others' calls end", tr_algorithm_name(algorithm),
             tr_protocol_name(protocol));
    int names = status == TR_ERR_TIMEOUT && rank < size - 1 && strstr(tr_last_error(), name), all;
    MPI_Allreduce(&names, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    tap_test(all > 0, why, "a rank that waited in vain names it");
    tap_test(tr_allreduce(memory, memory, COUNT, TR_F32, TR_SUM, comm, memory_stream()) != TR_OK, "TR_OK",
             "later calls fail, too");
    tr_comm_destroy(comm);
    memory_delete(memory);
}

/* A call that the last rank keeps waiting: all others' all-reduce, or rank 0's receive from it (then the ranks between have
 * nothing to wait for). */
static enum tr_status call_in_vain(struct tr_comm *comm, float *memory, bool receive)
{
    if (!receive)
        return tr_allreduce(memory, memory, COUNT, TR_F32, TR_SUM, comm, memory_stream());
    return rank == 0 ? tr_recv(memory, COUNT, TR_F32, size - 1, comm, memory_stream()) : TR_ERR_ABORTED;
}

/* The last rank never calls and aborts instead. */
static void test_abort(bool receive)
{
    struct tr_comm *comm = create(60);
    float *memory = memory_new(COUNT * sizeof *memory);
    char why[1400];
    tap_meet();
    double start = tap_seconds();
    if (rank == size - 1)
        usleep(300000);
    enum tr_status status = rank == size - 1 ? tr_comm_abort(comm) : call_in_vain(comm, memory, receive);
    bool drained = drains(10);
    if (status == TR_OK)
        status = tr_comm_async_error(comm);
    snprintf(why, sizeof why, "after %.2f s, %s: \"%s\" with the sentence \"%s\"", tap_seconds() - start,
             drained ? "ended" : "still running", tr_strerror(status), tr_last_error());
    tap_test(drained && status == TR_ERR_ABORTED, why,
             receive ? "an abort ends a receive" : "an abort ends every rank's wait");
    tap_meet();
    tr_comm_destroy(comm);
    memory_delete(memory);
}

static void run(void)
{
    test_all_streams();
    test_memory();
    if (size == 1) {
        tap_skip("needs two ranks", "a rank that stays away is named");
        return;
    }
    test_late(TR_ALGORITHM_ONESHOT, TR_PROTOCOL_LL);
    test_late(TR_ALGORITHM_TWOSHOT, TR_PROTOCOL_LL128);
    test_late(TR_ALGORITHM_RING, TR_PROTOCOL_DIRECT);
    test_abort(false);
    test_abort(true);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *why = memory_unavailable();
    if (!why)
        run();
    int status = why ? tap_skip_all(why) : tap_end();
    MPI_Finalize();
    return status;
}

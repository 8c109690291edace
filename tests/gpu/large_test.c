/*
 * large_test.c - vectors past 2^31 and 2^32 elements on two GPU ranks. Needs about 36 GB of GPU memory, so it runs
 * only with --large or TREERING_TEST_LARGE=1.
 *
 * The input repeats a tile whose length is a prime, so that an offset that loses its upper bits meets other
 * elements. Every element of the result is checked.
 */
#include "collectives/memory.h"
#include "collectives/reference.h"
#include "collectives/tap.h"

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 33554393, RANKS = 2 }; /* the largest prime below 2^25 */

static const size_t PAST_2_31 = ((size_t)1 << 31) + 5, PAST_2_32 = ((size_t)1 << 32) + 5;
static const size_t NEEDED = (size_t)36 << 30; /* bytes of GPU memory, both ranks */

static int rank;                           /* of the two */
static char *tiles[RANKS], *summed, *part; /* host memory */

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        tap_bail_out("%s: %s", what, cudaGetErrorString(error));
}

static void make_tiles(void)
{
    struct data data = {TR_U8, TR_SUM, VALUES_EXACT, RANKS, 1};
    struct expectation expected = {0};
    for (int r = 0; r < RANKS; r++) {
        tiles[r] = memory_new_image(TILE);
        reference_fill(&data, r, 0, TILE, tiles[r]);
    }
    expected.bits = summed = memory_new_image(TILE);
    reference_reduce(&data, 0, TILE, &expected);
    part = memory_new_image(TILE);
}

/* Fill `bytes` with the tile, doubling what is there. */
static void fill(char *memory, const char *tile, size_t bytes)
{
    memory_put(memory, tile, TILE);
    for (size_t done = TILE; done < bytes; done *= 2)
        must(cudaMemcpyAsync(memory + done, memory, done < bytes - done ? done : bytes - done, cudaMemcpyDeviceToDevice,
                             memory_stream()),
             "cudaMemcpyAsync");
}

/* The first of `bytes` that differs from the repeated tile, which stands in `memory` from its element `first` on. */
static size_t find_wrong(const char *memory, const char *tile, size_t first, size_t bytes)
{
    for (size_t done = 0, length; done < bytes; done += length) {
        size_t at = (first + done) % TILE;
        length = TILE - at < bytes - done ? TILE - at : bytes - done;
        memory_get(part, memory + done, length);
        if (memcmp(part, tile + at, length) == 0)
            continue;
        size_t i = 0;
        while (part[i] == tile[at + i])
            i++;
        return done + i;
    }
    return bytes;
}

struct large_case {
    enum tr_collective collective;
    enum tr_algorithm algorithm;
    bool registered;
    size_t count;
};

static enum tr_status call(const struct large_case *c, struct tr_comm *comm, const char *in, char *out)
{
    switch (c->collective) {
    case TR_ALLREDUCE:
        return tr_allreduce(in, out, c->count, TR_U8, TR_SUM, comm, memory_stream());
    case TR_REDUCE_SCATTER:
        return tr_reduce_scatter(in, out, c->count, TR_U8, TR_SUM, comm, memory_stream());
    case TR_ALLGATHER:
        return tr_allgather(in, out, c->count, TR_U8, comm, memory_stream());
    case TR_BROADCAST:
        return tr_broadcast(in, out, c->count, TR_U8, 0, comm, memory_stream());
    case TR_REDUCE:
        return tr_reduce(in, out, c->count, TR_U8, TR_SUM, 0, comm, memory_stream());
    default:
        return rank == 0 ? tr_send(in, c->count, TR_U8, 1, comm, memory_stream())
                         : tr_recv(out, c->count, TR_U8, 0, comm, memory_stream());
    }
}

/* The first wrong byte of the result on this rank, SIZE_MAX: none. */
static size_t check(const struct large_case *c, const char *out)
{
    size_t wrong;
    switch (c->collective) {
    case TR_ALLREDUCE:
        wrong = find_wrong(out, summed, 0, c->count);
        break;
    case TR_REDUCE_SCATTER:
        wrong = find_wrong(out, summed, (size_t)rank * c->count, c->count);
        break;
    case TR_ALLGATHER:
        wrong = find_wrong(out, tiles[0], 0, c->count);
        if (wrong == c->count && find_wrong(out + c->count, tiles[1], 0, c->count) < c->count)
            return c->count + find_wrong(out + c->count, tiles[1], 0, c->count);
        break;
    case TR_REDUCE:
        wrong = rank == 0 ? find_wrong(out, summed, 0, c->count) : c->count;
        break;
    default: /* broadcast from rank 0; rank 0 sends to rank 1 */
        wrong = c->collective == TR_BROADCAST || rank == 1 ? find_wrong(out, tiles[0], 0, c->count) : c->count;
    }
    return wrong < c->count ? wrong : SIZE_MAX;
}

static void run_case(const struct large_case *c, struct tr_comm *comm, bool *right, char *why, size_t bytes)
{
    size_t in_bytes = c->collective == TR_REDUCE_SCATTER ? RANKS * c->count : c->count;
    size_t out_bytes = c->collective == TR_ALLGATHER ? RANKS * c->count : c->count;
    size_t out_at = (in_bytes + 255) / 256 * 256;
    void *memory;
    if (!c->registered)
        memory = memory_new(out_at + out_bytes);
    else if (tr_mem_alloc(comm, out_at + out_bytes, &memory) != TR_OK)
        tap_bail_out("tr_mem_alloc: %s", tr_last_error());
    char *in = memory, *out = in + out_at;
    fill(in, tiles[rank], in_bytes);
    must(cudaMemsetAsync(out, 0xaa, out_bytes, memory_stream()), "cudaMemsetAsync");
    const struct tr_tuning tuning = {.algorithm = c->algorithm};
    enum tr_status status = tr_comm_set_tuning(comm, &tuning);
    if (status == TR_OK)
        status = call(c, comm, in, out);
    memory_finish();
    if (status == TR_OK)
        status = tr_comm_async_error(comm);
    size_t wrong = status == TR_OK ? check(c, out) : 0;
    *right = status == TR_OK && wrong == SIZE_MAX;
    snprintf(why, bytes, "%s; first wrong element: %zu", status == TR_OK ? "called" : tr_last_error(), wrong);
    if (!c->registered)
        memory_delete(memory);
    else if (tr_mem_free(comm, memory) != TR_OK)
        tap_bail_out("tr_mem_free: %s", tr_last_error());
}

/* `comm` is NULL on ranks beyond the two. */
static void run_cases(struct tr_comm *comm)
{
    const struct large_case cases[] = {
        {TR_ALLREDUCE, TR_ALGORITHM_AUTO, true, PAST_2_32},
        {TR_ALLREDUCE, TR_ALGORITHM_AUTO, false, PAST_2_31},
        {TR_ALLREDUCE, TR_ALGORITHM_RING, true, PAST_2_31},
        {TR_ALLREDUCE, TR_ALGORITHM_DTREE, false, PAST_2_31},
        {TR_REDUCE_SCATTER, TR_ALGORITHM_AUTO, true, PAST_2_31},
        {TR_REDUCE_SCATTER, TR_ALGORITHM_RING, false, PAST_2_31},
        {TR_ALLGATHER, TR_ALGORITHM_AUTO, true, PAST_2_31},
        {TR_BROADCAST, TR_ALGORITHM_AUTO, false, PAST_2_31},
        {TR_REDUCE, TR_ALGORITHM_AUTO, false, PAST_2_31},
        {TR_SENDRECV, TR_ALGORITHM_AUTO, false, PAST_2_31},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool right = true;
        char why[1200] = "";
        double start = tap_seconds();
        if (comm)
            run_case(&cases[i], comm, &right, why, sizeof why);
        tap_meet();
        tap_test(right, why, "%s by %s, %s, %zu x u8 (%.1f s)", tr_collective_name(cases[i].collective),
                 tr_algorithm_name(cases[i].algorithm), cases[i].registered ? "registered" : "plain", cases[i].count,
                 tap_seconds() - start);
    }
}

static bool is_wanted(int argc, char **argv)
{
    const char *wanted = getenv("TREERING_TEST_LARGE");
    return (argc == 2 && strcmp(argv[1], "--large") == 0) || (wanted && strcmp(wanted, "1") == 0);
}

/* Why not; NULL: all is well. The same on every rank. */
static const char *find_obstacle(int argc, char **argv)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (memory_unavailable())
        return memory_unavailable();
    if (!is_wanted(argc, argv))
        return "takes 36 GB of GPU memory; run with --large or TREERING_TEST_LARGE=1";
    if (size < RANKS)
        return "needs two ranks";
    size_t available = 0, total = 0, least;
    must(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    MPI_Allreduce(&available, &least, 1, MPI_UNSIGNED_LONG, MPI_MIN, MPI_COMM_WORLD);
    return least < NEEDED ? "less than 36 GB of GPU memory are free" : NULL;
}

static void run(void)
{
    struct tr_config config = {.memory = TR_MEMORY_CUDA, .timeout_s = 60, .no_nccl = 1};
    struct tr_comm *comm = NULL;
    MPI_Comm mpi;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < RANKS ? 0 : MPI_UNDEFINED, rank, &mpi);
    if (mpi != MPI_COMM_NULL) {
        if (tr_comm_create(mpi, &config, &comm) != TR_OK)
            tap_bail_out("tr_comm_create: %s", tr_last_error());
        memory_attach(comm);
        make_tiles();
    }
    run_cases(comm);
    tr_comm_destroy(comm);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *why = find_obstacle(argc, argv);
    if (!why)
        run();
    int status = why ? tap_skip_all(why) : tap_end();
    MPI_Finalize();
    return status;
}

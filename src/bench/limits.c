/* limits.c - the sizes of a sweep, and whether their buffers fit the memory that is free. */
#include "bench/limits.h"
#include "bench/backend.h"
#include "bench/fail.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const size_t default_last[TR_MEMORY_COUNT] = {
    [TR_MEMORY_HOST] = (size_t)64 << 20,
    [TR_MEMORY_CUDA] = (size_t)256 << 20,
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

void limits_buffer_bytes(const struct bench *bench, size_t last, size_t *send, size_t *recv)
{
    struct bench_shape shape = bench->collective->shape(last, 1, bench->nranks, bench->rank);
    size_t least = 4096 + 8 * (size_t)bench->nranks; /* what a call of one element takes, and more */
    *send = larger(shape.send, least);
    *recv = larger(shape.recv, least);
    if (bench->options.in_place)
        *send = *recv = larger(*send, *recv);
}

/* Bytes of buffers that a rank needs for sizes up to `last`. */
static size_t need(const struct bench *bench, size_t last)
{
    size_t send, recv, sets = 0;
    limits_buffer_bytes(bench, last, &send, &recv);
    for (int memory = 0; memory < BENCH_MEMORY_COUNT; memory++)
        sets += bench->buffers[memory].used;
    return send > SIZE_MAX / 8 || recv > SIZE_MAX / 8 ? SIZE_MAX : sets * (send + recv);
}

/* The memory that buffers come from, free bytes there, and how many ranks share it. */
struct store {
    char name[96];
    size_t free_bytes;
    size_t ranks;
};

static bool fits(const struct bench *bench, const struct store *store, size_t last)
{
    return need(bench, last) <= store->free_bytes / store->ranks;
}

/* A little less than the largest size that fits, by bisection; 0 if none does. */
static size_t largest_that_fits(const struct bench *bench, const struct store *store)
{
    size_t low = 0, high = SIZE_MAX / 16;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (fits(bench, store, middle))
            low = middle;
        else
            high = middle;
    }
    return size_round_down(low);
}

/* A twentieth is left for everything else. */
static void memory_store(struct bench *bench, struct store *store)
{
    bool cuda = bench->backend->memory == TR_MEMORY_CUDA;
    *store = (struct store){.ranks = (size_t)(cuda ? bench->info.ranks_on_device : bench->nranks)};
    if (cuda)
        snprintf(store->name, sizeof store->name, "GPU memory (%s)", bench->info.device_uuid);
    else
        snprintf(store->name, sizeof store->name, "memory");
    if (!bench->backend->free_bytes(&store->free_bytes))
        bench_die(bench, "%s", bench->backend->error());
    store->free_bytes -= store->free_bytes / 20;
}

/* The memory of the first rank where the sweep does not fit; false when there is none. Collective. */
static bool find_short(struct bench *bench, struct store *shortest)
{
    memory_store(bench, shortest);
    struct {
        int good, rank;
    } mine = {fits(bench, shortest, bench->options.range.last), bench->rank}, first;
    MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    MPI_Bcast(shortest, sizeof *shortest, MPI_BYTE, first.rank, MPI_COMM_WORLD);
    return !first.good;
}

/* The least power of two from 8 B on that gives every rank an element. */
static size_t default_first(const struct bench *bench)
{
    size_t element = 1, first = 8;
    for (int type = 0; type < TR_DATATYPE_COUNT; type++)
        if (bench->options.datatypes[type])
            element = larger(element, tr_datatype_size((enum tr_datatype)type));
    while (bench->collective->shape(first, element, bench->nranks, 0).count == 0)
        first *= 2;
    return first;
}

static void set_open_ends(struct bench *bench)
{
    struct bench_options *options = &bench->options;
    if (!options->range.factor)
        options->range.factor = bench->oversubscribed ? 4 : 2;
    if (!options->last_given)
        options->range.last = larger(options->range.first, default_last[bench->backend->memory]);
    if (!options->first_given) {
        size_t first = default_first(bench);
        options->range.first = first < options->range.last ? first : options->range.last;
    }
}

/* The given range does not fit: say what does. */
static void refuse_range(struct bench *bench, const struct store *store)
{
    char asked[SIZE_TEXT], largest[SIZE_TEXT], free_text[SIZE_TEXT];
    size_t fit = largest_that_fits(bench, store);
    size_format(bench->options.range.last, asked);
    size_format(size_round_down(store->free_bytes), free_text);
    if (fit == 0)
        bench_stop(bench, BENCH_EXIT_CANNOT,
                   "the buffers do not fit: %s has %s free for %zu %s: free some, or run "
                   "fewer ranks",
                   store->name, free_text, store->ranks, store->ranks == 1 ? "rank" : "ranks");
    bench_stop(bench, BENCH_EXIT_CANNOT,
               "buffers for sizes up to %s do not fit: %s has %s free for %zu %s: the largest -e that fits is %s",
               asked, store->name, free_text, store->ranks, store->ranks == 1 ? "rank" : "ranks",
               size_format(fit, largest));
}

void limits_settle(struct bench *bench)
{
    struct bench_options *options = &bench->options;
    set_open_ends(bench);
    struct store store;
    if (!find_short(bench, &store))
        return;
    size_t fit = largest_that_fits(bench, &store);
    if (options->last_given || fit < options->range.first)
        refuse_range(bench, &store);
    char largest[SIZE_TEXT], free_text[SIZE_TEXT];
    options->range.last = fit;
    bench_note(bench, "sizes end at %s, since %s has %s free for the buffers of %zu %s", size_format(fit, largest),
               store.name, size_format(size_round_down(store.free_bytes), free_text), store.ranks,
               store.ranks == 1 ? "rank" : "ranks");
}

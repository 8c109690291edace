/* p2p_memory.c - the memory that p2p_bench moves bytes between. */
#include "bench/p2p_memory.h"

#include "bench/backend.h"
#include "bench/fail.h"
#include "bench/p2p_cuda.h"
#include "bench/p2p_method.h"
#include "collectives/comm.h" /* struct tr_registration: where this process sees a peer's memory */
#include "collectives/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096 };

char *p2p_shared(struct p2p *p2p)
{
    return p2p->shared;
}

char *p2p_source(struct p2p *p2p)
{
    return p2p->source;
}

char *p2p_sink(struct p2p *p2p)
{
    return p2p->sink;
}

static size_t round_up(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static bool on_gpu(const struct p2p *p2p)
{
    return p2p->bench.backend->memory == TR_MEMORY_CUDA;
}

/* ---- Whether it fits --------------------------------------------------------------------------------------------- */

/* Slots of a rank, private ones included. */
static size_t slots(const struct p2p *p2p)
{
    return on_gpu(p2p) ? 2 : 5;
}

/* The largest transfer whose slots fit on every rank, 0 if none does. Collective. */
static unsigned long long most_that_fits(struct p2p *p2p)
{
    struct bench *bench = &p2p->bench;
    size_t free_bytes;
    if (!bench->backend->free_bytes(&free_bytes))
        bench_die(bench, "%s", bench->backend->error());
    size_t sharers = (size_t)(on_gpu(p2p) ? bench->info.ranks_on_device : p2p->nranks);
    size_t share = (free_bytes - free_bytes / 20) / sharers / slots(p2p);
    unsigned long long mine = share > 2 * PAGE ? share - 2 * PAGE : 0, least;
    MPI_Allreduce(&mine, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
    return least;
}

static void settle_sizes(struct p2p *p2p)
{
    struct size_range *range = &p2p->options.range;
    unsigned long long most = most_that_fits(p2p);
    char asked[SIZE_TEXT], fits[SIZE_TEXT];
    size_t least = range->first > p2p->options.message ? range->first : p2p->options.message;
    size_format(size_round_down((size_t)most), fits);
    if (range->last > most && !p2p->options.last_given && most >= least) {
        bench_note(&p2p->bench, "the last size is %s rather than %s, whose buffers do not fit the free memory", fits,
                   size_format(range->last, asked));
        range->last = size_round_down((size_t)most);
    }
    p2p->largest = range->last > p2p->options.message ? range->last : p2p->options.message;
    if (p2p->largest > most)
        bench_stop(&p2p->bench, BENCH_EXIT_CANNOT,
                   "size %s: a rank needs %zu times as much, and some rank's memory is short: the largest -e that fits "
                   "is %s",
                   size_format(p2p->largest, asked), slots(p2p), fits);
}

/* ---- Allocation -------------------------------------------------------------------------------------------------- */

/* Counts start at 0, on every rank, before any peer counts. */
static enum tr_status clear_flags(struct p2p *p2p, size_t bytes)
{
    if (!on_gpu(p2p)) {
        memset(p2p->area, 0, bytes);
        return TR_OK;
    }
    return p2p_cuda_clear(p2p->area, bytes) ? TR_OK : tr_error(TR_ERR_CUDA, "%s", p2p_cuda_error());
}

static enum tr_status allocate(struct p2p *p2p)
{
    size_t flags = round_up((2 * (size_t)p2p->nranks + 1) * P2P_LINE), shared_slots = 2;
    void *area = NULL;
    p2p->slot_bytes = round_up(p2p->largest);
    p2p->nslots = on_gpu(p2p) ? 1 : 2;
    enum tr_status status = tr_mem_alloc(p2p->bench.comm, flags + shared_slots * p2p->slot_bytes, &area);
    if (status != TR_OK)
        return status;
    p2p->area = area;
    p2p->shared = p2p->area + flags;
    const struct tr_registration *registration = tr_registration_find(p2p->bench.comm, area, flags);
    for (int r = 0; r < p2p->nranks; r++)
        p2p->areas[r] = registration->peer[r];
    return clear_flags(p2p, flags);
}

static enum tr_status allocate_private(struct p2p *p2p)
{
    const struct bench_backend *backend = p2p->bench.backend;
    void *source = p2p->shared, *sink = p2p->shared + p2p->slot_bytes;
    if (!on_gpu(p2p) && !(backend->alloc(p2p->slot_bytes, &source) && backend->alloc(2 * p2p->slot_bytes, &sink)))
        return tr_error(TR_ERR_MEMORY, "%s", backend->error());
    p2p->source = source;
    p2p->sink = sink;
    return TR_OK;
}

static bool allocate_tables(struct p2p *p2p)
{
    size_t n = (size_t)p2p->nranks;
    p2p->areas = calloc(n, sizeof *p2p->areas);
    p2p->sinks = calloc(n, sizeof *p2p->sinks);
    p2p->pids = calloc(n, sizeof *p2p->pids);
    p2p->posted = calloc(n, sizeof *p2p->posted);
    p2p->taken = calloc(n, sizeof *p2p->taken);
    return p2p->areas && p2p->sinks && p2p->pids && p2p->posted && p2p->taken;
}

void p2p_memory_open(struct p2p *p2p)
{
    settle_sizes(p2p);
    if (!allocate_tables(p2p))
        bench_die(&p2p->bench, "no memory for tables of %d ranks", p2p->nranks);
    bench_agree_status(&p2p->bench, allocate(p2p), "allocating memory that all ranks map");
    bench_agree_status(&p2p->bench, allocate_private(p2p), "allocating buffers");
    int pid = getpid();
    MPI_Allgather(&pid, 1, MPI_INT, p2p->pids, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&p2p->sink, sizeof p2p->sink, MPI_BYTE, p2p->sinks, sizeof p2p->sink, MPI_BYTE, MPI_COMM_WORLD);
}

void p2p_memory_close(struct p2p *p2p)
{
    if (!on_gpu(p2p)) {
        p2p->bench.backend->release(p2p->source);
        p2p->bench.backend->release(p2p->sink);
    }
    bench_agree_status(&p2p->bench, tr_mem_free(p2p->bench.comm, p2p->area), "freeing memory");
    free(p2p->areas);
    free(p2p->sinks);
    free(p2p->pids);
    free(p2p->posted);
    free(p2p->taken);
}

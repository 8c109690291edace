/* p2p_sm.c - GPU ranks: a kernel that writes the peer's memory, one that reads it, and the copy engine. */
#include "bench/backend.h"
#include "bench/bench_cuda.h"
#include "bench/p2p_cuda.h"
#include "bench/p2p_memory.h"
#include "bench/p2p_method.h"
#include "collectives/error.h"

/* Shorter than the library's: a kernel that waits for a rank that died keeps its process, and under MPS the GPU's. */
enum { WARMUP = 16, DEFAULT_TIMEOUT_S = 10 };

/* ---- There and back ---------------------------------------------------------------------------------------------- */

static uint64_t timeout_ns(const struct p2p *p2p)
{
    return (uint64_t)((p2p->options.timeout_s > 0 ? p2p->options.timeout_s : DEFAULT_TIMEOUT_S) * 1e9);
}

static enum tr_status end_of(enum p2p_cuda_end end, int peer)
{
    if (end == P2P_CUDA_TIMEOUT)
        return tr_error(TR_ERR_TIMEOUT, "the kernel of rank %d did not answer in time", peer);
    return end == P2P_CUDA_ABORTED ? tr_error(TR_ERR_ABORTED, "the kernel of rank %d gave up", peer) : TR_OK;
}

static enum tr_status exchange(struct p2p *p2p, const struct p2p_run *run, struct p2p_cuda_exchange *x, double *seconds)
{
    enum p2p_cuda_end end;
    uint64_t ns;
    x->starts = run->forward;
    x->theirs = (uint64_t *)p2p_posted_line(p2p, run->peer, p2p->rank);
    x->mine = (uint64_t *)p2p_posted_line(p2p, p2p->rank, run->peer);
    x->their_abort = (uint64_t *)p2p_abort_line(p2p, run->peer);
    x->my_abort = (uint64_t *)p2p_abort_line(p2p, p2p->rank);
    x->first = p2p->posted[run->peer];
    x->warmup = WARMUP;
    x->iterations = (uint32_t)run->iterations;
    x->timeout_ns = timeout_ns(p2p);
    p2p->posted[run->peer] += WARMUP + (uint64_t)run->iterations;
    if (!p2p_cuda_run_exchange(x, &end, &ns))
        return tr_error(TR_ERR_CUDA, "%s", p2p_cuda_error());
    *seconds = run->forward ? (double)ns * 1e-9 : 0;
    return end_of(end, run->peer);
}

enum tr_status p2p_sm_flag(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    struct p2p_cuda_exchange x = {.bytes = 0};
    return exchange(p2p, run, &x, seconds);
}

/* ---- Where the data are ------------------------------------------------------------------------------------------ */

static char *peer_source(const struct p2p *p2p, const struct p2p_run *run)
{
    return p2p_shared_at(p2p, run->peer);
}

static char *peer_sink(const struct p2p *p2p, const struct p2p_run *run)
{
    return p2p_shared_at(p2p, run->peer) + p2p->slot_bytes;
}

enum tr_status p2p_store_message(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    struct p2p_cuda_exchange x = {.to = peer_sink(p2p, run), .from = p2p->source, .bytes = run->bytes};
    return exchange(p2p, run, &x, seconds);
}

enum tr_status p2p_load_message(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    struct p2p_cuda_exchange x = {.to = p2p->sink, .from = peer_source(p2p, run), .bytes = run->bytes, .pulls = 1};
    return exchange(p2p, run, &x, seconds);
}

/* ---- Transfers in a row ------------------------------------------------------------------------------------------ */

typedef bool copier(void *to, const void *from, size_t bytes);

static enum tr_status copies(const struct p2p_run *run, copier *copy, const char *(*error)(void), void *to,
                             const void *from, double *seconds)
{
    if (!bench_cuda_clock_start())
        return tr_error(TR_ERR_CUDA, "%s", bench_cuda_error());
    for (int i = 0; i < run->iterations; i++)
        if (!copy(to, from, run->bytes))
            return tr_error(TR_ERR_CUDA, "%s", error());
    return bench_cuda_clock_stop(seconds) ? TR_OK : tr_error(TR_ERR_CUDA, "%s", bench_cuda_error());
}

enum tr_status p2p_store_two_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    return copies(run, p2p_cuda_copy, p2p_cuda_error, peer_sink(p2p, run), p2p->source, seconds);
}

enum tr_status p2p_load_two_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    return copies(run, p2p_cuda_copy, p2p_cuda_error, p2p->sink, peer_source(p2p, run), seconds);
}

enum tr_status p2p_ce_two_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    return copies(run, bench_cuda_copy, bench_cuda_error, peer_sink(p2p, run), p2p->source, seconds);
}

/* One way only one rank of the pair does anything. */
static enum tr_status alone(struct p2p *p2p, const struct p2p_run *run, bool acts, p2p_runner *act, double *seconds)
{
    *seconds = 0;
    return acts ? act(p2p, run, seconds) : TR_OK;
}

enum tr_status p2p_store_one_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    return alone(p2p, run, run->forward, p2p_store_two_way, seconds);
}

enum tr_status p2p_load_one_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    return alone(p2p, run, !run->forward, p2p_load_two_way, seconds);
}

enum tr_status p2p_ce_one_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    return alone(p2p, run, run->forward, p2p_ce_two_way, seconds);
}

/*
 * cuda_channel.cuh - what every kernel does around its steps. A thread block is a channel: it runs the rank's program on
 * its share of the vector, with mailboxes and flags of its own.
 */
#ifndef TR_CUDA_CHANNEL_CUH
#define TR_CUDA_CHANNEL_CUH

#include "collectives/cuda_kernel.h"
#include "collectives/cuda_memory.cuh"
#include "collectives/program.h"

struct Channel {
    const tr_cuda_call *call;
    char *const *domain; /* of each rank; this and what follows is in shared memory */
    const tr_cuda_step *steps;
    const uint64_t *refs;
    const tr_program_wait *waits;
    const uint8_t *signals;
    uint32_t index;
    uint64_t state; /* epoch below, abort word above; see epoch_of() */
};

/* Nothing looks at the state before it must: the load is in flight beside those of the first step. */
static __device__ __forceinline__ uint32_t epoch_of(const Channel &ch)
{
    return (uint32_t)ch.state;
}

/* From a mailbox address in the program to this channel's, this epoch's. */
static __device__ __forceinline__ uint64_t mailbox_shift(const Channel &ch)
{
    return (ch.state & 1 ? ch.call->half_bytes : 0) + ch.index * ch.call->channel_bytes;
}

/* The epoch after this one: 0 and 1 are left out on wrap-around, so that memory never written (0) matches no epoch and the
 * parity alternates. */
static __device__ __forceinline__ uint32_t next_epoch(uint32_t epoch)
{
    return epoch == 0xffffffffu ? 2 : epoch + 1;
}

/* Bring the program into shared memory, wait for the stream's earlier work, and read the state. All threads call it. */
static __device__ __forceinline__ void channel_begin(Channel &ch, const tr_cuda_call &call, const uint64_t *blob,
                                                     uint64_t *shared)
{
    for (uint32_t i = threadIdx.x; i < call.blob_bytes / 8; i += blockDim.x)
        shared[i] = blob[i];
    const char *bytes = (const char *)shared;
    ch.call = &call;
    ch.index = blockIdx.x;
    ch.domain = (char *const *)shared;
    ch.steps = (const tr_cuda_step *)(shared + call.nranks);
    ch.refs = (const uint64_t *)(bytes + call.refs);
    ch.waits = (const tr_program_wait *)(bytes + call.waits);
    ch.signals = (const uint8_t *)(bytes + call.signals);
    const char *state_line = (const char *)blob[call.rank] + ch.index * TR_CUDA_LINE;

    wait_for_previous_kernel();
    ch.state = load_word(state_line);
    let_next_kernel_launch();
    __syncthreads();
}

/* Advance the epoch of this channel and of those that no block of this call stands for. Every thread of the block has
 * read the state: channel_begin() ends with a barrier. */
static __device__ __forceinline__ void advance_epoch(const Channel &ch)
{
    char *own = ch.domain[ch.call->rank];
    for (uint32_t i = ch.index + threadIdx.x * gridDim.x; i < ch.call->max_channels; i += blockDim.x * gridDim.x)
        *(volatile uint32_t *)(own + i * TR_CUDA_LINE) = next_epoch(epoch_of(ch));
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

/* Counts a thread's spins; the clock and the abort word are looked at once in a while. */
struct Patience {
    uint32_t spins;
    uint64_t since;
};

/* The first reason stands: what follows from it must not hide it. */
static __device__ __noinline__ void break_communicator(tr_cuda_report *to, char *const *domain, uint32_t nranks,
                                                       uint32_t max_channels, tr_cuda_report why)
{
    volatile tr_cuda_report *report = to;
    if (report->reason == TR_CUDA_FINE) {
        report->peer = why.peer;
        report->step = why.step;
        report->epoch = why.epoch;
        report->collective = why.collective;
        __threadfence_system();
        report->reason = why.reason;
    }
    for (uint32_t r = 0; r < nranks; r++)
        for (uint32_t i = 0; i < max_channels; i++)
            *(volatile uint32_t *)(domain[r] + i * TR_CUDA_LINE + 4) = 1;
}

/* Tell the host why, and every rank to stop. */
static __device__ __forceinline__ void give_up(const Channel &ch, uint32_t reason, uint32_t peer, uint32_t step)
{
    tr_cuda_report why = {reason, peer, step, epoch_of(ch), ch.call->collective};
    break_communicator(ch.call->report, ch.domain, ch.call->nranks, ch.call->max_channels, why);
}

/* After an unsuccessful look. True: stop waiting, the communicator is broken. */
static __device__ __forceinline__ bool out_of_patience(const Channel &ch, Patience &p, uint32_t peer, uint32_t step)
{
    if (++p.spins & 1023)
        return false;
    uint64_t now = nanoseconds();
    if (p.since == 0)
        p.since = now;
    bool aborted = load_word(ch.domain[ch.call->rank] + ch.index * TR_CUDA_LINE) >> 32;
    if (!aborted && now - p.since < ch.call->timeout_ns)
        return false;
    give_up(ch, aborted ? TR_CUDA_ABORTED : TR_CUDA_TIMEOUT, peer, step);
    return true;
}

/* Queued calls after an abort end at once. True: this one must. */
static __device__ __forceinline__ bool was_aborted(const Channel &ch)
{
    bool aborted = ch.state >> 32;
    if (aborted && threadIdx.x == 0)
        give_up(ch, TR_CUDA_ABORTED, ch.call->rank, TR_CUDA_AT_ENTRY);
    return aborted;
}

static __device__ __forceinline__ uint64_t *flag_of(const Channel &ch, uint32_t at, uint32_t from)
{
    uint32_t line = ch.index * ch.call->nranks + from;
    return (uint64_t *)(ch.domain[at] + ch.call->flags + line * TR_CUDA_LINE);
}

/* Tell the ranks signals[first .. first + count); a thread a peer. */
static __device__ __forceinline__ void announce(const Channel &ch, uint32_t first, uint32_t count, uint32_t position)
{
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        store_release(flag_of(ch, ch.signals[first + i], ch.call->rank), (uint64_t)epoch_of(ch) << 32 | position);
}

/* Wait for the positions that the waits first .. first + count name, for `piece`; a thread a wait. False: give up. */
static __device__ __forceinline__ bool await(const Channel &ch, uint32_t first, uint32_t count, uint32_t piece,
                                             uint32_t step)
{
    for (uint32_t w = threadIdx.x; w < count; w += blockDim.x) {
        const tr_program_wait &wait = ch.waits[first + w];
        if (piece < wait.delta)
            continue;
        uint32_t position = wait.entry ? 1 : 2 + piece * ch.call->stride + wait.offset;
        uint64_t target = (uint64_t)epoch_of(ch) << 32 | position;
        const uint64_t *flag = flag_of(ch, ch.call->rank, wait.rank);
        Patience patience = {0, 0};
        while ((int64_t)(load_acquire(flag) - target) < 0)
            if (out_of_patience(ch, patience, wait.rank, step))
                return false;
    }
    return true;
}

/* ---- Where things stand ------------------------------------------------------------------------------------------ */

/* Bytes of a step's chunk in the tile that begins at byte `tile_start` of it. */
static __device__ __forceinline__ uint64_t tile_bytes(const Channel &ch, const tr_cuda_step &step, uint64_t tile_start)
{
    uint64_t left = step.bytes > tile_start ? step.bytes - tile_start : 0;
    return left < ch.call->tile ? left : ch.call->tile;
}

static __device__ __forceinline__ bool is_box(uint64_t ref)
{
    return ref & TR_CUDA_BOX;
}

static __device__ __forceinline__ uint32_t sender_of(uint64_t ref)
{
    return (uint32_t)(ref >> TR_CUDA_SENDER_SHIFT) & TR_CUDA_SENDER_MASK;
}

/* What a reference stands for in this call: `user_shift` for IN and OUT, `box_shift` for a mailbox. */
static __device__ __forceinline__ char *resolve(uint64_t ref, uint64_t user_shift, uint64_t box_shift)
{
    return (char *)((ref & TR_CUDA_ADDRESS) + (is_box(ref) ? box_shift : user_shift));
}

#endif

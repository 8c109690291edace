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
    uint32_t epoch;
    bool aborted; /* before this call began */
};

/* From a mailbox address in the program to this channel's, this epoch's. */
static __device__ __forceinline__ uint64_t mailbox_shift(const Channel &ch)
{
    return (ch.epoch & 1 ? ch.call->half_bytes : 0) + ch.index * ch.call->channel_bytes;
}

/* Epochs go round and leave out 0 and 1, so that memory never written (0) matches none and the parity alternates. */
static const uint32_t LAST_EPOCH = 0xffffffffu, SECOND_ROUND = 2;

static __device__ __forceinline__ uint32_t next_epoch(uint32_t epoch)
{
    return epoch == LAST_EPOCH ? SECOND_ROUND : epoch + 1;
}

/* Whether a flag or packet of epoch `seen` is of this call or of the next: a peer is never further ahead. */
static __device__ __forceinline__ bool is_current(uint32_t seen, uint32_t epoch)
{
    return seen == epoch || seen == next_epoch(epoch);
}

/* What was written 2^32 calls ago and not since must not be taken for new. The call that ends a round of epochs and the one
 * that begins the next each clear the packets of the other one's half, and the flags of calls long past, block by block.
 * Peers may write there again only after this rank's messages of this call, all of which come later. */
static __device__ __noinline__ void clear_past(char *own, const tr_cuda_call *call, uint32_t epoch)
{
    uint64_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t at = first * 16; at < call->packet_bytes; at += stride * 16) {
        bool ll = at < call->ll_bytes;
        uint64_t within = ll ? at : at - call->ll_bytes,
                 bytes = ll ? call->ll_bytes : call->packet_bytes - call->ll_bytes;
        if ((within >= bytes / 2) != (epoch & 1))
            store_words(own + call->packets + at, 0, 0);
    }
    for (uint64_t line = first; line < call->max_channels * call->nranks; line += stride) {
        unsigned long long *flag = (unsigned long long *)(own + call->flags + line * TR_CUDA_LINE);
        uint64_t seen = load_word(flag);
        if (!is_current((uint32_t)(seen >> 32), epoch))
            atomicCAS_system(flag, seen, 0);
    }
    __syncthreads();
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
    uint64_t state = load_word(state_line);
    let_next_kernel_launch();
    __syncthreads();
    ch.epoch = (uint32_t)state;
    ch.aborted = state >> 32;
    if (ch.epoch == LAST_EPOCH || ch.epoch == SECOND_ROUND)
        clear_past(ch.domain[call.rank], ch.call, ch.epoch);
}

/* Advance the epoch of this channel and of those that no block of this call stands for. Every thread of the block has
 * read the state: channel_begin() ends with a barrier. */
static __device__ __forceinline__ void advance_epoch(const Channel &ch)
{
    char *own = ch.domain[ch.call->rank];
    for (uint32_t i = ch.index + threadIdx.x * gridDim.x; i < ch.call->max_channels; i += blockDim.x * gridDim.x)
        *(volatile uint32_t *)(own + i * TR_CUDA_LINE) = next_epoch(ch.epoch);
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
    tr_cuda_report why = {reason, peer, step, ch.epoch, ch.call->collective};
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
    bool aborted =
        load_word(ch.domain[ch.call->rank] + ch.index * TR_CUDA_LINE) >> 32 || load_word(ch.call->home) >> 32;
    if (!aborted && now - p.since < ch.call->timeout_ns)
        return false;
    give_up(ch, aborted ? TR_CUDA_ABORTED : TR_CUDA_TIMEOUT, peer, step);
    return true;
}

/* Queued calls after an abort end at once. True: this one must. */
static __device__ __forceinline__ bool was_aborted(const Channel &ch)
{
    if (ch.aborted && threadIdx.x == 0)
        give_up(ch, TR_CUDA_ABORTED, ch.call->rank, TR_CUDA_AT_ENTRY);
    return ch.aborted;
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
        store_release(flag_of(ch, ch.signals[first + i], ch.call->rank), (uint64_t)ch.epoch << 32 | position);
}

/* Whether a peer's flag says that it got to `position` of this call, or that it is in the next one already. */
static __device__ __forceinline__ bool has_arrived(const Channel &ch, uint64_t flag, uint32_t position)
{
    uint32_t epoch = (uint32_t)(flag >> 32);
    return epoch == ch.epoch ? (uint32_t)flag >= position : epoch == next_epoch(ch.epoch);
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
        const uint64_t *flag = flag_of(ch, ch.call->rank, wait.rank);
        Patience patience = {0, 0};
        while (!has_arrived(ch, load_acquire(flag), position))
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

/*
 * cuda_ll.cuh - the LL protocol: a message is a row of 16-byte packets, each 4 bytes of data and a 4-byte flag, twice. A
 * reader polls the packet itself, so there is neither barrier nor fence, and 64-bit stores are whole on every link.
 *
 *     packet   | data 0 | epoch | data 1 | epoch |
 *
 * A thread carries its packets through the whole schedule on its own: what it reads in one step is what other ranks'
 * threads of the same number wrote. A message has at least one packet, even when its tile is empty.
 */
#ifndef TR_CUDA_LL_CUH
#define TR_CUDA_LL_CUH

#include "collectives/cuda_arithmetic.cuh"
#include "collectives/cuda_channel.cuh"

enum { LL_BATCH = 8 }; /* sources whose packets are polled together */

static __device__ __forceinline__ void ll_store(char *to, uint64_t data, uint32_t epoch)
{
    uint64_t flag = (uint64_t)epoch << 32;
    store_words(to, flag | (uint32_t)data, flag | data >> 32);
}

/* One look at a packet. True: it is there, and `data` is set. */
static __device__ __forceinline__ bool ll_load(const char *from, uint32_t epoch, uint64_t &data)
{
    uint64_t a, b;
    load_words(from, a, b);
    data = (uint32_t)a | b << 32;
    return (uint32_t)(a >> 32) == epoch && (uint32_t)(b >> 32) == epoch;
}

/* `count` elements (at most 8 bytes) at any element boundary; the rest of the word is undefined but set. */
template <typename T> static __device__ __forceinline__ uint64_t load_up_to_8(const char *from, uint32_t count)
{
    Pack<T, 8> pack;
    if (count == Pack<T, 8>::N && ((uintptr_t)from & 7) == 0)
        return load_word(from);
    pack.word[0] = 0;
#pragma unroll
    for (int i = 0; i < Pack<T, 8>::N; i++)
        if ((uint32_t)i < count)
            pack.element[i] = load_element<T>(from + i * sizeof(T));
    return pack.word[0];
}

template <typename T> static __device__ __forceinline__ void store_up_to_8(char *to, uint64_t word, uint32_t count)
{
    Pack<T, 8> pack;
    pack.word[0] = word;
    if (count == Pack<T, 8>::N && ((uintptr_t)to & 7) == 0) {
        *(uint64_t *)to = word;
        return;
    }
#pragma unroll
    for (int i = 0; i < Pack<T, 8>::N; i++)
        if ((uint32_t)i < count)
            ((T *)to)[i] = pack.element[i];
}

/* Poll one packet until it is there. False: give up. */
static __device__ __forceinline__ bool ll_wait(const Channel &ch, const char *from, uint64_t ref, uint32_t step,
                                               uint64_t &word)
{
    Patience patience = {0, 0};
    while (!ll_load(from, ch.epoch, word))
        if (out_of_patience(ch, patience, sender_of(ref), step))
            return false;
    return true;
}

/* What one packet number means in a step: which bytes of the chunk. */
struct LLPlace {
    uint32_t elements; /* in the packet */
    uint64_t user_shift;
    bool exists;
};

template <typename T>
static __device__ __forceinline__ LLPlace ll_place(const Channel &ch, const tr_cuda_step &step, uint32_t packet)
{
    uint64_t tile_start = ch.index * ch.call->tile;
    uint32_t bytes = (uint32_t)tile_bytes(ch, step, tile_start), first = packet * TR_CUDA_LL_PAYLOAD;
    LLPlace place;
    place.exists = first < bytes || packet == 0;
    place.elements = bytes - first < TR_CUDA_LL_PAYLOAD ? (bytes - first) / sizeof(T) : Pack<T, 8>::N;
    place.user_shift = tile_start + first;
    return place;
}

template <typename T>
static __device__ __forceinline__ void ll_put(const Channel &ch, uint64_t ref, const LLPlace &place, uint32_t packet,
                                              uint64_t word)
{
    char *base = (char *)(ref & TR_CUDA_ADDRESS);
    if (is_box(ref))
        ll_store(base + mailbox_shift(ch) + packet * TR_CUDA_LL_PACKET, word, ch.epoch);
    else
        store_up_to_8<T>(base + place.user_shift, word, place.elements);
}

/* The words of up to LL_BATCH sources: refs[first_ref ...] of one step, or (COPIES) the one source each of as many steps. All
 * polls are in flight at once. `place` is the one step's. False: give up. */
template <typename T, bool COPIES>
static __device__ __forceinline__ bool ll_gather(const Channel &ch, const tr_cuda_step *step, uint32_t count,
                                                 const uint64_t *ref, LLPlace place, uint32_t packet, uint32_t number,
                                                 uint64_t (&word)[LL_BATCH])
{
    const char *from[LL_BATCH];
    uint32_t missing = 0;
#pragma unroll
    for (int k = 0; k < LL_BATCH; k++) {
        if ((uint32_t)k >= count)
            continue;
        if (COPIES)
            place = ll_place<T>(ch, step[k], packet);
        uint64_t source = COPIES ? ch.refs[step[k].ref] : ref[k];
        from[k] = (const char *)(source & TR_CUDA_ADDRESS);
        if (COPIES && !place.exists)
            continue;
        if (!is_box(source)) {
            word[k] = load_up_to_8<T>(from[k] + place.user_shift, place.elements);
            continue;
        }
        from[k] += mailbox_shift(ch) + packet * TR_CUDA_LL_PACKET;
        missing |= 1u << k;
    }
    Patience patience = {0, 0};
    while (missing) {
        uint32_t found = 0;
#pragma unroll
        for (int k = 0; k < LL_BATCH; k++)
            if (missing & 1u << k && ll_load(from[k], ch.epoch, word[k]))
                found |= 1u << k;
        missing &= ~found;
        int k = __ffs(missing) - 1;
        if (missing && out_of_patience(ch, patience, sender_of(COPIES ? ch.refs[step[k].ref] : ref[k]), number))
            return false;
    }
    return true;
}

/* One packet of steps that only copy. False: give up. */
template <typename T>
static __device__ __forceinline__ bool ll_copies(const Channel &ch, uint32_t s, uint32_t count, uint32_t packet)
{
    uint64_t word[LL_BATCH];
    if (!ll_gather<T, true>(ch, ch.steps + s, count, NULL, LLPlace(), packet, s, word))
        return false;
#pragma unroll
    for (int k = 0; k < LL_BATCH; k++) {
        if ((uint32_t)k >= count)
            continue;
        const tr_cuda_step &step = ch.steps[s + k];
        LLPlace place = ll_place<T>(ch, step, packet);
        for (uint32_t d = 0; d < step.ndst && place.exists; d++)
            ll_put<T>(ch, ch.refs[step.ref + 1 + d], place, packet, word[k]);
    }
    return true;
}

/* One packet of one step. False: give up. */
template <typename T, int KIND>
static __device__ __forceinline__ bool ll_packet(const Channel &ch, uint32_t s, uint32_t packet)
{
    const tr_cuda_step &step = ch.steps[s];
    LLPlace place = ll_place<T>(ch, step, packet);
    if (!place.exists)
        return true;
    uint64_t word[LL_BATCH];
    Pack<T, 8> pack;
    Sums<T, 8> sums;
    for (uint32_t k = 0; k < step.nsrc; k += LL_BATCH) {
        uint32_t count = step.nsrc - k < LL_BATCH ? step.nsrc - k : LL_BATCH;
        if (!ll_gather<T, false>(ch, NULL, count, ch.refs + step.ref + k, place, packet, s, word))
            return false;
#pragma unroll
        for (int i = 0; i < LL_BATCH; i++) {
            if ((uint32_t)i >= count)
                continue;
            pack.word[0] = word[i];
            if (k + i == 0)
                sums.set(pack);
            else
                sums.template reduce<KIND>(ch.call->op, pack);
        }
    }
    if (step.final && ch.call->average)
        sums.divide(ch.call->average);
    if (step.nsrc > 1 || (step.final && ch.call->average))
        sums.get(pack);
    for (uint32_t d = 0; d < step.ndst; d++)
        ll_put<T>(ch, ch.refs[step.ref + step.nsrc + d], place, packet, pack.word[0]);
    return true;
}

/* The whole program for one packet number. */
template <typename T, int KIND> static __device__ __forceinline__ bool ll_run(const Channel &ch, uint32_t packet)
{
    for (uint32_t s = 0; s < ch.call->nsteps;) {
        uint32_t copies = ch.steps[s].copies;
        bool fine = copies > 1 ? ll_copies<T>(ch, s, copies, packet) : ll_packet<T, KIND>(ch, s, packet);
        if (!fine)
            return false;
        s += copies;
    }
    return true;
}

template <typename T, int KIND>
__global__ void __launch_bounds__(TR_CUDA_MAX_THREADS, 1) ll_kernel(const __grid_constant__ tr_cuda_large_args args)
{
    extern __shared__ uint64_t shared[];
    Channel ch;
    channel_begin(ch, args.call, args.blob, shared);
    announce(ch, args.call.entry_signal, args.call.entry_nsignal, 1);
    bool fine = !was_aborted(ch);
    for (uint32_t packet = threadIdx.x; fine && (packet == 0 || packet * TR_CUDA_LL_PAYLOAD < args.call.tile);
         packet += blockDim.x)
        fine = ll_run<T, KIND>(ch, packet);
    if (fine)
        await(ch, args.call.exit_wait, args.call.exit_nwait, 0, TR_CUDA_AT_EXIT);
    advance_epoch(ch);
}

#endif

/*
 * cuda_fan.cuh - the LL protocol for the shortest messages: eight lanes share a packet, a lane for each source and each
 * destination, so that nothing but the links' latency is left. Same packets, same programs as cuda_ll.cuh.
 */
#ifndef TR_CUDA_FAN_CUH
#define TR_CUDA_FAN_CUH

#include "collectives/cuda_ll.cuh"

/* The lanes of a packet meet in votes and shuffles; all lanes of a warp take every turn together. */
static __device__ __forceinline__ bool fan_agree(bool fine)
{
    return __all_sync(0xffffffffu, fine);
}

/* One source of a packet. False: give up. */
template <typename T>
static __device__ __forceinline__ bool fan_get(const Channel &ch, uint64_t ref, const LLPlace &place, uint32_t packet,
                                               uint32_t s, uint64_t &word)
{
    const char *base = (const char *)(ref & TR_CUDA_ADDRESS);
    if (is_box(ref))
        return ll_wait(ch, base + mailbox_shift(ch) + packet * TR_CUDA_LL_PACKET, ref, s, word);
    word = load_up_to_8<T>(base + place.user_shift, place.elements);
    return true;
}

/* Steps that only copy: a lane a step. False: give up. */
template <typename T>
static __device__ __forceinline__ bool fan_copies(const Channel &ch, uint32_t s, uint32_t count, uint32_t packet)
{
    uint32_t lane = threadIdx.x % TR_CUDA_FAN_LANES;
    bool fine = true;
    if (lane < count) {
        const tr_cuda_step &step = ch.steps[s + lane];
        LLPlace place = ll_place<T>(ch, step, packet);
        uint64_t word = 0;
        if (place.exists)
            fine = fan_get<T>(ch, ch.refs[step.ref], place, packet, s, word);
        for (uint32_t d = 0; d < step.ndst && place.exists && fine; d++)
            ll_put<T>(ch, ch.refs[step.ref + 1 + d], place, packet, word);
    }
    return fan_agree(fine);
}

/* One step: a lane a source, then a lane a destination; every lane adds up all of them, in order. False: give up. */
template <typename T, int KIND>
static __device__ __forceinline__ bool fan_packet(const Channel &ch, uint32_t s, uint32_t packet)
{
    uint32_t lane = threadIdx.x % TR_CUDA_FAN_LANES;
    const tr_cuda_step &step = ch.steps[s];
    LLPlace place = ll_place<T>(ch, step, packet);
    Pack<T, 8> pack;
    Sums<T, 8> sums;
    for (uint32_t k = 0; k < step.nsrc; k += TR_CUDA_FAN_LANES) {
        uint32_t count = step.nsrc - k < TR_CUDA_FAN_LANES ? step.nsrc - k : TR_CUDA_FAN_LANES;
        uint64_t word = 0;
        bool fine = true;
        if (place.exists) /* a lane without a source of its own repeats the first */
            fine = fan_get<T>(ch, ch.refs[step.ref + k + (lane < count ? lane : 0)], place, packet, s, word);
        if (!fan_agree(fine))
            return false;
        for (uint32_t i = 0; i < count; i++) {
            pack.word[0] = step.nsrc == 1 ? word : __shfl_sync(0xffffffffu, word, i, TR_CUDA_FAN_LANES);
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
    for (uint32_t d = lane; d < step.ndst && place.exists; d += TR_CUDA_FAN_LANES)
        ll_put<T>(ch, ch.refs[step.ref + step.nsrc + d], place, packet, pack.word[0]);
    return true;
}

/* A block has TR_CUDA_FAN_LANES threads for each packet of the tile. */
template <typename T, int KIND> static __device__ __forceinline__ bool fan_run(const Channel &ch, uint32_t packet)
{
    for (uint32_t s = 0; s < ch.call->nsteps;) {
        uint32_t copies = ch.steps[s].copies;
        bool fine = copies > 1 ? fan_copies<T>(ch, s, copies, packet) : fan_packet<T, KIND>(ch, s, packet);
        if (!fine)
            return false;
        s += copies;
    }
    return true;
}

template <typename T, int KIND>
__global__ void __launch_bounds__(TR_CUDA_MAX_THREADS, 1) fan_kernel(const __grid_constant__ tr_cuda_small_args args)
{
    extern __shared__ uint64_t shared[];
    Channel ch;
    channel_begin(ch, args.call, args.blob, shared);
    announce(ch, args.call.entry_signal, args.call.entry_nsignal, 1);
    bool fine = !was_aborted(ch) && fan_run<T, KIND>(ch, threadIdx.x / TR_CUDA_FAN_LANES);
    if (fine)
        await(ch, args.call.exit_wait, args.call.exit_nwait, 0, TR_CUDA_AT_EXIT);
    advance_epoch(ch);
}

#endif

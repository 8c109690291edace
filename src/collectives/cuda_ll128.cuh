/*
 * cuda_ll128.cuh - the LL128 protocol: a message is a row of 128-byte lines, 120 bytes of data and an 8-byte flag. It needs
 * links that deliver a line written by one store instruction of a warp as a whole, which NVLink does.
 *
 * Eight lanes carry a line, 16 bytes each; the last 8 bytes of the eighth are the flag. A warp carries four lines through
 * the whole schedule; all of its lanes take every turn together.
 */
#ifndef TR_CUDA_LL128_CUH
#define TR_CUDA_LL128_CUH

#include "collectives/cuda_arithmetic.cuh"
#include "collectives/cuda_channel.cuh"
#include "collectives/cuda_ll.cuh"

enum {
    LINE_LANES = 8,
    WARP_LINES = 32 / LINE_LANES,
    LL128_BATCH = 4, /* sources polled together */
};

static const uint32_t WHOLE_WARP = 0xffffffffu;

static __device__ __forceinline__ bool carries_flag(void)
{
    return threadIdx.x % LINE_LANES == LINE_LANES - 1;
}

/* Elements of this lane's word `w` (0 or 1), given the bytes of the tile from its first word on. */
template <typename T> static __device__ __forceinline__ uint32_t lane_elements(int64_t left, int w)
{
    if (w == 1 && carries_flag())
        return 0;
    left -= 8 * w;
    return left <= 0 ? 0 : left < 8 ? (uint32_t)(left / sizeof(T)) : Pack<T, 8>::N;
}

template <typename T>
static __device__ __forceinline__ void load_user(const char *from, int64_t left, Pack<T, 16> &pack)
{
#pragma unroll
    for (int w = 0; w < 2; w++)
        pack.word[w] = load_up_to_8<T>(from + 8 * w, lane_elements<T>(left, w));
}

template <typename T> static __device__ __forceinline__ void store_user(char *to, int64_t left, const Pack<T, 16> &pack)
{
#pragma unroll
    for (int w = 0; w < 2; w++)
        store_up_to_8<T>(to + 8 * w, pack.word[w], lane_elements<T>(left, w));
}

/* What a line number means in a step for this lane. */
struct LinePlace {
    bool any;        /* the warp has a line in this step */
    bool takes_part; /* this lane has */
    int64_t left;    /* bytes of the tile from this lane's first on */
    uint64_t user_shift;
};

static __device__ __forceinline__ LinePlace line_place(const Channel &ch, const tr_cuda_step &step, uint32_t first_line)
{
    uint64_t tile_start = ch.index * ch.call->tile;
    uint32_t bytes = (uint32_t)tile_bytes(ch, step, tile_start);
    uint32_t line = first_line + threadIdx.x % 32 / LINE_LANES;
    uint32_t first = line * TR_CUDA_LL128_PAYLOAD + threadIdx.x % LINE_LANES * 16;
    LinePlace place;
    place.any = first_line * TR_CUDA_LL128_PAYLOAD < bytes || first_line == 0;
    place.takes_part = line * TR_CUDA_LL128_PAYLOAD < bytes || line == 0;
    place.left = (int64_t)bytes - first;
    place.user_shift = tile_start + first;
    return place;
}

static __device__ __forceinline__ uint64_t line_box_shift(const Channel &ch, uint32_t first_line)
{
    return mailbox_shift(ch) + (uint64_t)first_line * TR_CUDA_LL128_LINE + threadIdx.x % 32 * 16;
}

template <typename T>
static __device__ __forceinline__ void line_put(const Channel &ch, uint64_t ref, const LinePlace &place,
                                                uint32_t first_line, const Pack<T, 16> &pack)
{
    char *base = (char *)(ref & TR_CUDA_ADDRESS);
    if (!is_box(ref))
        store_user<T>(base + place.user_shift, place.left, pack);
    else
        store_words(base + line_box_shift(ch, first_line), pack.word[0], carries_flag() ? ch.epoch : pack.word[1]);
}

/* Up to LL128_BATCH sources: refs[0 ...] of one step, or (COPIES) the one source each of as many steps. All polls are in
 * flight at once; the warp goes on when all of its lines are there. `place` is the one step's. False: give up (the same for
 * the whole warp). */
template <typename T, bool COPIES>
static __device__ __forceinline__ bool ll128_gather(const Channel &ch, const tr_cuda_step *step, uint32_t count,
                                                    const uint64_t *ref, LinePlace place, uint32_t first_line,
                                                    uint32_t number, Pack<T, 16> (&pack)[LL128_BATCH])
{
    const char *from[LL128_BATCH];
    uint32_t missing = 0, takes_part = 0;
#pragma unroll
    for (int k = 0; k < LL128_BATCH; k++) {
        if ((uint32_t)k >= count)
            continue;
        if (COPIES)
            place = line_place(ch, step[k], first_line);
        uint64_t source = COPIES ? ch.refs[step[k].ref] : ref[k];
        from[k] = (const char *)(source & TR_CUDA_ADDRESS);
        takes_part |= place.takes_part ? 1u << k : 0;
        if (is_box(source)) {
            from[k] += line_box_shift(ch, first_line);
            missing |= place.any ? 1u << k : 0;
        } else if (place.takes_part) {
            load_user<T>(from[k] + place.user_shift, place.left, pack[k]);
        }
    }
    Patience patience = {0, 0};
    while (missing) {
        uint32_t found = 0;
#pragma unroll
        for (int k = 0; k < LL128_BATCH; k++) {
            if (!(missing & 1u << k))
                continue;
            bool here = true;
            if (takes_part & 1u << k) {
                load_words(from[k], pack[k].word[0], pack[k].word[1]);
                here = !carries_flag() || pack[k].word[1] == ch.epoch;
            }
            if (__all_sync(WHOLE_WARP, here))
                found |= 1u << k;
        }
        missing &= ~found;
        if (!missing)
            break;
        uint32_t k = __ffs(missing) - 1;
        uint64_t source = COPIES ? ch.refs[step[k].ref] : ref[k];
        bool stop = threadIdx.x % 32 == 0 && out_of_patience(ch, patience, sender_of(source), number);
        if (__any_sync(WHOLE_WARP, stop))
            return false;
    }
    return true;
}

/* Four lines of steps that only copy. False: give up. */
template <typename T>
static __device__ __forceinline__ bool ll128_copies(const Channel &ch, uint32_t s, uint32_t count, uint32_t first_line)
{
    Pack<T, 16> pack[LL128_BATCH];
    if (!ll128_gather<T, true>(ch, ch.steps + s, count, NULL, LinePlace(), first_line, s, pack))
        return false;
#pragma unroll
    for (int k = 0; k < LL128_BATCH; k++) {
        if ((uint32_t)k >= count)
            continue;
        const tr_cuda_step &step = ch.steps[s + k];
        LinePlace place = line_place(ch, step, first_line);
        for (uint32_t d = 0; d < step.ndst && place.takes_part; d++)
            line_put<T>(ch, ch.refs[step.ref + 1 + d], place, first_line, pack[k]);
    }
    __syncwarp();
    return true;
}

/* Four lines of one step. False: give up. */
template <typename T, int KIND>
static __device__ __forceinline__ bool ll128_lines(const Channel &ch, uint32_t s, uint32_t first_line)
{
    const tr_cuda_step &step = ch.steps[s];
    LinePlace place = line_place(ch, step, first_line);
    if (!place.any)
        return true;
    Pack<T, 16> pack[LL128_BATCH];
    Sums<T, 16> sums;
    for (uint32_t k = 0; k < step.nsrc; k += LL128_BATCH) {
        uint32_t count = step.nsrc - k < LL128_BATCH ? step.nsrc - k : LL128_BATCH;
        if (!ll128_gather<T, false>(ch, NULL, count, ch.refs + step.ref + k, place, first_line, s, pack))
            return false;
#pragma unroll
        for (int i = 0; i < LL128_BATCH; i++) {
            if ((uint32_t)i >= count)
                continue;
            if (k + i == 0)
                sums.set(pack[i]);
            else
                sums.template reduce<KIND>(ch.call->op, pack[i]);
        }
    }
    if (step.final && ch.call->average)
        sums.divide(ch.call->average);
    if (step.nsrc > 1 || (step.final && ch.call->average))
        sums.get(pack[0]);
    for (uint32_t d = 0; d < step.ndst && place.takes_part; d++)
        line_put<T>(ch, ch.refs[step.ref + step.nsrc + d], place, first_line, pack[0]);
    __syncwarp();
    return true;
}

/* The whole program for the four lines from `first_line` on. */
template <typename T, int KIND> static __device__ __forceinline__ bool ll128_run(const Channel &ch, uint32_t first_line)
{
    for (uint32_t s = 0; s < ch.call->nsteps;) {
        uint32_t copies = ch.steps[s].copies < LL128_BATCH ? ch.steps[s].copies : LL128_BATCH;
        bool fine = copies > 1 ? ll128_copies<T>(ch, s, copies, first_line) : ll128_lines<T, KIND>(ch, s, first_line);
        if (!fine)
            return false;
        s += copies;
    }
    return true;
}

template <typename T, int KIND>
__global__ void __launch_bounds__(TR_CUDA_MAX_THREADS, 1) ll128_kernel(const __grid_constant__ tr_cuda_large_args args)
{
    extern __shared__ uint64_t shared[];
    Channel ch;
    channel_begin(ch, args.call, args.blob, shared);
    announce(ch, args.call.entry_signal, args.call.entry_nsignal, 1);
    bool fine = !was_aborted(ch);
    for (uint32_t line = threadIdx.x / 32 * WARP_LINES;
         fine && (line == 0 || line * TR_CUDA_LL128_PAYLOAD < args.call.tile); line += blockDim.x / 32 * WARP_LINES)
        fine = ll128_run<T, KIND>(ch, line);
    if (fine)
        await(ch, args.call.exit_wait, args.call.exit_nwait, 0, TR_CUDA_AT_EXIT);
    advance_epoch(ch);
}

#endif

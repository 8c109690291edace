/*
 * sort.cuh - a stable sort of small keys with their values: least significant digit first, one counting sort a digit
 * (Knuth, The Art of Computer Programming 3, 5.2.5). Keys that are equal stay in order, so that sums over them are the
 * same in every run. (CUB's sort would do, but its host code needs the C++ runtime, which nothing else here does.)
 *
 *     count:    keys of each digit in each tile            counts[digit][tile]
 *     scan:     where each of those begins in the output   exclusive sums, in that order
 *     scatter:  each key to its place: begin + how many of its digit stand before it in its tile
 */
#ifndef KERNELS_SORT_CUH
#define KERNELS_SORT_CUH

#include "kernels/launch.h"
#include "kernels/rows.cuh"

namespace sort
{

enum {
    DIGIT_BITS = 6,
    DIGITS = 1 << DIGIT_BITS,
    THREADS = 256,
    WARPS = THREADS / rows::LANES,
    ROUNDS = 4,                       /* keys of a lane */
    WARP_KEYS = rows::LANES * ROUNDS, /* consecutive ones */
    TILE_KEYS = WARPS * WARP_KEYS,
    SCAN_THREADS = 1024
};

struct Pass {
    unsigned count, tiles;
    int shift; /* of the digit */
    const uint32_t *keys, *values;
    uint32_t *keys_out, *values_out;
    uint32_t *counts; /* [DIGITS][tiles] */
};

__device__ __forceinline__ unsigned digit_of(const Pass &a, uint32_t key)
{
    return key >> a.shift & (DIGITS - 1);
}

/* The index of this lane's key of round `round`, in the order of keys. */
__device__ __forceinline__ unsigned index_of(int round)
{
    return blockIdx.x * TILE_KEYS + threadIdx.x / rows::LANES * WARP_KEYS + round * rows::LANES +
           threadIdx.x % rows::LANES;
}

static __global__ void __launch_bounds__(THREADS) count(const __grid_constant__ Pass a)
{
    __shared__ unsigned counts[DIGITS];
    if (threadIdx.x < DIGITS)
        counts[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        if (index_of(round) < a.count)
            atomicAdd(&counts[digit_of(a, a.keys[index_of(round)])], 1u);
    __syncthreads();
    if (threadIdx.x < DIGITS)
        a.counts[threadIdx.x * a.tiles + blockIdx.x] = counts[threadIdx.x];
}

/* Inclusive sum over the lanes of a warp. */
__device__ __forceinline__ unsigned warp_sum(unsigned value)
{
    unsigned lane = threadIdx.x % rows::LANES;
#pragma unroll
    for (int step = 1; step < rows::LANES; step *= 2) {
        unsigned before = __shfl_up_sync(~0u, value, step);
        value += lane >= (unsigned)step ? before : 0;
    }
    return value;
}

/* Exclusive sums of all counts, by one block. */
static __global__ void __launch_bounds__(SCAN_THREADS) scan(const __grid_constant__ Pass a)
{
    __shared__ unsigned warps[rows::LANES];
    unsigned all = DIGITS * a.tiles, carry = 0, warp = threadIdx.x / rows::LANES;
    for (unsigned begin = 0; begin < all; begin += SCAN_THREADS) {
        unsigned at = begin + threadIdx.x, mine = at < all ? a.counts[at] : 0, upto = warp_sum(mine);
        if (threadIdx.x % rows::LANES == rows::LANES - 1)
            warps[warp] = upto;
        __syncthreads();
        if (warp == 0)
            warps[threadIdx.x] = warp_sum(warps[threadIdx.x]);
        __syncthreads();
        if (at < all)
            a.counts[at] = carry + (warp > 0 ? warps[warp - 1] : 0) + upto - mine;
        carry += warps[SCAN_THREADS / rows::LANES - 1];
        __syncthreads(); /* `warps` is read before the next round writes it */
    }
}

/* The lanes of `active` whose digit is this lane's. */
__device__ __forceinline__ unsigned same_digit(unsigned active, unsigned digit)
{
    unsigned same = active;
#pragma unroll
    for (int bit = 0; bit < DIGIT_BITS; bit++) {
        unsigned ones = __ballot_sync(active, digit >> bit & 1);
        same &= digit >> bit & 1 ? ones : ~ones;
    }
    return same;
}

static __global__ void __launch_bounds__(THREADS) scatter(const __grid_constant__ Pass a)
{
    __shared__ unsigned next[WARPS][DIGITS]; /* first keys of each digit in each warp, then where its next one goes */
    unsigned lane = threadIdx.x % rows::LANES, warp = threadIdx.x / rows::LANES;
    for (unsigned i = lane; i < DIGITS; i += rows::LANES)
        next[warp][i] = 0;
    __syncwarp();
    uint32_t keys[ROUNDS];
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        keys[round] = index_of(round) < a.count ? a.keys[index_of(round)] : 0;
        if (index_of(round) < a.count)
            atomicAdd(&next[warp][digit_of(a, keys[round])], 1u);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) {
        unsigned at = a.counts[threadIdx.x * a.tiles + blockIdx.x];
        for (int w = 0; w < WARPS; w++) {
            unsigned here = next[w][threadIdx.x];
            next[w][threadIdx.x] = at;
            at += here;
        }
    }
    __syncthreads();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        unsigned active = __ballot_sync(~0u, index_of(round) < a.count);
        if (index_of(round) < a.count) {
            unsigned digit = digit_of(a, keys[round]), same = same_digit(active, digit);
            unsigned before = __popc(same & ((1u << lane) - 1)), to = next[warp][digit] + before;
            a.keys_out[to] = keys[round];
            a.values_out[to] = a.values[index_of(round)];
            __syncwarp(active);
            if (before == 0)
                next[warp][digit] += __popc(same);
        }
        __syncwarp();
    }
}

static inline unsigned tiles_of(size_t count)
{
    return (unsigned)((count + TILE_KEYS - 1) / TILE_KEYS);
}

static inline size_t counts_bytes(size_t count)
{
    return (size_t)DIGITS * tiles_of(count) * sizeof(uint32_t);
}

/* Two buffers of `count` keys and values: sorted from [0] by way of the other; *sorted tells where the result is. Digits
 * of the lowest `bits` bits; count > 0. */
static inline enum tk_status run(uint32_t *const keys[2], uint32_t *const values[2], uint32_t *counts, size_t count,
                                 int bits, cudaStream_t stream, int *sorted)
{
    int from = 0;
    for (int shift = 0; shift < bits; shift += DIGIT_BITS, from ^= 1) {
        Pass pass = {(unsigned)count, tiles_of(count),  shift, keys[from], values[from],
                     keys[from ^ 1],  values[from ^ 1], counts};
        sort::count<<<pass.tiles, THREADS, 0, stream>>>(pass);
        sort::scan<<<1, SCAN_THREADS, 0, stream>>>(pass);
        sort::scatter<<<pass.tiles, THREADS, 0, stream>>>(pass);
        enum tk_status status = tk_launched("sort");
        if (status != TK_OK)
            return status;
    }
    *sorted = from;
    return TK_OK;
}

} // namespace sort

#endif

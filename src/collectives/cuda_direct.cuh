/*
 * cuda_direct.cuh - the direct protocol: plain data in 16-byte accesses, then a flag. The block does a step together:
 *
 *     wait for flags | all threads: load sources, reduce, store to destinations | announce
 *
 * Several loads of every thread are in flight at once: what a link or the memory takes is latency times bandwidth.
 */
#ifndef TR_CUDA_DIRECT_CUH
#define TR_CUDA_DIRECT_CUH

#include "collectives/cuda_arithmetic.cuh"
#include "collectives/cuda_channel.cuh"

/* 16-byte loads that a thread has in flight in the main loops. */
enum { LOADS_IN_FLIGHT = 8, SOURCE_BATCH = 4 };

/* The addresses of a step's sources and destinations, in shared memory. */
struct Operands {
    char *at[2 * TR_CUDA_MAX_RANKS];
    uint32_t nsrc, ndst;
};

/* What a thread needs to know to finish a result. */
struct Finish {
    uint32_t op;
    uint32_t average; /* ranks to divide by; 0: no division */
};

template <typename T, int U>
static __device__ __forceinline__ void store_all(const Operands &o, const Pack<T, 16> (&pack)[U], uint64_t first,
                                                 uint64_t stride)
{
    for (uint32_t k = 0; k < o.ndst; k++) {
        char *to = o.at[o.nsrc + k];
#pragma unroll
        for (int u = 0; u < U; u++)
            store_words_weak(to + first + u * stride, pack[u].word[0], pack[u].word[1]);
    }
}

/* U vectors of one thread, `stride` bytes apart, NS sources. The result of each takes the place of its first source. */
template <typename T, int KIND, int NS, int U>
static __device__ __forceinline__ void reduce_vectors(const Operands &o, uint64_t first, uint64_t stride, Finish f)
{
    Pack<T, 16> pack[NS][U];
#pragma unroll
    for (int i = 0; i < NS; i++)
#pragma unroll
        for (int u = 0; u < U; u++)
            load_words(o.at[i] + first + u * stride, pack[i][u].word[0], pack[i][u].word[1]);
#pragma unroll
    for (int u = 0; u < U && (NS > 1 || f.average); u++) {
        Sums<T, 16> sums;
        sums.set(pack[0][u]);
#pragma unroll
        for (int i = 1; i < NS; i++)
            sums.template reduce<KIND>(f.op, pack[i][u]);
        if (f.average)
            sums.divide(f.average);
        sums.get(pack[0][u]);
    }
    store_all<T, U>(o, pack[0], first, stride);
}

/* The same for any number of sources, one vector, SOURCE_BATCH loads in flight. */
template <typename T, int KIND>
static __device__ __forceinline__ void reduce_any_vector(const Operands &o, uint64_t first, Finish f)
{
    Sums<T, 16> sums;
    for (uint32_t k = 0; k < o.nsrc; k += SOURCE_BATCH) {
        Pack<T, 16> pack[SOURCE_BATCH];
#pragma unroll
        for (int i = 0; i < SOURCE_BATCH; i++)
            if (k + i < o.nsrc)
                load_words(o.at[k + i] + first, pack[i].word[0], pack[i].word[1]);
#pragma unroll
        for (int i = 0; i < SOURCE_BATCH; i++) {
            if (k + i == 0)
                sums.set(pack[i]);
            else if (k + i < o.nsrc)
                sums.template reduce<KIND>(f.op, pack[i]);
        }
    }
    if (f.average)
        sums.divide(f.average);
    Pack<T, 16> result[1];
    sums.get(result[0]);
    store_all<T, 1>(o, result, first, 0);
}

/* Bytes [begin, end) of every operand; the addresses of `begin` are multiples of 16. */
template <typename T, int KIND, int NS>
static __device__ __forceinline__ void reduce_aligned(const Operands &o, uint64_t begin, uint64_t end, Finish f)
{
    const int U = LOADS_IN_FLIGHT / NS;
    uint64_t stride = 16ull * blockDim.x;
    uint64_t at = begin + 16ull * threadIdx.x;
    for (; at + (U - 1) * stride < end; at += U * stride)
        reduce_vectors<T, KIND, NS, U>(o, at, stride, f);
    for (; at < end; at += stride)
        reduce_vectors<T, KIND, NS, 1>(o, at, stride, f);
}

template <typename T, int KIND>
static __device__ __forceinline__ void reduce_aligned_any(const Operands &o, uint64_t begin, uint64_t end, Finish f)
{
    for (uint64_t at = begin + 16ull * threadIdx.x; at < end; at += 16ull * blockDim.x)
        reduce_any_vector<T, KIND>(o, at, f);
}

/* U elements of one thread, `stride` bytes apart, as far as they lie before `end`. A copy keeps every bit of them. */
template <typename T, int KIND, int U>
static __device__ __forceinline__ void reduce_few(const Operands &o, uint64_t at, uint64_t stride, uint64_t end,
                                                  Finish f)
{
    typedef typename Element<T>::Sum S;
    T x[U];
    S sum[U];
    for (uint32_t k = 0; k < o.nsrc; k++) {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (at + u * stride < end)
                x[u] = load_element<T>(o.at[k] + at + u * stride);
#pragma unroll
        for (int u = 0; u < U; u++)
            sum[u] = k ? combine<KIND>(f.op, sum[u], Element<T>::widen(x[u])) : Element<T>::widen(x[u]);
    }
#pragma unroll
    for (int u = 0; u < U && (o.nsrc > 1 || f.average); u++)
        x[u] = Element<T>::narrow(f.average ? sum[u] / (S)f.average : sum[u]);
    for (uint32_t k = 0; k < o.ndst; k++)
#pragma unroll
        for (int u = 0; u < U; u++)
            if (at + u * stride < end)
                *(T *)(o.at[o.nsrc + k] + at + u * stride) = x[u];
}

/* Bytes [begin, end), element by element: heads, tails, and operands that differ modulo 16. */
template <typename T, int KIND>
static __device__ __forceinline__ void reduce_elements(const Operands &o, uint64_t begin, uint64_t end, Finish f)
{
    const int U = 4;
    uint64_t stride = (uint64_t)blockDim.x * sizeof(T);
    for (uint64_t at = begin + threadIdx.x * sizeof(T); at < end; at += U * stride)
        reduce_few<T, KIND, U>(o, at, stride, end, f);
}

template <typename T, int KIND>
static __device__ __forceinline__ void reduce_body(const Operands &o, uint64_t begin, uint64_t end, Finish f)
{
    switch (o.nsrc) {
    case 1:
        reduce_aligned<T, KIND, 1>(o, begin, end, f);
        break;
    case 2:
        reduce_aligned<T, KIND, 2>(o, begin, end, f);
        break;
    case 4:
        reduce_aligned<T, KIND, 4>(o, begin, end, f);
        break;
    case 8:
        reduce_aligned<T, KIND, 8>(o, begin, end, f);
        break;
    default:
        reduce_aligned_any<T, KIND>(o, begin, end, f);
    }
}

/* `misaligned`: the addresses differ modulo 16. */
template <typename T, int KIND>
static __device__ __forceinline__ void reduce_copy(const Operands &o, uint64_t bytes, bool misaligned, Finish f)
{
    uint64_t head = misaligned ? bytes : -(uint64_t)(uintptr_t)o.at[0] & 15;
    if (head > bytes)
        head = bytes;
    uint64_t body_end = head + ((bytes - head) & ~15ull);
    if (head < body_end)
        reduce_body<T, KIND>(o, head, body_end, f);
    if (head)
        reduce_elements<T, KIND>(o, 0, head, f);
    if (body_end < bytes)
        reduce_elements<T, KIND>(o, body_end, bytes, f);
}

/* Work out the operands; whether they differ modulo 16. The block has met before and meets after. */
static __device__ __forceinline__ bool set_operands(const Channel &ch, const tr_cuda_step &step, uint64_t user_shift,
                                                    uint64_t box_shift, Operands &o)
{
    const uint64_t *ref = ch.refs + step.ref;
    uint32_t differs = 0, low = (uint32_t)(uintptr_t)resolve(ref[0], user_shift, box_shift);
    for (uint32_t k = threadIdx.x; k < step.nsrc + step.ndst; k += blockDim.x) {
        o.at[k] = resolve(ref[k], user_shift, box_shift);
        differs |= ((uint32_t)(uintptr_t)o.at[k] ^ low) & 15;
    }
    if (threadIdx.x == 0) {
        o.nsrc = step.nsrc;
        o.ndst = step.ndst;
    }
    return __syncthreads_or(differs);
}

/* One step in one iteration. False: give up (the same for the whole block). */
template <typename T, int KIND>
static __device__ __forceinline__ bool direct_step(const Channel &ch, uint32_t s, uint32_t iteration, Operands &o)
{
    const tr_cuda_call &call = *ch.call;
    const tr_cuda_step &step = ch.steps[s];
    uint32_t piece = iteration - step.lag;
    bool lost = !await(ch, step.wait, step.nwait, piece, s);
    if (__syncthreads_or(lost))
        return false;
    uint64_t tile_start = ((uint64_t)piece * call.channels + ch.index) * call.tile;
    uint64_t bytes = tile_bytes(ch, step, tile_start);
    if (bytes) {
        uint64_t box_shift = mailbox_shift(ch) + piece % call.depth * call.slot_bytes;
        bool misaligned = set_operands(ch, step, tile_start, box_shift, o);
        Finish f = {call.op, step.final ? call.average : 0};
        reduce_copy<T, KIND>(o, bytes, misaligned, f);
        __syncthreads();
    }
    announce(ch, step.signal, step.nsignal, step.position + iteration * call.stride);
    return true;
}

template <typename T, int KIND> static __device__ __forceinline__ bool direct_run(const Channel &ch, Operands &o)
{
    uint32_t npieces = ch.call->npieces;
    for (uint32_t i = 0; i < npieces + ch.call->max_lag; i++)
        for (uint32_t s = 0; s < ch.call->nsteps; s++) {
            uint32_t lag = ch.steps[s].lag;
            if (i < lag || i - lag >= npieces)
                continue;
            if (!direct_step<T, KIND>(ch, s, i, o))
                return false;
        }
    return await(ch, ch.call->exit_wait, ch.call->exit_nwait, npieces - 1, TR_CUDA_AT_EXIT);
}

template <typename T, int KIND>
__global__ void __launch_bounds__(TR_CUDA_MAX_THREADS, 1) direct_kernel(const __grid_constant__ tr_cuda_large_args args)
{
    extern __shared__ uint64_t shared[];
    __shared__ Operands operands;
    Channel ch;
    channel_begin(ch, args.call, args.blob, shared);
    if (!was_aborted(ch)) {
        announce(ch, args.call.entry_signal, args.call.entry_nsignal, 1);
        direct_run<T, KIND>(ch, operands);
    }
    advance_epoch(ch);
}

#endif

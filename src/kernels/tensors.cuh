/*
 * tensors.cuh - kernels over a list of tensors: as many as fit into a launch's parameters at a time, each cut into pieces of
 * PIECE values, one a block.
 */
#ifndef KERNELS_TENSORS_CUH
#define KERNELS_TENSORS_CUH

#include "kernels/rows.cuh"

#include <stddef.h>

namespace tensors
{

enum { THREADS = 256, VALUES = 8, PIECE = THREADS * VALUES }; /* VALUES: of a thread */

/* ---- A thread's values ------------------------------------------------------------------------------------------- */

/* VALUES values from `at` on; ALIGNED: from + at is at a multiple of 16 bytes, and all lie below `count`; else zeros past it. */
template <class T, bool ALIGNED>
__device__ __forceinline__ void load_values(const T *from, size_t at, size_t count, float (&values)[VALUES])
{
    constexpr int N = rows::Format<T>::N;
#pragma unroll
    for (int i = 0; i < VALUES; i += N) {
        if (ALIGNED) {
            float pack[N];
            rows::Format<T>::widen(rows::load_words<rows::ONCE>(from + at + i), pack);
#pragma unroll
            for (int e = 0; e < N; e++)
                values[i + e] = pack[e];
        } else {
#pragma unroll
            for (int e = 0; e < N; e++)
                values[i + e] = at + i + e < count ? rows::to_float(from[at + i + e]) : 0.0f;
        }
    }
}

template <class T, bool ALIGNED>
__device__ __forceinline__ void store_values(T *to, size_t at, size_t count, const float (&values)[VALUES])
{
    constexpr int N = rows::Format<T>::N;
#pragma unroll
    for (int i = 0; i < VALUES; i += N) {
        float pack[N];
#pragma unroll
        for (int e = 0; e < N; e++)
            pack[e] = values[i + e];
        if (ALIGNED)
            rows::store_words(to + at + i, rows::Format<T>::narrow(pack));
        else
#pragma unroll
            for (int e = 0; e < N; e++)
                if (at + i + e < count)
                    to[at + i + e] = rows::from_float<T>(pack[e]);
    }
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------- */

/* first[i]: pieces before tensor i, first[count] all. The tensor that piece `piece` belongs to. */
template <int MOST> __device__ __forceinline__ int find(const unsigned (&first)[MOST + 1], int count, unsigned piece)
{
    int low = 0, high = count; /* first[low] <= piece < first[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (first[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static inline size_t pieces(size_t count)
{
    return count / PIECE + (count % PIECE != 0);
}

} // namespace tensors

#endif

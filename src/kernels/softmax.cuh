/*
 * softmax.cuh - the maximum of a row and the sum of its exponentials, in one pass and one reduction: a thread's own pair
 * (max, sum of exp(x - max)), rescaled where pairs meet (Milakov and Gimelshein 2018).
 */
#ifndef KERNELS_SOFTMAX_CUH
#define KERNELS_SOFTMAX_CUH

#include "kernels/rows.cuh"

namespace softmax
{

constexpr float LOG2_E = 1.4426950408889634f;

/* 2^x: 2 ulp, and 0 for results below 2^-126. */
__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float exp_fast(float x)
{
    return exp2_fast(x * LOG2_E);
}

/* What is subtracted before exp: max, but for a row that is -inf so far. */
__device__ __forceinline__ float base_of(float max)
{
    return max == -INFINITY ? 0.0f : max;
}

struct Pair {
    float max; /* of the values seen; NaN is not among them, it is in the sum */
    float sum; /* of exp(x - base_of(max)) */
    static __device__ __forceinline__ Pair none()
    {
        return {-INFINITY, 0.0f};
    }
    static __device__ __forceinline__ Pair combine(const Pair &a, const Pair &b)
    {
        float max = fmaxf(a.max, b.max), base = base_of(max);
        return {max, a.sum * scale(a.max, base) + b.sum * scale(b.max, base)};
    }
    /* exp(from - base), 1 where they are equal (+inf too: the sum holds NaN already). */
    static __device__ __forceinline__ float scale(float from, float base)
    {
        return from == base ? 1.0f : exp_fast(from - base);
    }
};

/* The pair of a row. */
template <class T, class Row, class G>
__device__ __forceinline__ Pair reduce(Row &row, G &group, const T *const (&from)[1], unsigned width, Pair *shared)
{
    Pair pair = Pair::none();
    rows::sweep(row, group, from, width, [&](unsigned, const auto &inside, const auto &v, int) {
        float max = pair.max;
#pragma unroll
        for (int e = 0; e < Row::N; e++)
            max = inside(e) ? fmaxf(max, v[0][e]) : max;
        float base = base_of(max), sum = 0;
#pragma unroll
        for (int e = 0; e < Row::N; e++)
            sum += inside(e) ? exp_fast(v[0][e] - base) : 0.0f;
        pair.sum = pair.sum * Pair::scale(pair.max, base) + sum;
        pair.max = max;
    });
    /* bring the lanes to one maximum first: one exp instead of two a step */
    float max = pair.max;
#pragma unroll
    for (int mask = rows::LANES / 2; mask > 0; mask /= 2)
        max = fmaxf(max, __shfl_xor_sync(~0u, max, mask));
    rows::Sums<1> sum = {{pair.sum * Pair::scale(pair.max, base_of(max))}};
    return group.across_warps(Pair{max, rows::across_lanes(sum).value[0]}, shared);
}

} // namespace softmax

#endif

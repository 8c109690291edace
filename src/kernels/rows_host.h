/*
 * rows_host.h - what the host references share: blocks of values as f32, whatever they are stored as, and an exp that
 * vectorises. A block stays in the first-level cache, so that every value crosses the memory bus as it is stored.
 */
#ifndef KERNELS_ROWS_HOST_H
#define KERNELS_ROWS_HOST_H

#include "kernels/bf16.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* The loops are worth little when not vectorised, which GCC 12 does at -O3 only, and with conditions inside only where
 * comparisons need not trap. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-trapping-math")
#endif

/* The sanitizers' own start-up runs after the resolvers of clones. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TK_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TK_CLONES
#endif

enum { TK_BLOCK = 512 }; /* values */

static inline size_t tk_block_length(size_t at, size_t count)
{
    return count - at < TK_BLOCK ? count - at : TK_BLOCK;
}

/* `count` values from element `at` of `from`. */
static inline void tk_widen(float *restrict to, const void *restrict from, size_t at, size_t count,
                            enum tk_datatype type)
{
    if (type == TK_F32) {
        memcpy(to, (const float *)from + at, count * sizeof *to);
    } else {
        const uint16_t *values = (const uint16_t *)from + at;
        for (size_t i = 0; i < count; i++)
            to[i] = tk_bf16_to_f32(values[i]);
    }
}

static inline void tk_narrow(void *restrict to, size_t at, const float *restrict from, size_t count,
                             enum tk_datatype type)
{
    if (type == TK_F32) {
        memcpy((float *)to + at, from, count * sizeof *from);
    } else {
        uint16_t *values = (uint16_t *)to + at;
        for (size_t i = 0; i < count; i++)
            values[i] = tk_bf16_from_f32(from[i]);
    }
}

/*
 * exp(x), within 2 ulp: 2^n times a polynomial in the rest, after Cephes' expf (S. Moshier). 0 below -87.3, +inf above 88.7;
 * NaN stays.
 */
static inline float tk_expf(float x)
{
    float clamped = x < -87.33654f ? -87.33654f : x > 88.72283f ? 88.72283f : x;
    float n = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounded: 1.5 2^23 leaves no bits for fractions */
    float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t half = (int32_t)(n == n ? n : 0.0f) / 2, rest = (int32_t)(n == n ? n : 0.0f) - half; /* 2^128 overflows */
    uint32_t low = (uint32_t)(half + 127) << 23, high = (uint32_t)(rest + 127) << 23;
    float a, b;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    float result = p * a * b;
    result = x < -87.33654f ? 0.0f : result;
    result = x > 88.72283f ? INFINITY : result;
    return x != x ? x : result;
}

#endif

/*
 * cuda_arithmetic.cuh - elements, packs of elements, and the reduction of packs, for every datatype and operation.
 *
 * f16 and bf16 are reduced in float and rounded once, when the step's result is stored. Integers wrap.
 */
#ifndef TR_CUDA_ARITHMETIC_CUH
#define TR_CUDA_ARITHMETIC_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

/* The values of enum tr_op; treering.h needs mpi.h, which nvcc does not see. exec_cuda.c asserts that they agree. */
enum Operation { OP_SUM, OP_PROD, OP_MIN, OP_MAX, OP_AVG };

/* Sums are compiled apart; the other operations share code that looks at the operation as it goes. */
enum { ONLY_SUM, ANY_OPERATION };

template <typename T> struct Element {
    typedef T Sum;
    static __device__ Sum widen(T x)
    {
        return x;
    }
    static __device__ T narrow(Sum x)
    {
        return x;
    }
};

template <> struct Element<__half> {
    typedef float Sum;
    static __device__ float widen(__half x)
    {
        return __half2float(x);
    }
    static __device__ __half narrow(float x)
    {
        return __float2half_rn(x);
    }
};

template <> struct Element<__nv_bfloat16> {
    typedef float Sum;
    static __device__ float widen(__nv_bfloat16 x)
    {
        return __bfloat162float(x);
    }
    static __device__ __nv_bfloat16 narrow(float x)
    {
        return __float2bfloat16_rn(x);
    }
};

template <typename S> __device__ __forceinline__ S add(S a, S b)
{
    return a + b;
}

template <> __device__ __forceinline__ int32_t add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

template <> __device__ __forceinline__ int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

template <typename S> __device__ __forceinline__ S multiply(S a, S b)
{
    return a * b;
}

template <> __device__ __forceinline__ int32_t multiply(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

template <> __device__ __forceinline__ int64_t multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

template <typename S> __device__ __forceinline__ bool is_negative_zero(S)
{
    return false;
}

template <> __device__ __forceinline__ bool is_negative_zero(float x)
{
    return __float_as_uint(x) == 0x80000000u;
}

template <> __device__ __forceinline__ bool is_negative_zero(double x)
{
    return __double_as_longlong(x) == (long long)(1ull << 63);
}

/* A NaN among the operands wins; -0 is less than +0. */
template <typename S> __device__ __forceinline__ S smaller(S a, S b)
{
    return a != a ? a : (b < a || b != b || (b == a && is_negative_zero(b))) ? b : a;
}

template <typename S> __device__ __forceinline__ S larger(S a, S b)
{
    return a != a ? a : (b > a || b != b || (b == a && is_negative_zero(a))) ? b : a;
}

template <int KIND, typename S> __device__ __forceinline__ S combine(uint32_t op, S a, S b)
{
    if (KIND == ONLY_SUM)
        return add(a, b);
    if (op == OP_PROD)
        return multiply(a, b);
    return op == OP_MIN ? smaller(a, b) : larger(a, b);
}

/* BYTES of elements as they stand in memory, and the same elements wide enough to add up. */
template <typename T, int BYTES> struct Pack {
    static const int N = BYTES / (int)sizeof(T);
    union {
        T element[N];
        uint64_t word[BYTES / 8];
    };
    __device__ Pack()
    {
    }
};

template <typename T, int BYTES> struct Sums {
    typedef typename Element<T>::Sum S;
    static const int N = Pack<T, BYTES>::N;
    S value[N];

    __device__ __forceinline__ void set(const Pack<T, BYTES> &pack)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = Element<T>::widen(pack.element[i]);
    }

    template <int KIND> __device__ __forceinline__ void reduce(uint32_t op, const Pack<T, BYTES> &pack)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = combine<KIND>(op, value[i], Element<T>::widen(pack.element[i]));
    }

    __device__ __forceinline__ void divide(uint32_t by)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            value[i] = value[i] / (S)by;
    }

    __device__ __forceinline__ void get(Pack<T, BYTES> &pack) const
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            pack.element[i] = Element<T>::narrow(value[i]);
    }
};

#endif

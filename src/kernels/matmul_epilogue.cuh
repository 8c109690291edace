/*
 * matmul_epilogue.cuh - what happens to a sum before it is C: beta C, bias, activation, z; then rounding and the store.
 *
 * Tensor cores leave sums spread over a warp; here a warp's 16 rows go through shared memory as f32, so that a lane has
 * 8 columns of a row, and memory sees whole 16-byte accesses. Loads of
 * several rows are under way at a time.
 */
#ifndef KERNELS_MATMUL_EPILOGUE_CUH
#define KERNELS_MATMUL_EPILOGUE_CUH

#include "kernels/matmul.h"

#include <cuda_bf16.h>
#include <stdint.h>

namespace matmul
{

struct Epilogue {
    void *c;
    const void *bias, *z; /* NULL: none */
    size_t ldc, ldz;
    int m, n;
    float beta;
    enum tk_epilogue kind;
    bool out_f32;
    bool vectors; /* c, z and bias lie so that 8 columns from a multiple of 8 are whole 16-byte vectors */
};

/* Defined in matmul.cu. */
Epilogue epilogue_of(const struct tk_matmul *matmul);

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ float value(const float *p)
{
    return *p;
}

__device__ __forceinline__ float value(const __nv_bfloat16 *p)
{
    return __bfloat162float(*p);
}

__device__ __forceinline__ float gelu(float x)
{
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1 + __expf(-2 * u)); /* x/2 (1 + tanh u) */
}

__device__ __forceinline__ float silu(float x)
{
    return __fdividef(x, 1 + __expf(-x));
}

__device__ __forceinline__ float activate(enum tk_epilogue kind, float x, float z)
{
    return kind == TK_EPILOGUE_GELU ? gelu(x) : kind == TK_EPILOGUE_SILU_GATE ? silu(z) * x : x + z;
}

/* One element of C, from its sum. In: the type of bias and z. */
template <class In> __device__ __forceinline__ void finish_element(const Epilogue &e, int row, int column, float x)
{
    size_t at = row * e.ldc + column;
    if (e.beta != 0)
        x += e.beta * (e.out_f32 ? value((const float *)e.c + at) : value((const __nv_bfloat16 *)e.c + at));
    if (e.bias)
        x += value((const In *)e.bias + column);
    x = activate(e.kind, x, e.z ? value((const In *)e.z + row * e.ldz + column) : 0);
    if (e.out_f32)
        ((float *)e.c)[at] = x;
    else
        ((__nv_bfloat16 *)e.c)[at] = __float2bfloat16(x);
}

/* ---- Eight columns ----------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void unpack(uint32_t pair, float *x)
{
    x[0] = __uint_as_float(pair << 16);
    x[1] = __uint_as_float(pair & 0xffff0000u);
}

__device__ __forceinline__ uint32_t pack(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(const uint32_t *)&pair;
}

__device__ __forceinline__ void unpack(uint4 v, float (&x)[8])
{
    unpack(v.x, x);
    unpack(v.y, x + 2);
    unpack(v.z, x + 4);
    unpack(v.w, x + 6);
}

/* What 8 elements of C need from memory, as it lies there. */
struct Extras {
    uint4 z, c[2];
};

__device__ __forceinline__ Extras load_extras(const Epilogue &e, int row, int column)
{
    Extras extras = {};
    if (row >= e.m)
        return extras;
    if (e.z)
        extras.z = *(const uint4 *)((const __nv_bfloat16 *)e.z + row * e.ldz + column);
    if (e.beta != 0 && e.out_f32) {
        extras.c[0] = ((const uint4 *)((const float *)e.c + row * e.ldc + column))[0];
        extras.c[1] = ((const uint4 *)((const float *)e.c + row * e.ldc + column))[1];
    } else if (e.beta != 0) {
        extras.c[0] = *(const uint4 *)((const __nv_bfloat16 *)e.c + row * e.ldc + column);
    }
    return extras;
}

__device__ __forceinline__ void add_c(const Epilogue &e, const Extras &extras, float (&x)[8])
{
    float c[8];
    if (e.out_f32) {
        *(uint4 *)&c[0] = extras.c[0];
        *(uint4 *)&c[4] = extras.c[1];
    } else {
        unpack(extras.c[0], c);
    }
    for (int i = 0; i < 8; i++)
        x[i] += e.beta * c[i];
}

__device__ __forceinline__ void store_8(const Epilogue &e, int row, int column, const float (&x)[8])
{
    if (e.out_f32) {
        float4 *to = (float4 *)((float *)e.c + row * e.ldc + column);
        to[0] = make_float4(x[0], x[1], x[2], x[3]);
        to[1] = make_float4(x[4], x[5], x[6], x[7]);
    } else {
        *(uint4 *)((__nv_bfloat16 *)e.c + row * e.ldc + column) =
            make_uint4(pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
    }
}

__device__ __forceinline__ void finish_8(const Epilogue &e, const Extras &extras, int row, int column, float (&x)[8])
{
    if (e.beta != 0)
        add_c(e, extras, x);
    if (e.bias) {
        float b[8];
        unpack(*(const uint4 *)((const __nv_bfloat16 *)e.bias + column), b);
        for (int i = 0; i < 8; i++)
            x[i] += b[i];
    }
    if (e.kind != TK_EPILOGUE_NONE) {
        float z[8];
        unpack(extras.z, z);
        for (int i = 0; i < 8; i++)
            x[i] = activate(e.kind, x[i], z[i]);
    }
    if (row < e.m)
        store_8(e, row, column, x);
}

/* ---- 16 rows of a warp ------------------------------------------------------------------------------------------- */

/*
 * A warp's 16 rows in shared memory: rows of COLUMNS f32, in which 16-byte pieces are exchanged so that neither the
 * writes of 4 rows by 8 columns nor the reads of whole rows meet in a bank more than twice.
 */
template <int COLUMNS> __device__ __forceinline__ float *piece_of(float *rows, int row, int column)
{
    return rows + row * COLUMNS + (((column / 4) ^ ((row & 3) * 2)) * 4);
}

/* Sums as mma and wgmma leave them: per 8 columns, d[0] d[1] of row lane / 4, d[2] d[3] of the row 8 below. */
template <int COLUMNS> __device__ __forceinline__ void put_rows(float *rows, int lane, const float *d)
{
#pragma unroll
    for (int c = 0; c < COLUMNS; c += 8) {
        int column = c + 2 * (lane % 4);
        *(float2 *)(piece_of<COLUMNS>(rows, lane / 4, column) + column % 4) = make_float2(d[c / 2], d[c / 2 + 1]);
        *(float2 *)(piece_of<COLUMNS>(rows, lane / 4 + 8, column) + column % 4) =
            make_float2(d[c / 2 + 2], d[c / 2 + 3]);
    }
}

template <int COLUMNS> __device__ __forceinline__ void get_8(float *rows, int row, int column, float (&x)[8])
{
    *(float4 *)&x[0] = *(const float4 *)piece_of<COLUMNS>(rows, row, column);
    *(float4 *)&x[4] = *(const float4 *)piece_of<COLUMNS>(rows, row, column + 4);
}

template <int COLUMNS>
__device__ __forceinline__ void finish_vectors(const Epilogue &e, float *rows, int row, int column, int lane)
{
    constexpr int LANES = COLUMNS / 8, ROWS = 32 / LANES, PASSES = 16 / ROWS, IN_FLIGHT = 2;
    int r = row + lane / LANES, c = column + 8 * (lane % LANES);
#pragma unroll
    for (int first = 0; first < PASSES; first += IN_FLIGHT) {
        Extras extras[IN_FLIGHT];
#pragma unroll
        for (int p = 0; p < IN_FLIGHT; p++)
            extras[p] = load_extras(e, r + (first + p) * ROWS, c);
#pragma unroll
        for (int p = 0; p < IN_FLIGHT; p++) {
            float x[8];
            get_8<COLUMNS>(rows, lane / LANES + (first + p) * ROWS, 8 * (lane % LANES), x);
            finish_8(e, extras[p], r + (first + p) * ROWS, c, x);
        }
    }
}

/* At C's edges, and where it lies so that vectors do not fit. */
template <int COLUMNS>
__device__ __forceinline__ void finish_elements(const Epilogue &e, float *rows, int row, int column, int lane)
{
#pragma unroll 1
    for (int i = lane; i < 16 * COLUMNS; i += 32) {
        int r = i / COLUMNS, c = i % COLUMNS;
        if (row + r < e.m && column + c < e.n)
            finish_element<__nv_bfloat16>(e, row + r, column + c, piece_of<COLUMNS>(rows, r, c)[c % 4]);
    }
}

/* 16 rows x COLUMNS of sums of one warp, from (row, column) of C on. `rows`: 16 x COLUMNS f32 of the warp's own. */
template <int COLUMNS>
__device__ __forceinline__ void finish_rows(const Epilogue &e, float *rows, const float *d, int row, int column,
                                            int lane)
{
    put_rows<COLUMNS>(rows, lane, d);
    __syncwarp();
    if (e.vectors && column + COLUMNS <= e.n)
        finish_vectors<COLUMNS>(e, rows, row, column, lane);
    else
        finish_elements<COLUMNS>(e, rows, row, column, lane);
    __syncwarp();
}

} // namespace matmul

#endif

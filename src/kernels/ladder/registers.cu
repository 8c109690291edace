/*
 * registers.cu - step 3 of the ladder: a thread has 8 x 8 of C in registers.
 *
 * For each k it loads 8 values of A and 8 of B from shared memory, in vectors of 4, and multiplies 64 times: the
 * CUDA cores are the limit now. A CTA of 16 x 16 threads has 128 x 128 of C. A thread's columns are 4 and, 64
 * further, 4 more, so that neighbouring threads' vectors lie in different banks.
 */
#include "kernels/ladder/ladder.h"
#include "kernels/launch.h"

#include <cuda_bf16.h>

enum { SIDE = 128, BK = 16, THREADS = 256, PAD = 4 };

static __device__ __forceinline__ void fetch_a(const __nv_bfloat16 *a, int k, float (*to)[SIDE + PAD])
{
    for (int i = threadIdx.x; i < SIDE * BK; i += THREADS)
        to[i % BK][i / BK] = __bfloat162float(a[(size_t)(i / BK) * k + i % BK]);
}

static __device__ __forceinline__ void fetch_b(const __nv_bfloat16 *b, int n, float (*to)[SIDE + PAD])
{
    for (int i = threadIdx.x; i < SIDE * BK; i += THREADS)
        to[i / SIDE][i % SIDE] = __bfloat162float(b[(size_t)(i / SIDE) * n + i % SIDE]);
}

static __device__ __forceinline__ void load_8(const float *from, float (&to)[8])
{
    *(float4 *)&to[0] = *(const float4 *)from;
    *(float4 *)&to[4] = *(const float4 *)(from + SIDE / 2);
}

static __global__ void __launch_bounds__(THREADS)
    registers(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int n, int k)
{
    __shared__ __align__(16) float tile_a[BK][SIDE + PAD], tile_b[BK][SIDE + PAD];
    int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    size_t row = blockIdx.y * SIDE, column = blockIdx.x * SIDE;
    float acc[8][8] = {};
    for (int first = 0; first < k; first += BK) {
        fetch_a(a + row * k + first, k, tile_a);
        fetch_b(b + (size_t)first * n + column, n, tile_b);
        __syncthreads();
#pragma unroll
        for (int l = 0; l < BK; l++) {
            float va[8], vb[8];
            load_8(&tile_a[l][y], va);
            load_8(&tile_b[l][x], vb);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    acc[i][j] += va[i] * vb[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            c[(row + y + i % 4 + i / 4 * 64) * n + column + x + j % 4 + j / 4 * 64] = __float2bfloat16(acc[i][j]);
}

enum tk_status tk_ladder_registers(const void *a, const void *b, void *c, int m, int n, int k, void *stream)
{
    dim3 grid(n / SIDE, m / SIDE);
    registers<<<grid, THREADS, 0, (cudaStream_t)stream>>>((const __nv_bfloat16 *)a, (const __nv_bfloat16 *)b,
                                                          (__nv_bfloat16 *)c, n, k);
    return tk_launched("ladder: registers");
}

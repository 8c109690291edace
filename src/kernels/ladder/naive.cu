/*
 * naive.cu - step 1 of the ladder: a thread an element of C, three loops of which the GPU runs two at once.
 *
 * A warp reads one element of A (all lanes the same) and 32 neighbours of B for each 32 multiplications: what
 * limits it is the rate of loads, which hit the caches.
 */
#include "kernels/ladder/ladder.h"
#include "kernels/launch.h"

#include <cuda_bf16.h>

static __global__ void naive(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int n, int k)
{
    size_t row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int l = 0; l < k; l++)
        sum += __bfloat162float(a[row * k + l]) * __bfloat162float(b[(size_t)l * n + column]);
    c[row * n + column] = __float2bfloat16(sum);
}

enum tk_status tk_ladder_naive(const void *a, const void *b, void *c, int m, int n, int k, void *stream)
{
    dim3 threads(32, 8), grid(n / 32, m / 8);
    naive<<<grid, threads, 0, (cudaStream_t)stream>>>((const __nv_bfloat16 *)a, (const __nv_bfloat16 *)b,
                                                      (__nv_bfloat16 *)c, n, k);
    return tk_launched("ladder: naive");
}

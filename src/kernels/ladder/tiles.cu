/*
 * tiles.cu - step 2 of the ladder: a CTA copies a tile of A and one of B to shared memory, and every thread reads
 * them there.
 *
 * Global memory is read once for 32 multiplications. Now two loads from shared memory stand against each
 * multiplication.
 */
#include "kernels/ladder/ladder.h"
#include "kernels/launch.h"

#include <cuda_bf16.h>

enum { SIDE = 32 };

static __global__ void tiles(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int n, int k)
{
    __shared__ float tile_a[SIDE][SIDE], tile_b[SIDE][SIDE];
    int x = threadIdx.x, y = threadIdx.y;
    size_t row = blockIdx.y * SIDE + y, column = blockIdx.x * SIDE + x;
    float sum = 0;
    for (int first = 0; first < k; first += SIDE) {
        tile_a[y][x] = __bfloat162float(a[row * k + first + x]);
        tile_b[y][x] = __bfloat162float(b[(size_t)(first + y) * n + column]);
        __syncthreads();
        for (int l = 0; l < SIDE; l++)
            sum += tile_a[y][l] * tile_b[l][x];
        __syncthreads();
    }
    c[row * n + column] = __float2bfloat16(sum);
}

enum tk_status tk_ladder_tiles(const void *a, const void *b, void *c, int m, int n, int k, void *stream)
{
    dim3 threads(SIDE, SIDE), grid(n / SIDE, m / SIDE);
    tiles<<<grid, threads, 0, (cudaStream_t)stream>>>((const __nv_bfloat16 *)a, (const __nv_bfloat16 *)b,
                                                      (__nv_bfloat16 *)c, n, k);
    return tk_launched("ladder: tiles");
}

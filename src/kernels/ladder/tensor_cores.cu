/*
 * tensor_cores.cu - step 4 of the ladder: the multiplications by mma.sync, 2048 of them an instruction of a warp.
 *
 * A CTA of 8 warps has 128 x 128 of C, a warp 64 x 32. Tiles stay bf16 in shared memory; ldmatrix hands them to the
 * lanes as mma wants them. Loads and multiplications still take turns: the next step is to overlap them.
 */
#include "kernels/ladder/ladder.h"
#include "kernels/launch.h"

#include <cuda_bf16.h>
#include <stdint.h>

enum { SIDE = 128, BK = 64, THREADS = 256, PAD = 8 };

struct Tile {
    __nv_bfloat16 a[SIDE][BK + PAD]; /* the pad puts the 8 rows that ldmatrix reads into different banks */
    __nv_bfloat16 b[BK][SIDE + PAD];
};

static __device__ __forceinline__ void fetch(const __nv_bfloat16 *a, const __nv_bfloat16 *b, int n, int k, Tile *tile)
{
    for (int i = threadIdx.x * 8; i < SIDE * BK; i += THREADS * 8) {
        *(uint4 *)&tile->a[i / BK][i % BK] = *(const uint4 *)(a + (size_t)(i / BK) * k + i % BK);
        *(uint4 *)&tile->b[i / SIDE][i % SIDE] = *(const uint4 *)(b + (size_t)(i / SIDE) * n + i % SIDE);
    }
}

/* 16 x 16 of A: four 8 x 8 matrices, (row, k), (row + 8, k), (row, k + 8), (row + 8, k + 8). */
static __device__ __forceinline__ void load_a(const Tile *tile, int row, int k, int lane, uint32_t (&r)[4])
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(&tile->a[row + lane % 16][k + lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

/* 16 k by 16 columns of B, transposed on the way: (k, column), (k + 8, column), (k, column + 8), (k + 8, column + 8). */
static __device__ __forceinline__ void load_b(const Tile *tile, int k, int column, int lane, uint32_t (&r)[4])
{
    uint32_t at = (uint32_t)__cvta_generic_to_shared(&tile->b[k + lane % 16][column + lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

static __device__ __forceinline__ void mma(float *d, const uint32_t (&a)[4], const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ void multiply(const Tile *tile, int row, int column, int lane, float (&acc)[4][4][4])
{
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
        uint32_t a[4][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_a(tile, row + 16 * i, k, lane, a[i]);
#pragma unroll
        for (int j = 0; j < 2; j++)
            load_b(tile, k, column + 16 * j, lane, b[j]);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                mma(acc[i][j], a[i], &b[j / 2][j % 2 * 2]);
    }
}

static __global__ void __launch_bounds__(THREADS)
    tensor_cores(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int n, int k)
{
    __shared__ __align__(16) Tile tile;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
    size_t row = blockIdx.y * SIDE, column = blockIdx.x * SIDE;
    float acc[4][4][4] = {};
    for (int first = 0; first < k; first += BK) {
        fetch(a + row * k + first, b + (size_t)first * n + column, n, k, &tile);
        __syncthreads();
        multiply(&tile, warp_row, warp_column, lane, acc);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                size_t at =
                    (row + warp_row + 16 * i + 8 * half + lane / 4) * n + column + warp_column + 8 * j + lane % 4 * 2;
                *(__nv_bfloat162 *)(c + at) = __floats2bfloat162_rn(acc[i][j][2 * half], acc[i][j][2 * half + 1]);
            }
}

enum tk_status tk_ladder_tensor_cores(const void *a, const void *b, void *c, int m, int n, int k, void *stream)
{
    dim3 grid(n / SIDE, m / SIDE);
    tensor_cores<<<grid, THREADS, 0, (cudaStream_t)stream>>>((const __nv_bfloat16 *)a, (const __nv_bfloat16 *)b,
                                                             (__nv_bfloat16 *)c, n, k);
    return tk_launched("ladder: tensor_cores");
}

/*
 * matmul_plain.cu - the matmul for any alignment and any GPU from sm_80 on: mma.sync, fed by cp.async where rows
 * are 16-byte aligned and by ordinary loads where not.
 *
 * A CTA of 8 warps has 128 x 128 of C; a warp 64 x 32 of it in registers. Stages of 32 values of k go round in
 * shared memory, each operand as it lies in global memory, 128 x 32 or 32 x 128, rows padded by 16 bytes so that
 * the 8 rows that ldmatrix reads lie in different banks; ldmatrix transposes where k is not the contiguous
 * dimension.
 */
#include "kernels/error.h"
#include "kernels/launch.h"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/matmul_paths.h"

#include <cuda_pipeline.h>

namespace matmul
{

namespace
{

enum { SIDE = 128, BK = 32, THREADS = 256, STAGES = 3, PAD = 8, GROUP = 8, SUM_COLUMNS = 32 };
enum { K_MAJOR_ROW = BK + PAD, MN_MAJOR_ROW = SIDE + PAD }; /* elements */
enum { OPERAND = SIDE * K_MAJOR_ROW > BK *MN_MAJOR_ROW ? SIDE *K_MAJOR_ROW : BK *MN_MAJOR_ROW };
enum { SHARED_BYTES = STAGES * 2 * OPERAND * 2 };
static_assert(SHARED_BYTES >= THREADS / 32 * 16 * SUM_COLUMNS * 4, "the sums pass through the same memory");

/* An operand as stored. */
struct Operand {
    const __nv_bfloat16 *base;
    size_t stride;
    int rows, columns;
};

struct Problem {
    Operand a, b;
    int k, tiles_m, tiles_n;
};

/* 8 elements of a row into shared memory, zeros past the operand's end. */
template <bool ALIGNED>
__device__ __forceinline__ void fetch_8(const Operand &o, int row, int column, __nv_bfloat16 *to)
{
    int left = row < o.rows ? min(8, max(0, o.columns - column)) : 0;
    const __nv_bfloat16 *from = o.base + row * o.stride + column;
    if (ALIGNED) {
        __pipeline_memcpy_async(to, left > 0 ? from : o.base, 16, 16 - 2 * (size_t)left);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            to[i] = i < left ? from[i] : __nv_bfloat16(0.0f);
    }
}

/* The tile of an operand for k from `k` on, and rows (of the product) from `first`. MN: k goes down the rows. */
template <bool MN, bool ALIGNED>
__device__ __forceinline__ void fetch_tile(const Operand &o, int first, int k, __nv_bfloat16 *to)
{
    constexpr int WIDTH = MN ? SIDE : BK, ROW = MN ? MN_MAJOR_ROW : K_MAJOR_ROW;
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * BK / 8; i += THREADS) {
        int row = i / (WIDTH / 8), column = i % (WIDTH / 8) * 8;
        fetch_8<ALIGNED>(o, (MN ? k : first) + row, (MN ? first : k) + column, to + row * ROW + column);
    }
}

__device__ __forceinline__ void load_matrices(bool transpose, const __nv_bfloat16 *at, uint32_t (&r)[4])
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(at);
    if (transpose)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(address));
}

/* 16 rows of A from `row`, 16 k from `k`, as mma's first operand: 8 x 8 matrices (row, k), (row + 8, k), (row, k + 8),
 * ... */
template <bool MN>
__device__ __forceinline__ void load_a(const __nv_bfloat16 *a, int row, int k, int lane, uint32_t (&r)[4])
{
    int matrix = lane / 8, line = lane % 8;
    if (MN)
        load_matrices(true, a + (k + matrix / 2 * 8 + line) * MN_MAJOR_ROW + row + matrix % 2 * 8, r);
    else
        load_matrices(false, a + (row + matrix % 2 * 8 + line) * K_MAJOR_ROW + k + matrix / 2 * 8, r);
}

/* 16 columns of B, 16 k, as the second operand of two mma: (k, column), (k + 8, column), (k, column + 8), ... */
template <bool MN>
__device__ __forceinline__ void load_b(const __nv_bfloat16 *b, int column, int k, int lane, uint32_t (&r)[4])
{
    int matrix = lane / 8, line = lane % 8;
    if (MN)
        load_matrices(true, b + (k + matrix % 2 * 8 + line) * MN_MAJOR_ROW + column + matrix / 2 * 8, r);
    else
        load_matrices(false, b + (column + matrix / 2 * 8 + line) * K_MAJOR_ROW + k + matrix % 2 * 8, r);
}

__device__ __forceinline__ void mma(float *d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 64 x 32 of a warp, 4 blocks of 16 rows by 4 of 8 columns, += one stage. */
template <bool A_MN, bool B_MN>
__device__ __forceinline__ void multiply_stage(const __nv_bfloat16 *a, const __nv_bfloat16 *b, int row, int column,
                                               int lane, float (&acc)[4][16])
{
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
        uint32_t fa[4][4], fb[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_a<A_MN>(a, row + 16 * i, k, lane, fa[i]);
#pragma unroll
        for (int j = 0; j < 2; j++)
            load_b<B_MN>(b, column + 16 * j, k, lane, fb[j]);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                mma(&acc[i][4 * j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
    }
}

/* Tiles in an order in which those that run at once share rows and columns. */
__device__ __forceinline__ void place(const Problem &p, int index, int *row, int *column)
{
    int in_group = GROUP * p.tiles_n, group = index / in_group, rest = index - group * in_group;
    int rows = min(GROUP, p.tiles_m - group * GROUP);
    *column = rest / rows * SIDE;
    *row = (group * GROUP + rest % rows) * SIDE;
}

template <bool A_MN, bool B_MN, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2)
    plain_kernel(const __grid_constant__ Problem p, const __grid_constant__ Epilogue epilogue)
{
    extern __shared__ __align__(16) char memory[];
    __nv_bfloat16 *shared = (__nv_bfloat16 *)memory;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row, column;
    place(p, blockIdx.x, &row, &column);
    int stages = (p.k + BK - 1) / BK, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
    float acc[4][16] = {};
    auto fetch = [&](int stage) {
        __nv_bfloat16 *to = shared + stage % STAGES * 2 * OPERAND;
        if (stage < stages) {
            fetch_tile<A_MN, ALIGNED>(p.a, row, stage * BK, to);
            fetch_tile<B_MN, ALIGNED>(p.b, column, stage * BK, to + OPERAND);
        }
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES - 1; stage++)
        fetch(stage);
    for (int stage = 0; stage < stages; stage++) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads(); /* this stage is there for all, and all have read the one that is fetched over next */
        fetch(stage + STAGES - 1);
        const __nv_bfloat16 *from = shared + stage % STAGES * 2 * OPERAND;
        multiply_stage<A_MN, B_MN>(from, from + OPERAND, warp_row, warp_column, lane, acc);
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    float *sums = (float *)memory + warp * 16 * SUM_COLUMNS;
#pragma unroll
    for (int i = 0; i < 4; i++)
        finish_rows<SUM_COLUMNS>(epilogue, sums, acc[i], row + warp_row + 16 * i, column + warp_column, lane);
}

using Kernel = void (*)(Problem, Epilogue);

const Kernel plain_kernels[TK_LAYOUT_COUNT][2] = {
    {plain_kernel<false, true, false>, plain_kernel<false, true, true>},
    {plain_kernel<false, false, false>, plain_kernel<false, false, true>},
    {plain_kernel<true, true, false>, plain_kernel<true, true, true>},
};

bool is_aligned(const Operand &o)
{
    return (uintptr_t)o.base % 16 == 0 && o.stride % 8 == 0;
}

} // namespace

} // namespace matmul

enum tk_status tk_matmul_plain(const struct tk_matmul *mm, void *stream)
{
    using namespace matmul;
    int m = (int)mm->m, n = (int)mm->n, k = (int)mm->k;
    if (m == 0 || n == 0)
        return TK_OK;
    bool a_mn = mm->layout == TK_TN, b_mn = mm->layout != TK_NT;
    Problem p = {{(const __nv_bfloat16 *)mm->a, mm->lda, a_mn ? k : m, a_mn ? m : k},
                 {(const __nv_bfloat16 *)mm->b, mm->ldb, b_mn ? k : n, b_mn ? n : k},
                 k,
                 (m + SIDE - 1) / SIDE,
                 (n + SIDE - 1) / SIDE};
    Kernel kernel = plain_kernels[mm->layout][is_aligned(p.a) && is_aligned(p.b)];
    cudaError_t error =
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (error != cudaSuccess)
        return tk_cuda_status(error, "matmul: shared memory of the plain path");
    kernel<<<(unsigned)((size_t)p.tiles_m * (size_t)p.tiles_n), THREADS, SHARED_BYTES, (cudaStream_t)stream>>>(
        p, epilogue_of(mm));
    return tk_launched("matmul: launch of the plain path");
}

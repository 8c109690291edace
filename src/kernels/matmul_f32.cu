/*
 * matmul_f32.cu - the matmul of f32 operands on CUDA cores, for reference: no TF32, k in order.
 *
 * A CTA of 256 threads has 64 x 64 of C, a thread 4 x 4 of it. Both operands lie in shared memory with k down the rows.
 */
#include "kernels/error.h"
#include "kernels/launch.h"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/matmul_paths.h"

namespace matmul
{

namespace
{

enum { SIDE = 64, BK = 16, THREADS = 256, EACH = 4, PAD = 4 };

/* Element (row, k) of an operand stands at row * row_step + k * k_step. */
struct Operand {
    const float *base;
    size_t row_step, k_step;
    int rows;
};

/* Neighbouring threads read neighbouring addresses: along k or along the rows. */
__device__ __forceinline__ void fetch(const Operand &o, int first, int k, int nk, float (*to)[SIDE + PAD])
{
    for (int i = threadIdx.x; i < SIDE * BK; i += THREADS) {
        int row = o.k_step == 1 ? i / BK : i % SIDE, column = o.k_step == 1 ? i % BK : i / SIDE;
        bool inside = first + row < o.rows && k + column < nk;
        to[column][row] = inside ? o.base[(first + row) * o.row_step + (k + column) * o.k_step] : 0;
    }
}

__global__ void __launch_bounds__(THREADS)
    f32_kernel(const __grid_constant__ Operand a, const __grid_constant__ Operand b, int nk, int tiles_n,
               const __grid_constant__ Epilogue epilogue)
{
    __shared__ __align__(16) float shared_a[BK][SIDE + PAD], shared_b[BK][SIDE + PAD];
    int row = (int)(blockIdx.x / tiles_n) * SIDE, column = (int)(blockIdx.x % tiles_n) * SIDE;
    int i0 = threadIdx.x / 16 * EACH, j0 = threadIdx.x % 16 * EACH;
    float acc[EACH][EACH] = {};
    for (int k = 0; k < nk; k += BK) {
        __syncthreads();
        fetch(a, row, k, nk, shared_a);
        fetch(b, column, k, nk, shared_b);
        __syncthreads();
#pragma unroll
        for (int l = 0; l < BK; l++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    acc[i][j] += shared_a[l][i0 + i] * shared_b[l][j0 + j];
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
            if (row + i0 + i < epilogue.m && column + j0 + j < epilogue.n)
                finish_element<float>(epilogue, row + i0 + i, column + j0 + j, acc[i][j]);
}

} // namespace

} // namespace matmul

enum tk_status tk_matmul_f32(const struct tk_matmul *mm, void *stream)
{
    using namespace matmul;
    bool a_across = mm->layout == TK_TN, b_across = mm->layout != TK_NT;
    Operand a = {(const float *)mm->a, a_across ? 1 : mm->lda, a_across ? mm->lda : 1, (int)mm->m};
    Operand b = {(const float *)mm->b, b_across ? 1 : mm->ldb, b_across ? mm->ldb : 1, (int)mm->n};
    size_t tiles_m = (mm->m + SIDE - 1) / SIDE, tiles_n = (mm->n + SIDE - 1) / SIDE;
    f32_kernel<<<(unsigned)(tiles_m * tiles_n), THREADS, 0, (cudaStream_t)stream>>>(a, b, (int)mm->k, (int)tiles_n,
                                                                                    epilogue_of(mm));
    return tk_launched("matmul: launch in f32");
}

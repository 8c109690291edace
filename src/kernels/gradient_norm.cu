/*
 * gradient_norm.cu - the global gradient norm on the GPU, in two stages of fixed order: a block's partial sums of squares in
 * f64 to the workspace, then one block over all of them.
 */
#include "kernels/gradient_norm.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/launch.h"
#include "kernels/tensors.cuh"

namespace
{

using rows::Format;
using rows::Words;

enum { BATCH = 128, THREADS = 256, PACKS = 4, FINISH_THREADS = 1024, MOST_BLOCKS = 4096 };

struct Batch {
    const void *values[BATCH];
    size_t count[BATCH];
    unsigned first[BATCH + 1]; /* blocks before the tensor */
    int tensors;
    double *partial; /* [first[tensors]] */
};

/* Sum over a block of COUNT threads. */
template <int COUNT> __device__ __forceinline__ double block_sum(double mine, double (&shared)[COUNT / rows::LANES])
{
    for (int mask = rows::LANES / 2; mask > 0; mask /= 2)
        mine += __shfl_xor_sync(~0u, mine, mask);
    if (threadIdx.x % rows::LANES == 0)
        shared[threadIdx.x / rows::LANES] = mine;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < COUNT / rows::LANES; i++)
        sum += shared[i];
    return sum;
}

/* Squares of packs first, first + step, ...: PACKS of them in flight. */
template <class T>
__device__ __forceinline__ double packs_squared(const T *values, size_t packs, size_t first, size_t step)
{
    constexpr int N = Format<T>::N;
    double sum = 0;
    for (size_t at = first; at < packs; at += PACKS * step) {
        Words pack[PACKS];
#pragma unroll
        for (int i = 0; i < PACKS; i++)
            pack[i] = at + i * step < packs ? rows::load_words<rows::ONCE>(values + (at + i * step) * N) : Words{};
#pragma unroll
        for (int i = 0; i < PACKS; i++) {
            float v[N], squares = 0;
            Format<T>::widen(pack[i], v);
#pragma unroll
            for (int e = 0; e < N; e++)
                squares += v[e] * v[e];
            sum += (double)squares;
        }
    }
    return sum;
}

template <class T>
__device__ __forceinline__ double values_squared(const T *values, size_t count, size_t first, size_t step)
{
    double sum = 0;
    for (size_t at = first; at < count; at += step) {
        float v = rows::to_float(values[at]);
        sum += (double)(v * v);
    }
    return sum;
}

template <class T> __global__ void __launch_bounds__(THREADS) sum_squares(const __grid_constant__ Batch a)
{
    __shared__ double shared[THREADS / rows::LANES];
    int which = tensors::find<BATCH>(a.first, a.tensors, blockIdx.x);
    const T *values = (const T *)a.values[which];
    size_t count = a.count[which], step = (size_t)(a.first[which + 1] - a.first[which]) * THREADS;
    size_t first = (size_t)(blockIdx.x - a.first[which]) * THREADS + threadIdx.x;
    size_t packs = (uintptr_t)values % rows::PACK_BYTES ? 0 : count / Format<T>::N;
    size_t done = packs * Format<T>::N;
    double sum = packs_squared(values, packs, first, step) + values_squared(values + done, count - done, first, step);
    sum = block_sum<THREADS>(sum, shared);
    if (threadIdx.x == 0)
        a.partial[blockIdx.x] = sum;
}

struct Finish {
    const double *partial;
    size_t count;
    float scale, max_norm;
    float *result;
};

__global__ void __launch_bounds__(FINISH_THREADS) finish(const __grid_constant__ Finish a)
{
    __shared__ double shared[FINISH_THREADS / rows::LANES];
    double sum = 0;
    for (size_t i = threadIdx.x; i < a.count; i += FINISH_THREADS)
        sum += a.partial[i];
    sum = block_sum<FINISH_THREADS>(sum, shared);
    if (threadIdx.x > 0)
        return;
    float norm = (float)((double)a.scale * sqrt(sum)), clip = a.max_norm / (norm + 1e-6f);
    a.result[0] = norm;
    a.result[1] = norm != norm ? norm : a.max_norm > 0 && clip < 1.0f ? clip : 1.0f;
}

/* Blocks of a tensor: PACKS packs a thread, so long as there are not too many. */
template <class T> size_t blocks_of(size_t count)
{
    size_t per_block = (size_t)THREADS * PACKS * Format<T>::N, blocks = count / per_block + (count % per_block != 0);
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

size_t all_blocks(const struct tk_gradient_norm *norm)
{
    size_t blocks = 0;
    for (size_t i = 0; i < norm->count; i++)
        blocks += norm->type == TK_BF16 ? blocks_of<__nv_bfloat16>(norm->tensors[i].count)
                                        : blocks_of<float>(norm->tensors[i].count);
    return blocks;
}

/* Launch for tensors [*next, ...) as many as fit; `done` blocks were launched before. */
template <class T>
enum tk_status launch_batch(const struct tk_gradient_norm *norm, size_t *next, size_t *done, cudaStream_t stream)
{
    Batch batch = {};
    batch.partial = (double *)norm->workspace + *done;
    for (; *next < norm->count && batch.tensors < BATCH; ++*next) {
        const struct tk_gradient &tensor = norm->tensors[*next];
        if (tensor.count == 0)
            continue;
        int i = batch.tensors++;
        batch.values[i] = tensor.values;
        batch.count[i] = tensor.count;
        batch.first[i + 1] = batch.first[i] + (unsigned)blocks_of<T>(tensor.count);
    }
    unsigned blocks = batch.first[batch.tensors];
    *done += blocks;
    if (blocks > 0)
        sum_squares<T><<<blocks, THREADS, 0, stream>>>(batch);
    return tk_launched("gradient_norm: squares");
}

} // namespace

enum tk_status tk_gradient_norm_workspace(const struct tk_gradient_norm *norm, size_t *bytes)
{
    enum tk_status status = tk_gradient_norm_check(norm);
    if (status == TK_OK)
        *bytes = all_blocks(norm) * sizeof(double);
    return status;
}

enum tk_status tk_gradient_norm(const struct tk_gradient_norm *norm, void *stream_)
{
    cudaStream_t stream = (cudaStream_t)stream_;
    size_t need;
    enum tk_status status = tk_gradient_norm_workspace(norm, &need);
    if (status != TK_OK)
        return status;
    if (norm->workspace_bytes < need || (need > 0 && norm->workspace == NULL))
        return tk_error(TK_ERR_MEMORY, "gradient_norm: workspace_bytes is %zu, %zu are needed", norm->workspace_bytes,
                        need);
    size_t next = 0, done = 0;
    while (status == TK_OK && next < norm->count)
        status = norm->type == TK_BF16 ? launch_batch<__nv_bfloat16>(norm, &next, &done, stream)
                                       : launch_batch<float>(norm, &next, &done, stream);
    if (status != TK_OK)
        return status;
    finish<<<1, FINISH_THREADS, 0, stream>>>(
        {(const double *)norm->workspace, done, norm->scale, norm->max_norm, norm->result});
    return tk_launched("gradient_norm: sum");
}

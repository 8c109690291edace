/*
 * norm_backward.cu - the gradients of RMSNorm and LayerNorm on the GPU. With n = (x - mean) rstd and
 * g = output_gradient weight:
 *
 *     input_gradient = rstd (g - n mean(g n) - mean(g)) + residual_gradient        mean(g): LayerNorm only
 *     weight_gradient = sum over rows of output_gradient n,  bias_gradient = sum over rows of output_gradient
 *
 * A thread has the same columns in all its rows, so the sums over rows stay in its registers; at the end the groups of a
 * block add up theirs, in order, in shared memory, the block writes one row of partial sums to the workspace, and a second
 * kernel adds the blocks' rows in order. Rows too wide for registers (STREAM) get their column sums from a kernel that
 * reads the data again.
 */
#include "kernels/norm.h"
#include "kernels/check.h"
#include "kernels/rows_launch.cuh"

namespace
{

using rows::Format;
using rows::Group;
using rows::Sums;
using rows::Tile;

enum { BLOCK_THREADS = 512, MOST_BLOCKS = 2 }; /* few blocks: few partial rows */

struct Backward {
    size_t rows;
    unsigned width;
    unsigned ctas;
    bool centred;
    const void *input, *output_gradient, *residual_gradient, *weight;
    const float *mean, *rstd;
    void *input_gradient;
    float *partial; /* [blocks, or clusters][2][width]: sums of output_gradient n, and of output_gradient */
};

/* A row's two sums: of g n, and of g. */
template <class T, class Row, class G>
__device__ __forceinline__ Sums<2> gradient_sums(Row &row, G &group, const T *const (&from)[2], const Backward &a,
                                                 float mean, float rstd, Sums<2> *shared)
{
    Sums<2> sums = {};
    rows::sweep(row, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
        float w[Row::N];
        rows::load_weights<T, Row::ALIGNED>((const T *)a.weight, a.width, at, w);
#pragma unroll
        for (int e = 0; e < Row::N; e++) {
            float g = v[1][e] * w[e]; /* 0 past the row */
            sums.value[0] += g * ((v[0][e] - mean) * rstd);
            sums.value[1] += g;
        }
    });
    sums = group.reduce(sums, shared);
    sums.value[0] /= (float)a.width;
    sums.value[1] = a.centred ? sums.value[1] / (float)a.width : 0.0f;
    return sums;
}

/* Add the groups' sums of one kind over the block, in order, and write them as the block's partial row. `shared` has
 * width floats; only blocks of several groups use it. */
template <int V, int N, class G>
__device__ __forceinline__ void write_partial(const G &group, float (&sums)[V][N], float *shared, float *partial,
                                              unsigned width)
{
    for (unsigned g = 0; g < blockDim.y; g++) {
        bool last = g == blockDim.y - 1;
        if (threadIdx.y == g)
#pragma unroll
            for (int i = 0; i < V; i++)
#pragma unroll
                for (int e = 0; e < N; e++) {
                    unsigned at = (group.thread + i * group.threads) * N + e;
                    float before = g > 0 && at < width ? shared[at] : 0.0f;
                    if (at < width)
                        (last ? partial : shared)[at] = before + sums[i][e];
                }
        if (blockDim.y > 1)
            __syncthreads();
    }
}

template <class T, int V, bool ALIGNED, bool CLUSTER, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS, 1) norm_backward(const __grid_constant__ Backward a)
{
    using Row = Tile<T, 2, V, ALIGNED, STREAM>;
    constexpr int N = Row::N;
    constexpr bool AHEAD = ALIGNED && !STREAM;
    __shared__ Sums<2> shared[2 * rows::MAX_WARPS];
    extern __shared__ float block_sums[];
    Group<CLUSTER, true> group(a.ctas);
    const T *input = (const T *)a.input, *gradient = (const T *)a.output_gradient;
    float weight_sums[V][N] = {}, bias_sums[V][N] = {};
    float next_mean = 0, next_rstd = 0;
    Row next;
    auto fetch = [&](size_t row) {
        const T *const from[] = {input + row * a.width, gradient + row * a.width};
        rows::fetch(next, group, from, a.width);
        next_mean = a.centred ? __ldg(a.mean + row) : 0.0f;
        next_rstd = __ldg(a.rstd + row);
    };
    if (AHEAD && group.index < a.rows)
        fetch(group.index);
    for (size_t row = group.index; row < a.rows; row += group.count) {
        if (!AHEAD)
            fetch(row);
        size_t offset = row * a.width;
        Row current = next;
        float mean = next_mean, rstd = next_rstd;
        if (AHEAD && row + group.count < a.rows)
            fetch(row + group.count);
        const T *const from[] = {input + offset, gradient + offset};
        Sums<2> means = gradient_sums(current, group, from, a, mean, rstd, shared);
        rows::sweep(current, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int i) {
            float x[N], w[N], other[N] = {};
            rows::load_weights<T, ALIGNED>((const T *)a.weight, a.width, at, w);
            if (a.residual_gradient)
                Format<T>::widen(
                    rows::load<T, ALIGNED, rows::ONCE, STREAM>((const T *)a.residual_gradient + offset, a.width, at),
                    other);
#pragma unroll
            for (int e = 0; e < N; e++) {
                float n = (v[0][e] - mean) * rstd;
                x[e] = rstd * (v[1][e] * w[e] - n * means.value[0] - means.value[1]) + other[e];
                if (!STREAM) {
                    weight_sums[i][e] += v[1][e] * n;
                    bias_sums[i][e] += v[1][e];
                }
            }
            rows::store<T, ALIGNED>((T *)a.input_gradient + offset, a.width, at, Format<T>::narrow(x));
        });
    }
    if (!STREAM) {
        float *partial = a.partial + (size_t)(CLUSTER ? group.index : blockIdx.x) * 2 * a.width;
        write_partial(group, weight_sums, block_sums, partial, a.width);
        write_partial(group, bias_sums, block_sums, partial + a.width, a.width);
    }
    group.leave();
}

enum { COLUMNS = 32, SLICES = 16 };

/* Column sums of every gridDim.y-th slice of rows as one partial row; a thread has one column. */
template <class T> __global__ void __launch_bounds__(COLUMNS *SLICES) column_sums(const __grid_constant__ Backward a)
{
    __shared__ float shared[2][SLICES][COLUMNS];
    size_t column = (size_t)blockIdx.x * COLUMNS + threadIdx.x;
    float weight_sum = 0, bias_sum = 0;
    for (size_t row = (size_t)blockIdx.y * SLICES + threadIdx.y; column < a.width && row < a.rows;
         row += (size_t)gridDim.y * SLICES) {
        float x = rows::to_float(((const T *)a.input)[row * a.width + column]);
        float g = rows::to_float(((const T *)a.output_gradient)[row * a.width + column]);
        weight_sum += g * ((x - (a.centred ? a.mean[row] : 0.0f)) * a.rstd[row]);
        bias_sum += g;
    }
    shared[0][threadIdx.y][threadIdx.x] = weight_sum;
    shared[1][threadIdx.y][threadIdx.x] = bias_sum;
    __syncthreads();
    if (threadIdx.y < 2 && column < a.width) {
        float sum = 0;
        for (int k = 0; k < SLICES; k++)
            sum += shared[threadIdx.y][k][threadIdx.x];
        a.partial[((size_t)blockIdx.y * 2 + threadIdx.y) * a.width + column] = sum;
    }
}

struct Finish {
    size_t parts, width;
    const float *partial;
    void *gradient[2]; /* of the weights, and of the bias or NULL */
    bool bf16, accumulate;
};

/* Add the partial rows: blockIdx.y 0 for the weights, 1 for the bias. The order depends on the number of parts alone. */
__global__ void __launch_bounds__(COLUMNS *SLICES) add_partial(const __grid_constant__ Finish a)
{
    __shared__ float shared[SLICES][COLUMNS];
    size_t column = (size_t)blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;
    if (column < a.width)
        for (size_t part = threadIdx.y; part < a.parts; part += SLICES)
            sum += a.partial[(part * 2 + blockIdx.y) * a.width + column];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || column >= a.width)
        return;
    sum = 0;
    for (int k = 0; k < SLICES; k++)
        sum += shared[k][threadIdx.x];
    if (a.bf16) {
        __nv_bfloat16 *to = (__nv_bfloat16 *)a.gradient[blockIdx.y] + column;
        *to = __float2bfloat16_rn(a.accumulate ? __bfloat162float(*to) + sum : sum);
    } else {
        float *to = (float *)a.gradient[blockIdx.y] + column;
        *to = a.accumulate ? *to + sum : sum;
    }
}

#define BACKWARD(V, CLUSTER, STREAM)                                 \
    {                                                                \
        (const void *)norm_backward<T, V, false, CLUSTER, STREAM>,   \
            (const void *)norm_backward<T, V, true, CLUSTER, STREAM> \
    }

template <class T> rows::Family backward_family()
{
    return {"norm_backward",
            Format<T>::N,
            {1, 2, 2, 2},
            {BACKWARD(1, false, false), BACKWARD(2, false, false), BACKWARD(2, true, false), BACKWARD(2, false, true)},
            BLOCK_THREADS,
            true};
}

enum tk_status plan_backward(const struct tk_norm_backward *norm, rows::Plan *plan)
{
    rows::Family family = norm->type == TK_BF16 ? backward_family<__nv_bfloat16>() : backward_family<float>();
    bool aligned = rows::all_aligned(
        norm->width * tk_datatype_size(norm->type),
        {norm->input, norm->output_gradient, norm->residual_gradient, norm->weight, norm->input_gradient});
    /* shared memory matters to blocks of several groups alone, whose rows are narrow */
    return rows::make_plan(family, norm->rows, norm->width, aligned, 0, MOST_BLOCKS, plan);
}

size_t partial_rows(const rows::Plan &plan)
{
    return plan.blocks / plan.ctas;
}

enum tk_status launch_columns(const struct tk_norm_backward *norm, const Backward &arguments, size_t parts,
                              cudaStream_t stream)
{
    dim3 grid((unsigned)rows::divide_up(norm->width, COLUMNS), (unsigned)parts), block(COLUMNS, SLICES);
    if (norm->type == TK_BF16)
        column_sums<__nv_bfloat16><<<grid, block, 0, stream>>>(arguments);
    else
        column_sums<float><<<grid, block, 0, stream>>>(arguments);
    return tk_launched("norm_backward: column sums");
}

enum tk_status launch_finish(const struct tk_norm_backward *norm, size_t parts, cudaStream_t stream)
{
    Finish finish = {parts,
                     norm->width,
                     (const float *)norm->workspace,
                     {norm->weight_gradient, norm->bias_gradient},
                     norm->weight_type == TK_BF16,
                     norm->accumulate};
    dim3 grid((unsigned)rows::divide_up(norm->width, COLUMNS), norm->bias_gradient ? 2 : 1), block(COLUMNS, SLICES);
    add_partial<<<grid, block, 0, stream>>>(finish);
    return tk_launched("norm_backward: sum of partial rows");
}

/* Partial rows that column_sums makes: enough blocks for the memory, few enough to add. */
enum { STREAM_PARTS = 64 };

size_t parts_of(const rows::Plan &plan)
{
    return plan.shape == rows::STREAM ? STREAM_PARTS : partial_rows(plan);
}

} // namespace

enum tk_status tk_norm_backward_workspace(const struct tk_norm_backward *norm, size_t *bytes)
{
    enum tk_status status = tk_norm_backward_check(norm);
    if (status != TK_OK)
        return status;
    rows::Plan plan = {};
    if (norm->rows > 0)
        status = plan_backward(norm, &plan);
    if (status != TK_OK)
        return status;
    *bytes = norm->rows == 0 ? 0 : parts_of(plan) * 2 * norm->width * sizeof(float);
    return TK_OK;
}

enum tk_status tk_norm_backward(const struct tk_norm_backward *norm, void *stream_)
{
    cudaStream_t stream = (cudaStream_t)stream_;
    size_t need;
    enum tk_status status = tk_norm_backward_workspace(norm, &need);
    if (status != TK_OK)
        return status;
    if (norm->workspace_bytes < need || (need > 0 && norm->workspace == NULL))
        return tk_error(TK_ERR_MEMORY, "norm_backward: workspace_bytes is %zu, %zu are needed", norm->workspace_bytes,
                        need);
    if (norm->rows == 0)
        return launch_finish(norm, 0, stream);
    rows::Plan plan;
    status = plan_backward(norm, &plan);
    if (status != TK_OK)
        return status;
    Backward arguments = {norm->rows,
                          (unsigned)norm->width,
                          plan.ctas,
                          norm->centred,
                          norm->input,
                          norm->output_gradient,
                          norm->residual_gradient,
                          norm->weight,
                          norm->mean,
                          norm->rstd,
                          norm->input_gradient,
                          (float *)norm->workspace};
    if (plan.shape == rows::STREAM) { /* before the inputs may be overwritten */
        status = launch_columns(norm, arguments, STREAM_PARTS, stream);
        if (status != TK_OK)
            return status;
    }
    size_t shared = plan.groups > 1 ? norm->width * sizeof(float) : 0;
    status = rows::launch("norm_backward", plan, shared, arguments, stream);
    return status != TK_OK ? status : launch_finish(norm, parts_of(plan), stream);
}

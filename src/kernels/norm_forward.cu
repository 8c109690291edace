/*
 * norm_forward.cu - RMSNorm and LayerNorm on the GPU: a group loads its row once, keeps it in registers over both passes
 * (mean, then squares of differences), and has its next row in flight meanwhile. Weights come from the first-level cache:
 * every row reads them.
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
using rows::Words;

enum { BLOCK_THREADS = 256, MOST_BLOCKS = 64 };

struct Forward {
    size_t rows;
    unsigned width;
    float epsilon;
    unsigned ctas;
    bool centred;
    const void *input, *residual, *weight, *bias;
    void *sum, *output;
    float *mean, *rstd;
};

/* x = input + residual for one tile at column `at`, stored as `sum` too; two packs in flight leave registers for the next
 * row's. */
template <class T, class Row>
__device__ __forceinline__ void add_residual(Row &x, const T *residual, T *sum, unsigned width, unsigned at,
                                             unsigned step)
{
    constexpr int HALF = Row::V > 1 ? 2 : 1;
#pragma unroll
    for (int begin = 0; begin < Row::V; begin += HALF) {
        Words r[HALF];
#pragma unroll
        for (int i = 0; i < HALF; i++)
            r[i] = rows::load<T, Row::ALIGNED, rows::ONCE, Row::STREAM>(residual, width, at + (begin + i) * step);
#pragma unroll
        for (int i = 0; i < HALF; i++) {
            float a[Row::N], b[Row::N];
            Format<T>::widen(x.packs[0][begin + i], a);
            Format<T>::widen(r[i], b);
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                a[e] += b[e];
            x.packs[0][begin + i] = Format<T>::narrow(a);
            rows::store<T, Row::ALIGNED>(sum, width, at + (begin + i) * step, x.packs[0][begin + i]);
        }
    }
}

/* The same for the whole row. */
template <class T, class Row, class G>
__device__ __forceinline__ void add_residual_row(Row &x, const G &group, const T *input, const T *residual, T *sum,
                                                 unsigned width)
{
    unsigned step = group.threads * Row::N, first = group.thread * Row::N;
    if constexpr (!Row::STREAM) {
        add_residual(x, residual, sum, width, first, step);
    } else {
        const T *const from[] = {input};
        for (unsigned begin = 0; begin < width; begin += Row::V * step) {
            x.load(from, width, begin + first, step);
            add_residual(x, residual, sum, width, begin + first, step);
        }
    }
}

/* mean = 0 unless `centred`; rstd. */
template <class T, class Row, class G>
__device__ __forceinline__ void statistics(Row &x, G &group, const T *const (&from)[1], const Forward &a,
                                           Sums<1> *shared, float *mean, float *rstd)
{
    float middle = 0;
    if (a.centred) {
        Sums<1> sum = {};
        rows::sweep(x, group, from, a.width, [&](unsigned, const auto &, const auto &v, int) {
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                sum.value[0] += v[0][e]; /* zeros past the row */
        });
        middle = group.reduce(sum, shared).value[0] / (float)a.width;
    }
    Sums<1> squares = {};
    rows::sweep(x, group, from, a.width, [&](unsigned, const auto &inside, const auto &v, int) {
#pragma unroll
        for (int e = 0; e < Row::N; e++)
            squares.value[0] += inside(e) ? (v[0][e] - middle) * (v[0][e] - middle) : 0.0f;
    });
    *rstd = rsqrtf(group.reduce(squares, shared).value[0] / (float)a.width + a.epsilon);
    *mean = middle;
}

template <class T, int V, bool ALIGNED, bool CLUSTER, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS, ALIGNED ? 2 : 1) norm_forward(const __grid_constant__ Forward a)
{
    using Row = Tile<T, 1, V, ALIGNED, STREAM>;
    constexpr bool AHEAD = ALIGNED && !STREAM;
    __shared__ Sums<1> shared[2 * rows::MAX_WARPS];
    Group<CLUSTER, false> group(a.ctas);
    const T *input = (const T *)a.input, *weight = (const T *)a.weight, *bias = (const T *)a.bias;
    Row next;
    if (AHEAD && group.index < a.rows) {
        const T *const from[] = {input + (size_t)group.index * a.width};
        rows::fetch(next, group, from, a.width);
    }
    for (size_t row = group.index; row < a.rows; row += group.count) {
        size_t offset = row * a.width;
        Row x = next;
        if (AHEAD && row + group.count < a.rows) {
            const T *const from[] = {input + offset + (size_t)group.count * a.width};
            rows::fetch(next, group, from, a.width);
        }
        const T *const from[] = {a.residual && STREAM ? (const T *)a.sum + offset : input + offset};
        if (!AHEAD && !STREAM)
            rows::fetch(x, group, from, a.width);
        if (a.residual)
            add_residual_row(x, group, input + offset, (const T *)a.residual + offset, (T *)a.sum + offset, a.width);
        float mean, rstd;
        statistics(x, group, from, a, shared, &mean, &rstd);
        if (group.thread == 0)
            a.rstd[row] = rstd;
        if (group.thread == 0 && a.mean)
            a.mean[row] = mean;
        rows::sweep(x, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
            float y[Row::N], w[Row::N];
            rows::load_weights<T, ALIGNED>(weight, a.width, at, w);
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                y[e] = (v[0][e] - mean) * rstd * w[e];
            if (bias) {
                rows::load_weights<T, ALIGNED>(bias, a.width, at, w);
#pragma unroll
                for (int e = 0; e < Row::N; e++)
                    y[e] += w[e];
            }
            rows::store<T, ALIGNED>((T *)a.output + offset, a.width, at, Format<T>::narrow(y));
        });
    }
    group.leave();
}

#define FORWARD(V, CLUSTER, STREAM)                                 \
    {                                                               \
        (const void *)norm_forward<T, V, false, CLUSTER, STREAM>,   \
            (const void *)norm_forward<T, V, true, CLUSTER, STREAM> \
    }

template <class T> rows::Family forward_family()
{
    return {"norm_forward",
            Format<T>::N,
            {1, 4, 4, 4},
            {FORWARD(1, false, false), FORWARD(4, false, false), FORWARD(4, true, false), FORWARD(4, false, true)},
            BLOCK_THREADS,
            false};
}

} // namespace

enum tk_status tk_norm_forward(const struct tk_norm_forward *norm, void *stream)
{
    enum tk_status status = tk_norm_forward_check(norm);
    if (status != TK_OK || norm->rows == 0)
        return status;
    rows::Family family = norm->type == TK_BF16 ? forward_family<__nv_bfloat16>() : forward_family<float>();
    bool aligned = rows::all_aligned(norm->width * tk_datatype_size(norm->type),
                                     {norm->input, norm->residual, norm->weight, norm->bias, norm->sum, norm->output});
    rows::Plan plan;
    status = rows::make_plan(family, norm->rows, norm->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Forward arguments = {norm->rows,     (unsigned)norm->width, norm->epsilon, plan.ctas, norm->centred, norm->input,
                         norm->residual, norm->weight,          norm->bias,    norm->sum, norm->output,  norm->mean,
                         norm->rstd};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

/* softmax.cu - row softmax on the GPU: one read and one write forward, two reads and one write backward. */
#include "kernels/softmax.h"
#include "kernels/check.h"
#include "kernels/rows_launch.cuh"
#include "kernels/softmax.cuh"

namespace
{

using rows::Format;
using rows::Group;
using rows::Sums;
using rows::Tile;
using softmax::Pair;

enum { BLOCK_THREADS = 256, MOST_BLOCKS = 64 };

struct Forward {
    size_t rows;
    unsigned width, ctas;
    const void *input;
    void *output;
};

template <class T, int V, bool ALIGNED, bool CLUSTER, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS, ALIGNED ? 2 : 1) softmax_forward(const __grid_constant__ Forward a)
{
    using Row = Tile<T, 1, V, ALIGNED, STREAM>;
    constexpr bool AHEAD = ALIGNED && !STREAM;
    __shared__ Pair shared[2 * rows::MAX_WARPS];
    Group<CLUSTER, false> group(a.ctas);
    const T *input = (const T *)a.input;
    Row next;
    if (AHEAD && group.index < a.rows) {
        const T *const from[] = {input + (size_t)group.index * a.width};
        rows::fetch(next, group, from, a.width);
    }
    for (size_t row = group.index; row < a.rows; row += group.count) {
        const T *const from[] = {input + row * a.width};
        Row x = next;
        if (!AHEAD) {
            rows::fetch(x, group, from, a.width);
        } else if (row + group.count < a.rows) {
            const T *const later[] = {input + (row + group.count) * a.width};
            rows::fetch(next, group, later, a.width);
        }
        Pair pair = softmax::reduce(x, group, from, a.width, shared);
        float base = softmax::base_of(pair.max), share = 1.0f / pair.sum;
        rows::sweep(x, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
            float y[Row::N];
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                y[e] = softmax::exp_fast(v[0][e] - base) * share;
            rows::store<T, ALIGNED>((T *)a.output + row * a.width, a.width, at, Format<T>::narrow(y));
        });
    }
    group.leave();
}

struct Backward {
    size_t rows;
    unsigned width, ctas;
    const void *output, *output_gradient;
    void *input_gradient;
};

template <class T, int V, bool ALIGNED, bool CLUSTER, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS, ALIGNED ? 2 : 1)
    softmax_backward(const __grid_constant__ Backward a)
{
    using Row = Tile<T, 2, V, ALIGNED, STREAM>;
    __shared__ Sums<1> shared[2 * rows::MAX_WARPS];
    Group<CLUSTER, false> group(a.ctas);
    for (size_t row = group.index; row < a.rows; row += group.count) {
        size_t offset = row * a.width;
        const T *const from[] = {(const T *)a.output + offset, (const T *)a.output_gradient + offset};
        Row pair;
        rows::fetch(pair, group, from, a.width);
        Sums<1> sum = {};
        rows::sweep(pair, group, from, a.width, [&](unsigned, const auto &, const auto &v, int) {
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                sum.value[0] += v[0][e] * v[1][e]; /* zeros past the row */
        });
        float dot = group.reduce(sum, shared).value[0];
        rows::sweep(pair, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
            float x[Row::N];
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                x[e] = v[0][e] * (v[1][e] - dot);
            rows::store<T, ALIGNED>((T *)a.input_gradient + offset, a.width, at, Format<T>::narrow(x));
        });
    }
    group.leave();
}

#define SHAPE(KERNEL, V, CLUSTER, STREAM)                                                                     \
    {                                                                                                         \
        (const void *)KERNEL<T, V, false, CLUSTER, STREAM>, (const void *)KERNEL<T, V, true, CLUSTER, STREAM> \
    }

template <class T> rows::Family forward_family()
{
    return {"softmax_forward",
            Format<T>::N,
            {1, 4, 4, 4},
            {SHAPE(softmax_forward, 1, false, false), SHAPE(softmax_forward, 4, false, false),
             SHAPE(softmax_forward, 4, true, false), SHAPE(softmax_forward, 4, false, true)},
            BLOCK_THREADS,
            false};
}

template <class T> rows::Family backward_family()
{
    return {"softmax_backward",
            Format<T>::N,
            {1, 2, 2, 4},
            {SHAPE(softmax_backward, 1, false, false), SHAPE(softmax_backward, 2, false, false),
             SHAPE(softmax_backward, 2, true, false), SHAPE(softmax_backward, 4, false, true)},
            BLOCK_THREADS,
            false};
}

} // namespace

enum tk_status tk_softmax_forward(const struct tk_softmax_forward *softmax, void *stream)
{
    enum tk_status status = tk_softmax_forward_check(softmax);
    if (status != TK_OK || softmax->rows == 0)
        return status;
    rows::Family family = softmax->type == TK_BF16 ? forward_family<__nv_bfloat16>() : forward_family<float>();
    bool aligned =
        rows::all_aligned(softmax->width * tk_datatype_size(softmax->type), {softmax->input, softmax->output});
    rows::Plan plan = {};
    status = rows::make_plan(family, softmax->rows, softmax->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Forward arguments = {softmax->rows, (unsigned)softmax->width, plan.ctas, softmax->input, softmax->output};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

enum tk_status tk_softmax_backward(const struct tk_softmax_backward *softmax, void *stream)
{
    enum tk_status status = tk_softmax_backward_check(softmax);
    if (status != TK_OK || softmax->rows == 0)
        return status;
    rows::Family family = softmax->type == TK_BF16 ? backward_family<__nv_bfloat16>() : backward_family<float>();
    bool aligned = rows::all_aligned(softmax->width * tk_datatype_size(softmax->type),
                                     {softmax->output, softmax->output_gradient, softmax->input_gradient});
    rows::Plan plan = {};
    status = rows::make_plan(family, softmax->rows, softmax->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Backward arguments = {softmax->rows,   (unsigned)softmax->width, plan.ctas,
                          softmax->output, softmax->output_gradient, softmax->input_gradient};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

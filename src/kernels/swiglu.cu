/* swiglu.cu - the gate of SwiGLU on the GPU; nothing is reduced, so that every value crosses the memory bus once. */
#include "kernels/swiglu.h"
#include "kernels/check.h"
#include "kernels/rows_launch.cuh"
#include "kernels/softmax.cuh"

namespace
{

using rows::Format;
using rows::Group;
using rows::Tile;

enum { BLOCK_THREADS = 256, MOST_BLOCKS = 64 };

__device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + softmax::exp_fast(-x));
}

struct Forward {
    size_t rows, input_stride, output_stride;
    unsigned width;
    const void *gate, *up;
    void *output;
};

template <class T, int V, bool ALIGNED, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS) swiglu_forward(const __grid_constant__ Forward a)
{
    using Row = Tile<T, 2, V, ALIGNED, STREAM>;
    Group<false, false> group(1);
    for (size_t row = group.index; row < a.rows; row += group.count) {
        const T *const from[] = {(const T *)a.gate + row * a.input_stride, (const T *)a.up + row * a.input_stride};
        Row pair;
        rows::fetch(pair, group, from, a.width);
        rows::sweep(pair, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
            float y[Row::N];
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                y[e] = v[0][e] * sigmoid(v[0][e]) * v[1][e];
            rows::store<T, ALIGNED>((T *)a.output + row * a.output_stride, a.width, at, Format<T>::narrow(y));
        });
    }
}

struct Backward {
    size_t rows, input_stride, output_stride;
    unsigned width;
    const void *gate, *up, *output_gradient;
    void *gate_gradient, *up_gradient;
};

template <class T, int V, bool ALIGNED, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS) swiglu_backward(const __grid_constant__ Backward a)
{
    using Row = Tile<T, 3, V, ALIGNED, STREAM>;
    Group<false, false> group(1);
    for (size_t row = group.index; row < a.rows; row += group.count) {
        size_t offset = row * a.input_stride;
        const T *const from[] = {(const T *)a.gate + offset, (const T *)a.up + offset,
                                 (const T *)a.output_gradient + row * a.output_stride};
        Row three;
        rows::fetch(three, group, from, a.width);
        rows::sweep(three, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
            float gate[Row::N], up[Row::N];
#pragma unroll
            for (int e = 0; e < Row::N; e++) {
                float s = sigmoid(v[0][e]);
                gate[e] = v[2][e] * v[1][e] * s * (1.0f + v[0][e] * (1.0f - s));
                up[e] = v[2][e] * v[0][e] * s;
            }
            rows::store<T, ALIGNED>((T *)a.gate_gradient + offset, a.width, at, Format<T>::narrow(gate));
            rows::store<T, ALIGNED>((T *)a.up_gradient + offset, a.width, at, Format<T>::narrow(up));
        });
    }
}

#define SHAPE(KERNEL, V, STREAM)                                                            \
    {                                                                                       \
        (const void *)KERNEL<T, V, false, STREAM>, (const void *)KERNEL<T, V, true, STREAM> \
    }

template <class T> rows::Family forward_family()
{
    return {"swiglu_forward",
            Format<T>::N,
            {1, 2, 0, 2},
            {SHAPE(swiglu_forward, 1, false), SHAPE(swiglu_forward, 2, false), {}, SHAPE(swiglu_forward, 2, true)},
            BLOCK_THREADS,
            false};
}

template <class T> rows::Family backward_family()
{
    return {"swiglu_backward",
            Format<T>::N,
            {1, 2, 0, 2},
            {SHAPE(swiglu_backward, 1, false), SHAPE(swiglu_backward, 2, false), {}, SHAPE(swiglu_backward, 2, true)},
            BLOCK_THREADS,
            false};
}

} // namespace

enum tk_status tk_swiglu_forward(const struct tk_swiglu_forward *swiglu, void *stream)
{
    enum tk_status status = tk_swiglu_forward_check(swiglu);
    if (status != TK_OK || swiglu->rows == 0)
        return status;
    rows::Family family = swiglu->type == TK_BF16 ? forward_family<__nv_bfloat16>() : forward_family<float>();
    size_t size = tk_datatype_size(swiglu->type);
    bool aligned = rows::all_aligned((swiglu->width | swiglu->input_stride | swiglu->output_stride) * size,
                                     {swiglu->gate, swiglu->up, swiglu->output});
    rows::Plan plan = {};
    status = rows::make_plan(family, swiglu->rows, swiglu->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Forward arguments = {swiglu->rows, swiglu->input_stride, swiglu->output_stride, (unsigned)swiglu->width,
                         swiglu->gate, swiglu->up,           swiglu->output};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

enum tk_status tk_swiglu_backward(const struct tk_swiglu_backward *swiglu, void *stream)
{
    enum tk_status status = tk_swiglu_backward_check(swiglu);
    if (status != TK_OK || swiglu->rows == 0)
        return status;
    rows::Family family = swiglu->type == TK_BF16 ? backward_family<__nv_bfloat16>() : backward_family<float>();
    size_t size = tk_datatype_size(swiglu->type);
    bool aligned = rows::all_aligned(
        (swiglu->width | swiglu->input_stride | swiglu->output_stride) * size,
        {swiglu->gate, swiglu->up, swiglu->output_gradient, swiglu->gate_gradient, swiglu->up_gradient});
    rows::Plan plan = {};
    status = rows::make_plan(family, swiglu->rows, swiglu->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Backward arguments = {swiglu->rows,       swiglu->input_stride, swiglu->output_stride,   (unsigned)swiglu->width,
                          swiglu->gate,       swiglu->up,           swiglu->output_gradient, swiglu->gate_gradient,
                          swiglu->up_gradient};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

/*
 * cross_entropy.cu - softmax cross-entropy on the GPU. Forward with gradient: the logits are read once, the gradient is
 * written over them. The target's logit is read by one thread before the reduction, hence before anything is overwritten.
 */
#include "kernels/cross_entropy.h"
#include "kernels/check.h"
#include "kernels/rows_launch.cuh"
#include "kernels/softmax.cuh"

namespace
{

using rows::Format;
using rows::Group;
using rows::Tile;
using softmax::Pair;

enum { BLOCK_THREADS = 256, MOST_BLOCKS = 64 };

/* Of both kernels. */
struct Rows {
    size_t rows, stride;
    unsigned width, ctas;
    const void *logits;
    const int32_t *targets;
    int32_t ignore;
    float scale;
    void *gradient;
};

/* Write scale (exp(x - lse) - [column = target]); `scale` is 0 for an ignored row, whatever it holds. */
template <class T, class Row, class G>
__device__ __forceinline__ void write_gradient(Row &x, const G &group, const T *const (&from)[1], const Rows &a, T *to,
                                               float lse, int32_t target, float scale)
{
    bool ignored = target == a.ignore;
    float out_of_range = (uint32_t)target < a.width ? 0.0f : NAN;
    rows::sweep(x, group, from, a.width, [&](unsigned at, const auto &, const auto &v, int) {
        float g[Row::N];
#pragma unroll
        for (int e = 0; e < Row::N; e++) {
            float share = softmax::exp_fast(v[0][e] - lse) - (at + e == (uint32_t)target ? 1.0f : 0.0f);
            g[e] = ignored ? 0.0f : scale * share + out_of_range;
        }
        rows::store<T, Row::ALIGNED>(to, a.width, at, Format<T>::narrow(g));
    });
}

struct Forward {
    Rows rows;
    float *loss, *lse;
};

template <class T, int V, bool ALIGNED, bool CLUSTER, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS, ALIGNED ? 2 : 1)
    cross_entropy_forward(const __grid_constant__ Forward a)
{
    using Row = Tile<T, 1, V, ALIGNED, STREAM>;
    __shared__ Pair shared[2 * rows::MAX_WARPS];
    Group<CLUSTER, false> group(a.rows.ctas);
    unsigned width = a.rows.width;
    for (size_t row = group.index; row < a.rows.rows; row += group.count) {
        const T *const from[] = {(const T *)a.rows.logits + row * a.rows.stride};
        Row x;
        rows::fetch(x, group, from, width);
        int32_t target = a.rows.targets[row];
        float wanted = NAN;
        if (group.thread == 0 && (uint32_t)target < width)
            wanted = rows::to_float(from[0][target]);
        Pair pair = softmax::reduce(x, group, from, width, shared);
        float lse = pair.max + logf(pair.sum);
        if (group.thread == 0) {
            a.loss[row] = target == a.rows.ignore ? 0.0f : lse - wanted;
            if (a.lse)
                a.lse[row] = lse;
        }
        if (a.rows.gradient) {
            __syncwarp(); /* a group of one warp has no barrier between the read of `wanted` and the writes */
            write_gradient(x, group, from, a.rows, (T *)a.rows.gradient + row * a.rows.stride, lse, target,
                           a.rows.scale);
        }
    }
    group.leave();
}

struct Backward {
    Rows rows;
    const float *lse, *loss_gradient;
};

template <class T, int V, bool ALIGNED, bool CLUSTER, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS, ALIGNED ? 2 : 1)
    cross_entropy_backward(const __grid_constant__ Backward a)
{
    using Row = Tile<T, 1, V, ALIGNED, STREAM>;
    Group<CLUSTER, false> group(a.rows.ctas);
    for (size_t row = group.index; row < a.rows.rows; row += group.count) {
        const T *const from[] = {(const T *)a.rows.logits + row * a.rows.stride};
        Row x;
        rows::fetch(x, group, from, a.rows.width);
        float scale = a.loss_gradient ? a.rows.scale * a.loss_gradient[row] : a.rows.scale;
        write_gradient(x, group, from, a.rows, (T *)a.rows.gradient + row * a.rows.stride, a.lse[row],
                       a.rows.targets[row], scale);
    }
    group.leave();
}

#define SHAPE(KERNEL, V, CLUSTER, STREAM)                                                                     \
    {                                                                                                         \
        (const void *)KERNEL<T, V, false, CLUSTER, STREAM>, (const void *)KERNEL<T, V, true, CLUSTER, STREAM> \
    }

template <class T> rows::Family forward_family()
{
    return {"cross_entropy",
            Format<T>::N,
            {1, 4, 4, 4},
            {SHAPE(cross_entropy_forward, 1, false, false), SHAPE(cross_entropy_forward, 4, false, false),
             SHAPE(cross_entropy_forward, 4, true, false), SHAPE(cross_entropy_forward, 4, false, true)},
            BLOCK_THREADS,
            false};
}

/* Nothing is reduced: a wide row needs no cluster, the streaming kernel too reads it once. */
template <class T> rows::Family backward_family()
{
    return {"cross_entropy_backward",
            Format<T>::N,
            {1, 4, 0, 4},
            {SHAPE(cross_entropy_backward, 1, false, false),
             SHAPE(cross_entropy_backward, 4, false, false),
             {},
             SHAPE(cross_entropy_backward, 4, false, true)},
            BLOCK_THREADS,
            false};
}

} // namespace

enum tk_status tk_cross_entropy(const struct tk_cross_entropy *entropy, void *stream)
{
    enum tk_status status = tk_cross_entropy_check(entropy);
    if (status != TK_OK || entropy->rows == 0)
        return status;
    rows::Family family = entropy->type == TK_BF16 ? forward_family<__nv_bfloat16>() : forward_family<float>();
    size_t size = tk_datatype_size(entropy->type);
    bool aligned = rows::all_aligned((entropy->width | entropy->stride) * size, {entropy->logits, entropy->gradient});
    rows::Plan plan = {};
    status = rows::make_plan(family, entropy->rows, entropy->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Forward arguments = {{entropy->rows, entropy->stride, (unsigned)entropy->width, plan.ctas, entropy->logits,
                          entropy->targets, entropy->ignore, entropy->scale, entropy->gradient},
                         entropy->loss,
                         entropy->lse};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

enum tk_status tk_cross_entropy_backward(const struct tk_cross_entropy_backward *entropy, void *stream)
{
    enum tk_status status = tk_cross_entropy_backward_check(entropy);
    if (status != TK_OK || entropy->rows == 0)
        return status;
    rows::Family family = entropy->type == TK_BF16 ? backward_family<__nv_bfloat16>() : backward_family<float>();
    size_t size = tk_datatype_size(entropy->type);
    bool aligned = rows::all_aligned((entropy->width | entropy->stride) * size, {entropy->logits, entropy->gradient});
    rows::Plan plan = {};
    status = rows::make_plan(family, entropy->rows, entropy->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Backward arguments = {{entropy->rows, entropy->stride, (unsigned)entropy->width, plan.ctas, entropy->logits,
                           entropy->targets, entropy->ignore, entropy->scale, entropy->gradient},
                          entropy->lse,
                          entropy->loss_gradient};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

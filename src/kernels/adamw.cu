/*
 * adamw.cu - AdamW on the GPU: a thread has eight values of a tensor, one to two packs of 16 bytes of each operand, all in
 * flight at once.
 */
#include "kernels/adamw.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/launch.h"
#include "kernels/rows.cuh"
#include "kernels/tensors.cuh"

#include <math.h>

namespace
{

using tensors::load_values;
using tensors::store_values;
using tensors::VALUES;

enum { BATCH = 48 }; /* tensors a launch: its parameters are 4 KiB at most */

struct Tensor {
    size_t count;
    void *parameter;
    float *master, *m, *v;
    const void *gradient;
    float keep; /* 1 - rate decay */
    bool aligned;
};

struct Batch {
    Tensor tensor[BATCH];
    unsigned first[BATCH + 1];
    int count;
    float beta1, beta2, epsilon;
    float rate; /* rate / (1 - beta1^step) */
    float root; /* 1 / sqrt(1 - beta2^step) */
    float scale;
    const float *more_scale;
};

template <class P, class G, bool ALIGNED>
__device__ __forceinline__ void update(const Batch &a, const Tensor &t, size_t at, float scale)
{
    float g[VALUES], w[VALUES], m[VALUES], v[VALUES];
    load_values<G, ALIGNED>((const G *)t.gradient, at, t.count, g);
    load_values<float, ALIGNED>(t.master, at, t.count, w);
    load_values<float, ALIGNED>(t.m, at, t.count, m);
    load_values<float, ALIGNED>(t.v, at, t.count, v);
#pragma unroll
    for (int e = 0; e < VALUES; e++) {
        float x = g[e] * scale;
        m[e] = a.beta1 * m[e] + (1.0f - a.beta1) * x;
        v[e] = a.beta2 * v[e] + (1.0f - a.beta2) * (x * x);
        w[e] = w[e] * t.keep - a.rate * m[e] / (sqrtf(v[e]) * a.root + a.epsilon);
    }
    store_values<float, ALIGNED>(t.master, at, t.count, w);
    store_values<float, ALIGNED>(t.m, at, t.count, m);
    store_values<float, ALIGNED>(t.v, at, t.count, v);
    if (t.parameter)
        store_values<P, ALIGNED>((P *)t.parameter, at, t.count, w);
}

template <class P, class G>
__global__ void __launch_bounds__(tensors::THREADS) adamw_step(const __grid_constant__ Batch a)
{
    int which = tensors::find<BATCH>(a.first, a.count, blockIdx.x);
    const Tensor &t = a.tensor[which];
    float scale = a.more_scale ? a.scale * *a.more_scale : a.scale;
    size_t at = (size_t)(blockIdx.x - a.first[which]) * tensors::PIECE + threadIdx.x * VALUES;
    if (t.aligned && at + VALUES <= t.count)
        update<P, G, true>(a, t, at, scale);
    else if (at < t.count)
        update<P, G, false>(a, t, at, scale);
}

typedef void Kernel(Batch);

/* [parameter's type][gradient's type] */
Kernel *const kernels[TK_DATATYPE_COUNT][TK_DATATYPE_COUNT] = {
    {adamw_step<float, float>, adamw_step<float, __nv_bfloat16>},
    {adamw_step<__nv_bfloat16, float>, adamw_step<__nv_bfloat16, __nv_bfloat16>},
};
static_assert(TK_F32 == 0 && TK_BF16 == 1, "the order of the table's rows");

Tensor tensor_of(const struct tk_adamw_tensor &t, size_t from, size_t count, const struct tk_adamw *adamw)
{
    char *parameter = (char *)t.parameter;
    const char *gradient = (const char *)t.gradient;
    Tensor tensor = {count,
                     parameter ? parameter + from * tk_datatype_size(adamw->parameter_type) : nullptr,
                     t.master + from,
                     t.m + from,
                     t.v + from,
                     gradient + from * tk_datatype_size(adamw->gradient_type),
                     1.0f - adamw->rate * t.decay,
                     false};
    uintptr_t bits = (uintptr_t)tensor.parameter | (uintptr_t)tensor.master | (uintptr_t)tensor.m |
                     (uintptr_t)tensor.v | (uintptr_t)tensor.gradient;
    tensor.aligned = bits % rows::PACK_BYTES == 0;
    return tensor;
}

/* The pieces of a launch are 2^30 at most: larger tensors take several launches. */
constexpr size_t MOST_PIECES = (size_t)1 << 30, MOST_VALUES = MOST_PIECES * tensors::PIECE;

enum tk_status launch_batch(const struct tk_adamw *adamw, Batch *batch, cudaStream_t stream)
{
    if (batch->first[batch->count] > 0)
        kernels[adamw->parameter_type]
               [adamw->gradient_type]<<<batch->first[batch->count], tensors::THREADS, 0, stream>>>(*batch);
    batch->count = 0;
    return tk_launched("adamw");
}

} // namespace

enum tk_status tk_adamw(const struct tk_adamw *adamw, void *stream)
{
    enum tk_status status = tk_adamw_check(adamw);
    Batch batch = {};
    batch.beta1 = adamw->beta1, batch.beta2 = adamw->beta2, batch.epsilon = adamw->epsilon;
    batch.scale = adamw->scale, batch.more_scale = adamw->more_scale;
    batch.rate = (float)(adamw->rate / (1.0 - pow(adamw->beta1, (double)adamw->step)));
    batch.root = (float)(1.0 / sqrt(1.0 - pow(adamw->beta2, (double)adamw->step)));
    for (size_t i = 0; status == TK_OK && i < adamw->count; i++) {
        const struct tk_adamw_tensor &t = adamw->tensors[i];
        for (size_t from = 0; status == TK_OK && from < t.count; from += MOST_VALUES) {
            size_t count = t.count - from < MOST_VALUES ? t.count - from : MOST_VALUES;
            size_t pieces = tensors::pieces(count);
            if (batch.count == BATCH || batch.first[batch.count] + pieces > MOST_PIECES)
                status = launch_batch(adamw, &batch, (cudaStream_t)stream);
            batch.tensor[batch.count] = tensor_of(t, from, count, adamw);
            batch.first[batch.count + 1] = batch.first[batch.count] + (unsigned)pieces;
            batch.count++;
        }
    }
    return status != TK_OK ? status : launch_batch(adamw, &batch, (cudaStream_t)stream);
}

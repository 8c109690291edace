/*
 * attention.cu - attention on any GPU: chooses between the fast path and the plain one, which is here.
 *
 * The plain path has a warp for each row of Q (backward: also one for each key). A lane holds D / 32 neighbouring
 * columns; dot products go over the warp. Right for any strides and lengths, f32 too; its speed is that of such a loop.
 */
#include "kernels/attention_check.h"
#include "kernels/attention_sm90.h"
#include "kernels/error.h"

#include <cuda_bf16.h>
#include <math_constants.h>
#include <stdio.h>

namespace
{

enum { WARPS = 4 }; /* a CTA */

/* What a plain kernel works on. */
struct Problem {
    struct tk_attention a;
    struct tk_attention_backward b; /* its gradients; unused in forward */
    float scale;
    size_t rows; /* of all batches and heads, or keys of all kv heads */
};

__device__ float value(const float *p)
{
    return *p;
}
__device__ float value(const __nv_bfloat16 *p)
{
    return __bfloat162float(*p);
}
__device__ void put(float *p, float x)
{
    *p = x;
}
__device__ void put(__nv_bfloat16 *p, float x)
{
    *p = __float2bfloat16(x);
}

/* This lane's columns of a row. */
template <class T, int D>
__device__ void get_row(const void *data, const struct tk_attention_strides &s, size_t batch, size_t row, size_t head,
                        float (&x)[D / 32])
{
    const T *at = (const T *)data + batch * s.batch + row * s.row + head * s.head + threadIdx.x % 32 * (D / 32);
    for (int i = 0; i < D / 32; i++)
        x[i] = value(at + i);
}

template <class T, int D>
__device__ void put_row(void *data, const struct tk_attention_strides &s, size_t batch, size_t row, size_t head,
                        const float (&x)[D / 32], float factor)
{
    T *at = (T *)data + batch * s.batch + row * s.row + head * s.head + threadIdx.x % 32 * (D / 32);
    for (int i = 0; i < D / 32; i++)
        put(at + i, x[i] * factor);
}

template <int N> __device__ float dot(const float (&a)[N], const float (&b)[N])
{
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += a[i] * b[i];
    for (int i = 16; i; i /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, i);
    return sum;
}

template <int N> __device__ void add_scaled(float (&sum)[N], float factor, const float (&x)[N])
{
    for (int i = 0; i < N; i++)
        sum[i] += factor * x[i];
}

/* How many keys row i sees: the first ones. */
__device__ size_t keys_seen(const struct tk_attention &a, size_t i)
{
    if (!a.causal)
        return a.sk;
    size_t end = i + 1 + a.sk;
    return end <= a.sq ? 0 : min(end - a.sq, a.sk);
}

/* The first row that sees key j. */
__device__ size_t first_row(const struct tk_attention &a, size_t j)
{
    return a.causal && j + a.sq > a.sk ? j + a.sq - a.sk : 0;
}

/* The row of Q, or the key, of this warp: index = (batch x heads + head) x length + row. */
struct Place {
    size_t batch, head, row, index;
    bool is_there;
};

__device__ Place place(size_t count, size_t heads, size_t length)
{
    size_t index = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (index >= count)
        return {0, 0, 0, 0, false};
    return {index / length / heads, index / length % heads, index % length, index, true};
}

template <class T, int D> __global__ void __launch_bounds__(32 * WARPS) forward_rows(const __grid_constant__ Problem p)
{
    const struct tk_attention &a = p.a;
    Place at = place(p.rows, a.heads, a.sq);
    if (!at.is_there)
        return;
    size_t kv_head = at.head / (a.heads / a.kv_heads), n = keys_seen(a, at.row);
    float q[D / 32], x[D / 32], o[D / 32] = {}, most = -CUDART_INF_F, sum = 0;
    get_row<T, D>(a.q, a.q_strides, at.batch, at.row, at.head, q);
    for (size_t j = 0; j < n; j++) {
        get_row<T, D>(a.k, a.k_strides, at.batch, j, kv_head, x);
        float score = p.scale * dot(q, x), before = most;
        most = score > most || score != score ? score : most;
        float factor = before == -CUDART_INF_F ? 0 : expf(before - most), weight = expf(score - most);
        sum = sum * factor + weight;
        for (int i = 0; i < D / 32; i++)
            o[i] *= factor;
        get_row<T, D>(a.v, a.v_strides, at.batch, j, kv_head, x);
        add_scaled(o, weight, x);
    }
    put_row<T, D>(a.o, a.o_strides, at.batch, at.row, at.head, o, n ? 1 / sum : 0);
    if (threadIdx.x % 32 == 0)
        a.lse[at.index] = n ? most + logf(sum) : -CUDART_INF_F;
}

/* delta = row sum of dO x O, into the workspace; and dQ. */
template <class T, int D> __global__ void __launch_bounds__(32 * WARPS) backward_rows(const __grid_constant__ Problem p)
{
    const struct tk_attention &a = p.a;
    Place at = place(p.rows, a.heads, a.sq);
    if (!at.is_there)
        return;
    size_t kv_head = at.head / (a.heads / a.kv_heads), n = keys_seen(a, at.row);
    float q[D / 32], d_o[D / 32], x[D / 32], dq[D / 32] = {}, lse = a.lse[at.index];
    get_row<T, D>(a.o, a.o_strides, at.batch, at.row, at.head, x);
    get_row<T, D>(p.b.d_o, p.b.d_o_strides, at.batch, at.row, at.head, d_o);
    get_row<T, D>(a.q, a.q_strides, at.batch, at.row, at.head, q);
    float delta = dot(x, d_o);
    for (size_t j = 0; j < n; j++) {
        get_row<T, D>(a.v, a.v_strides, at.batch, j, kv_head, x);
        float d_weight = dot(d_o, x) - delta;
        get_row<T, D>(a.k, a.k_strides, at.batch, j, kv_head, x);
        add_scaled(dq, expf(p.scale * dot(q, x) - lse) * d_weight, x);
    }
    put_row<T, D>(p.b.dq, p.b.dq_strides, at.batch, at.row, at.head, dq, p.scale);
    if (threadIdx.x % 32 == 0)
        ((float *)p.b.workspace)[at.index] = delta;
}

template <class T, int D> __global__ void __launch_bounds__(32 * WARPS) backward_keys(const __grid_constant__ Problem p)
{
    const struct tk_attention &a = p.a;
    Place at = place(p.rows, a.kv_heads, a.sk);
    if (!at.is_there)
        return;
    const float *delta = (const float *)p.b.workspace;
    size_t group = a.heads / a.kv_heads;
    float k[D / 32], v[D / 32], q[D / 32], d_o[D / 32], dk[D / 32] = {}, dv[D / 32] = {};
    get_row<T, D>(a.k, a.k_strides, at.batch, at.row, at.head, k);
    get_row<T, D>(a.v, a.v_strides, at.batch, at.row, at.head, v);
    size_t first = first_row(a, at.row);
    for (size_t head = at.head * group; head < (at.head + 1) * group; head++)
        for (size_t i = first; i < a.sq; i++) {
            size_t index = (at.batch * a.heads + head) * a.sq + i;
            get_row<T, D>(a.q, a.q_strides, at.batch, i, head, q);
            get_row<T, D>(p.b.d_o, p.b.d_o_strides, at.batch, i, head, d_o);
            float weight = expf(p.scale * dot(q, k) - a.lse[index]);
            add_scaled(dv, weight, d_o);
            add_scaled(dk, weight * (dot(d_o, v) - delta[index]), q);
        }
    put_row<T, D>(p.b.dk, p.b.dk_strides, at.batch, at.row, at.head, dk, p.scale);
    put_row<T, D>(p.b.dv, p.b.dv_strides, at.batch, at.row, at.head, dv, 1);
}

typedef void kernel_fn(const Problem);

enum pass { FORWARD, ROWS, KEYS, PASSES };

/* By datatype and d (64, 128). */
kernel_fn *const kernels[PASSES][TK_DATATYPE_COUNT][2] = {
    {{forward_rows<float, 64>, forward_rows<float, 128>},
     {forward_rows<__nv_bfloat16, 64>, forward_rows<__nv_bfloat16, 128>}},
    {{backward_rows<float, 64>, backward_rows<float, 128>},
     {backward_rows<__nv_bfloat16, 64>, backward_rows<__nv_bfloat16, 128>}},
    {{backward_keys<float, 64>, backward_keys<float, 128>},
     {backward_keys<__nv_bfloat16, 64>, backward_keys<__nv_bfloat16, 128>}},
};

enum tk_status launch(enum pass pass, Problem &problem, void *stream)
{
    const struct tk_attention &a = problem.a;
    problem.rows = pass == KEYS ? a.batch * a.kv_heads * a.sk : a.batch * a.heads * a.sq;
    problem.scale = tk_attention_scale(&a);
    size_t grid = (problem.rows + WARPS - 1) / WARPS;
    if (grid == 0)
        return TK_OK;
    if (grid > INT32_MAX)
        return tk_error(TK_ERR_UNSUPPORTED, "attention: %zu rows, at most 2^33 are possible: split the batch",
                        problem.rows);
    void *arguments[] = {&problem};
    kernel_fn *kernel = kernels[pass][a.datatype][a.d == 128];
    return tk_cuda_status(cudaLaunchKernel((const void *)kernel, dim3((unsigned)grid), dim3(32 * WARPS), arguments, 0,
                                           (cudaStream_t)stream),
                          "attention, plain path");
}

bool is_empty(const struct tk_attention &a)
{
    return a.batch == 0 || a.heads == 0 || a.sq == 0;
}

} // namespace

enum tk_status tk_attention_forward(const struct tk_attention *a, void *stream)
{
    struct tk_device device;
    enum tk_status status = tk_attention_check(a);
    if (status != TK_OK || is_empty(*a))
        return status;
    status = tk_device_get(&device);
    if (status != TK_OK)
        return status;
    if (tk_attention_sm90_serves(a, &device))
        return tk_attention_forward_sm90(a, stream);
    Problem problem = {*a, {}, 0, 0};
    return launch(FORWARD, problem, stream);
}

static size_t workspace_of(const struct tk_attention_backward *b, const struct tk_device *device)
{
    const struct tk_attention &a = b->forward;
    return tk_attention_backward_sm90_serves(b, device) ? tk_attention_backward_sm90_workspace(b)
                                                        : a.batch * a.heads * a.sq * sizeof(float);
}

enum tk_status tk_attention_backward_workspace(const struct tk_attention_backward *b, size_t *bytes)
{
    struct tk_device device;
    enum tk_status status = tk_attention_backward_check(b);
    if (status == TK_OK)
        status = tk_device_get(&device);
    if (status == TK_OK)
        *bytes = workspace_of(b, &device);
    return status;
}

static enum tk_status check_workspace(const struct tk_attention_backward *b, const struct tk_device *device)
{
    size_t needed = workspace_of(b, device);
    if (b->workspace_bytes < needed || (!b->workspace && needed))
        return tk_error(TK_ERR_MEMORY, "attention backward: a workspace of %zu bytes is needed, %zu are given", needed,
                        b->workspace ? b->workspace_bytes : 0);
    if ((uintptr_t)b->workspace % 16)
        return tk_error(TK_ERR_ARGUMENT, "attention backward: the workspace is not aligned to 16 bytes");
    return TK_OK;
}

enum tk_status tk_attention_backward(const struct tk_attention_backward *b, void *stream)
{
    struct tk_device device;
    enum tk_status status = tk_attention_backward_check(b);
    if (status == TK_OK)
        status = tk_device_get(&device);
    if (status == TK_OK)
        status = check_workspace(b, &device);
    if (status != TK_OK || b->forward.batch == 0 || b->forward.heads == 0)
        return status;
    if (tk_attention_backward_sm90_serves(b, &device))
        return tk_attention_backward_sm90(b, stream);
    Problem problem = {b->forward, *b, 0, 0};
    status = launch(ROWS, problem, stream);
    return status == TK_OK ? launch(KEYS, problem, stream) : status;
}

enum tk_status tk_attention_describe(const struct tk_attention *a, char *text, size_t size)
{
    struct tk_device device;
    enum tk_status status = tk_attention_check(a);
    if (status == TK_OK)
        status = tk_device_get(&device);
    if (status != TK_OK)
        return status;
    snprintf(text, size, "%s",
             tk_attention_sm90_serves(a, &device) ? tk_attention_sm90_describe(a) : "plain, a warp a row");
    return TK_OK;
}

/*
 * attention_sm90.cu - the fast path of attention: chooses the tiles, describes the tensors, launches.
 *
 * Backward is one kernel that goes over keys, with dQ added up in memory in any order; or, deterministic, two: one for
 * dK and dV, one for dQ, which computes the scores a second time.
 */
#include "kernels/attention_sm90.h"

#include "kernels/attention_backward_sm90.cuh"
#include "kernels/attention_check.h"
#include "kernels/attention_dq_sm90.cuh"
#include "kernels/attention_forward_sm90.cuh"
#include "kernels/error.h"
#include "kernels/tensor_map.h"

namespace attention
{

enum { PAD = 128 }; /* rows of LSE and delta a head, rounded up to this */

static int padded(size_t rows)
{
    return (int)((rows + PAD - 1) / PAD * PAD);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

/* One of a call's tensors, and how it is cut: boxes of 64 columns and box_rows rows. */
struct Operand {
    const char *name;
    const void *base;
    bool is_of_keys; /* K, V and theirs; else Q, O and theirs */
    struct tk_attention_strides strides;
    int box_rows;
    CUtensorMap *map;
};

/* Sizes and strides of a tensor from the contiguous dimension up. */
static struct tk_tensor tensor_of(const char *name, const void *base, const struct tk_attention &a, bool is_of_keys,
                                  const struct tk_attention_strides &strides)
{
    struct tk_tensor tensor = {name,
                               base,
                               4,
                               {a.d, is_of_keys ? a.sk : a.sq, is_of_keys ? a.kv_heads : a.heads, a.batch},
                               {1, strides.row, strides.head, strides.batch}};
    for (int i = 1; i < 4; i++) /* a stride that leads nowhere may be anything; for TMA it may not */
        if (tensor.sizes[i] == 1)
            tensor.strides[i] = a.d;
    return tensor;
}

template <int N> static enum tk_status describe(const struct tk_attention &a, const Operand (&operands)[N])
{
    for (const Operand &o : operands) {
        struct tk_tensor tensor = tensor_of(o.name, o.base, a, o.is_of_keys, o.strides);
        enum tk_status status = tk_tensor_map(&tensor, (unsigned)o.box_rows, o.map);
        if (status != TK_OK)
            return status;
    }
    return TK_OK;
}

/* What TMA can describe: base and strides multiples of 16 bytes, strides not 0 and of 40 bits in bytes. */
static bool is_describable(const void *base, const struct tk_attention &a, bool is_of_keys,
                           const struct tk_attention_strides &strides)
{
    struct tk_tensor tensor = tensor_of("", base, a, is_of_keys, strides);
    bool is = (uintptr_t)base % 16 == 0;
    for (int i = 1; i < 4; i++)
        is = is && tensor.strides[i] && tensor.strides[i] % 8 == 0 && tensor.strides[i] < (size_t)1 << 39;
    return is;
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

/* `grid` CTAs with `bytes` of shared memory. */
static enum tk_status launch(const void *kernel, const char *name, size_t grid, int threads, int bytes,
                             void **arguments, void *stream)
{
    if (grid > INT32_MAX)
        return tk_error(TK_ERR_UNSUPPORTED, "%s: %zu tiles, at most 2^31 - 1 are possible: split the batch", name,
                        grid);
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error == cudaSuccess)
        error = cudaLaunchKernel(kernel, dim3((unsigned)grid), dim3((unsigned)threads), arguments, (size_t)bytes,
                                 (cudaStream_t)stream);
    return tk_cuda_status(error, name);
}

static Shape shape_of(const struct tk_attention &a, int bm)
{
    return {(int)a.sq,
            (int)a.sk,
            (int)a.heads,
            (int)(a.heads / a.kv_heads),
            (int)((a.sq + bm - 1) / bm),
            tk_attention_scale(&a) * LOG2_E};
}

template <class C> static enum tk_status run_forward(const struct tk_attention &a, void *stream)
{
    ForwardMaps maps;
    const Operand operands[] = {{"attention: q", a.q, false, a.q_strides, C::BM, &maps.q},
                                {"attention: k", a.k, true, a.k_strides, C::BN, &maps.k},
                                {"attention: v", a.v, true, a.v_strides, C::BN, &maps.v},
                                {"attention: o", a.o, false, a.o_strides, 64, &maps.o}};
    enum tk_status status = describe(a, operands);
    if (status != TK_OK)
        return status;
    Shape shape = shape_of(a, C::BM);
    float *lse = a.lse;
    void *arguments[] = {&maps, &lse, &shape};
    return launch((const void *)forward<C>, "attention forward", (size_t)shape.tiles * a.heads * a.batch, C::THREADS,
                  C::SHARED_BYTES, arguments, stream);
}

typedef enum tk_status forward_fn(const struct tk_attention &a, void *stream);

/* By d (64, 128), full and causal. The shapes of the tiles are those that were fastest on one H200, see
 * docs/kernels.md. */
static const struct {
    forward_fn *run;
    const char *text;
} forwards[2][2] = {
    {{run_forward<Forward<64, 3, 128, false>>, "sm90, 192 rows x 128 keys"},
     {run_forward<Forward<64, 3, 128, true>>, "sm90, 192 rows x 128 keys"}},
    {{run_forward<Forward<128, 2, 176, false>>, "sm90, 128 rows x 176 keys"},
     {run_forward<Forward<128, 2, 128, true>>, "sm90, 128 rows x 128 keys"}},
};

/* The workspace: LSE and delta of every row; and, unless deterministic, dQ in f32. */
struct Workspace {
    float *lse2, *delta, *dq;
};

static Workspace lay_out(const struct tk_attention_backward &b)
{
    size_t rows = b.forward.batch * b.forward.heads * (size_t)padded(b.forward.sq);
    float *memory = (float *)b.workspace;
    return {memory, memory + rows, b.deterministic ? nullptr : memory + 2 * rows};
}

template <int D> static enum tk_status run_prepare(const struct tk_attention_backward &b, Workspace w, void *stream)
{
    const struct tk_attention &a = b.forward;
    View o = {(__nv_bfloat16 *)a.o, a.o_strides}, d_o = {(__nv_bfloat16 *)b.d_o, b.d_o_strides};
    int sq = (int)a.sq, rows = padded(a.sq), heads = (int)a.heads;
    const float *lse = a.lse;
    void *arguments[] = {&o, &d_o, &lse, &w.lse2, &w.delta, &w.dq, &sq, &rows, &heads};
    return launch((const void *)prepare<D>, "attention backward: delta", (size_t)rows / 8 * a.heads * a.batch, 256, 0,
                  arguments, stream);
}

template <class C>
static enum tk_status run_keys(const struct tk_attention_backward &b, const Workspace &w, void *stream)
{
    const struct tk_attention &a = b.forward;
    BackwardMaps maps;
    const Operand operands[] = {{"attention: q", a.q, false, a.q_strides, C::BM, &maps.q},
                                {"attention: k", a.k, true, a.k_strides, C::BN, &maps.k},
                                {"attention: v", a.v, true, a.v_strides, C::BN, &maps.v},
                                {"attention: d_o", b.d_o, false, b.d_o_strides, C::BM, &maps.d_o},
                                {"attention: dk", b.dk, true, b.dk_strides, 64, &maps.dk},
                                {"attention: dv", b.dv, true, b.dv_strides, 64, &maps.dv}};
    enum tk_status status = describe(a, operands);
    if (status != TK_OK)
        return status;
    Shape all = shape_of(a, C::BM);
    BackwardShape shape = {all.sq,
                           all.sk,
                           (int)a.heads,
                           (int)a.kv_heads,
                           all.group,
                           padded(a.sq) / C::BM,
                           all.scale_log2,
                           tk_attention_scale(&a),
                           w.lse2,
                           w.delta,
                           w.dq};
    void *arguments[] = {&maps, &shape};
    size_t blocks = (a.sk + C::BN - 1) / C::BN;
    return launch((const void *)backward<C>, "attention backward", blocks * a.kv_heads * a.batch, C::THREADS,
                  C::SHARED_BYTES, arguments, stream);
}

template <int D, int BM>
static enum tk_status run_finish(const struct tk_attention_backward &b, const Workspace &w, void *stream)
{
    const struct tk_attention &a = b.forward;
    View dq = {(__nv_bfloat16 *)b.dq, b.dq_strides};
    int sq = (int)a.sq, tiles = padded(a.sq) / BM, heads = (int)a.heads;
    float scale = tk_attention_scale(&a);
    const float *from = w.dq;
    void *arguments[] = {&from, &dq, &scale, &sq, &tiles, &heads};
    return launch((const void *)finish<D, BM>, "attention backward: dq", (size_t)tiles * a.heads * a.batch, 256, 0,
                  arguments, stream);
}

template <class C>
static enum tk_status run_queries(const struct tk_attention_backward &b, const Workspace &w, void *stream)
{
    const struct tk_attention &a = b.forward;
    QueryMaps maps;
    const Operand operands[] = {{"attention: q", a.q, false, a.q_strides, C::BM, &maps.q},
                                {"attention: k", a.k, true, a.k_strides, C::BN, &maps.k},
                                {"attention: v", a.v, true, a.v_strides, C::BN, &maps.v},
                                {"attention: d_o", b.d_o, false, b.d_o_strides, C::BM, &maps.d_o},
                                {"attention: dq", b.dq, false, b.dq_strides, 64, &maps.dq}};
    enum tk_status status = describe(a, operands);
    if (status != TK_OK)
        return status;
    static_assert(PAD == C::BM, "lse2 and delta have whole tiles");
    Shape shape = shape_of(a, C::BM);
    RowSums sums = {w.lse2, w.delta};
    float scale = tk_attention_scale(&a);
    void *arguments[] = {&maps, &sums, &shape, &scale};
    return launch((const void *)query_gradients<C>, "attention backward: dq", (size_t)shape.tiles * a.heads * a.batch,
                  C::THREADS, C::SHARED_BYTES, arguments, stream);
}

/* BM: rows of Q that the kernel over keys takes at once; BN: keys that the one over rows does. */
template <int D, int BM, int BN, bool CAUSAL>
static enum tk_status run_backward(const struct tk_attention_backward &b, void *stream)
{
    Workspace w = lay_out(b);
    enum tk_status status = run_prepare<D>(b, w, stream);
    if (status == TK_OK && b.deterministic) {
        status = run_keys<Backward<D, BM, CAUSAL, false>>(b, w, stream);
        return status == TK_OK ? run_queries<QueryGradient<D, BN, CAUSAL>>(b, w, stream) : status;
    }
    if (status == TK_OK)
        status = run_keys<Backward<D, BM, CAUSAL, true>>(b, w, stream);
    return status == TK_OK ? run_finish<D, BM>(b, w, stream) : status;
}

typedef enum tk_status backward_fn(const struct tk_attention_backward &b, void *stream);

static backward_fn *const backwards[2][2] = {
    {run_backward<64, 128, 128, false>, run_backward<64, 128, 128, true>},
    {run_backward<128, 64, 64, false>, run_backward<128, 64, 64, true>},
};

} // namespace attention

/* ---- The interface ----------------------------------------------------------------------------------------------- */

bool tk_attention_sm90_serves(const struct tk_attention *a, const struct tk_device *device)
{
    using attention::is_describable;
    return device->capability == 90 && a->datatype == TK_BF16 && a->sk > 0 &&
           is_describable(a->q, *a, false, a->q_strides) && is_describable(a->k, *a, true, a->k_strides) &&
           is_describable(a->v, *a, true, a->v_strides) && is_describable(a->o, *a, false, a->o_strides);
}

bool tk_attention_backward_sm90_serves(const struct tk_attention_backward *b, const struct tk_device *device)
{
    using attention::is_describable;
    const struct tk_attention &a = b->forward;
    return tk_attention_sm90_serves(&a, device) && a.sq > 0 && is_describable(b->d_o, a, false, b->d_o_strides) &&
           is_describable(b->dq, a, false, b->dq_strides) && is_describable(b->dk, a, true, b->dk_strides) &&
           is_describable(b->dv, a, true, b->dv_strides);
}

enum tk_status tk_attention_forward_sm90(const struct tk_attention *a, void *stream)
{
    return attention::forwards[a->d == 128][a->causal].run(*a, stream);
}

size_t tk_attention_backward_sm90_workspace(const struct tk_attention_backward *b)
{
    size_t rows = b->forward.batch * b->forward.heads * (size_t)attention::padded(b->forward.sq);
    return rows * (2 + (b->deterministic ? 0 : b->forward.d)) * sizeof(float);
}

enum tk_status tk_attention_backward_sm90(const struct tk_attention_backward *b, void *stream)
{
    return attention::backwards[b->forward.d == 128][b->forward.causal](*b, stream);
}

const char *tk_attention_sm90_describe(const struct tk_attention *a)
{
    return attention::forwards[a->d == 128][a->causal].text;
}

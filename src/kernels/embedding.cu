/*
 * embedding.cu - rows of a table by index on the GPU, and the table's gradient without atomics.
 *
 * Backward: the tokens are sorted by id (stably), so that those of one row of the table stand
 * together. A block takes TILE sorted tokens and adds up runs of the same id:
 *
 *     sorted ids | 3 3 5 7 | 7 7 7 7 | 7 9 9 9 |
 *     tile       |    0    |    1    |    2    |
 *
 * A run inside a tile (3, 5 and 9) goes to the table at once. One that crosses tiles (7) leaves a partial row in each:
 * TAIL of the tile where it begins, HEAD of the later ones. A second kernel adds those up, in the order of tiles.
 */
#include "kernels/embedding.h"
#include "kernels/check.h"
#include "kernels/rows_launch.cuh"
#include "kernels/sort.cuh"
#include "kernels/tensors.cuh"

namespace
{

using rows::Format;
using rows::Words;
using tensors::VALUES;

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

enum { BLOCK_THREADS = 256, MOST_BLOCKS = 64 };

struct Forward {
    size_t tokens, vocabulary;
    unsigned width;
    const int32_t *ids;
    const void *table;
    void *output;
};

template <class T, int V, bool ALIGNED, bool STREAM>
__global__ void __launch_bounds__(rows::MAX_THREADS) embedding_forward(const __grid_constant__ Forward a)
{
    using Row = rows::Tile<T, 1, V, ALIGNED, STREAM>;
    rows::Group<false, false> group(1);
    for (size_t token = group.index; token < a.tokens; token += group.count) {
        size_t id = (size_t)(int64_t)a.ids[token];
        bool known = id < a.vocabulary;
        const T *const from[] = {(const T *)a.table + (known ? id : 0) * a.width};
        unsigned width = a.width;
        Row x = {};
        if (known)
            rows::fetch(x, group, from, width);
        rows::sweep(x, group, from, known || !STREAM ? width : 0, [&](unsigned at, const auto &, const auto &v, int) {
            float y[Row::N];
#pragma unroll
            for (int e = 0; e < Row::N; e++)
                y[e] = known ? v[0][e] : NAN;
            rows::store<T, ALIGNED>((T *)a.output + token * width, width, at, Format<T>::narrow(y));
        });
        for (unsigned at = group.thread; STREAM && !known && at < width; at += group.threads)
            ((T *)a.output)[token * width + at] = rows::from_float<T>(NAN);
    }
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

enum { TILE = 32, IN_FLIGHT = 4, HEAD = 0, TAIL = 1, THREADS = 128 };

struct Backward {
    unsigned tokens, vocabulary, width;
    bool aligned;
    const void *output_gradient;
    void *table_gradient;
    const uint32_t *ids;   /* [tokens], sorted; `vocabulary` for those that are none */
    const uint32_t *order; /* [tokens]: which token */
    float *partial;        /* [tiles][2][width] */
};

struct Keys {
    unsigned tokens, vocabulary;
    const int32_t *ids;
    uint32_t *keys, *tokens_in;
};

__global__ void __launch_bounds__(THREADS) make_keys(const __grid_constant__ Keys a)
{
    unsigned token = blockIdx.x * THREADS + threadIdx.x;
    if (token < a.tokens) {
        uint32_t id = (uint32_t)a.ids[token];
        a.keys[token] = id < a.vocabulary ? id : a.vocabulary;
        a.tokens_in[token] = token;
    }
}

template <class T>
__device__ __forceinline__ void load_row(const Backward &a, const T *row, unsigned at, float (&values)[VALUES])
{
    if (a.aligned)
        tensors::load_values<T, true>(row, at, a.width, values);
    else
        tensors::load_values<T, false>(row, at, a.width, values);
}

template <class T>
__device__ __forceinline__ void store_row(const Backward &a, T *row, unsigned at, const float (&values)[VALUES])
{
    if (a.aligned)
        tensors::store_values<T, true>(row, at, a.width, values);
    else
        tensors::store_values<T, false>(row, at, a.width, values);
}

template <class W>
__device__ __forceinline__ void add_to_table(const Backward &a, uint32_t id, unsigned at, const float (&sum)[VALUES])
{
    if (id >= a.vocabulary)
        return;
    float values[VALUES];
    W *row = (W *)a.table_gradient + (size_t)id * a.width;
    load_row(a, row, at, values);
#pragma unroll
    for (int e = 0; e < VALUES; e++)
        values[e] += sum[e];
    store_row(a, row, at, values);
}

/* Where the sum of the run of `id` that ends before sorted position `end` goes; its tile begins at `begin`. */
template <class W>
__device__ __forceinline__ void put_run(const Backward &a, uint32_t id, unsigned begin, unsigned run, unsigned end,
                                        unsigned at, const float (&sum)[VALUES])
{
    bool before = run == begin && begin > 0 && a.ids[begin - 1] == id;
    bool after = end == begin + TILE && end < a.tokens && a.ids[end] == id;
    if (!before && !after)
        add_to_table<W>(a, id, at, sum);
    else
        store_row(a, a.partial + ((size_t)(begin / TILE) * 2 + (before ? HEAD : TAIL)) * a.width, at, sum);
}

/* T: of the output's gradient; W: of the table's. A thread has VALUES columns, blockIdx.x the tile. */
template <class T, class W> __global__ void __launch_bounds__(THREADS) add_runs(const __grid_constant__ Backward a)
{
    unsigned begin = blockIdx.x * TILE, end = min(begin + TILE, a.tokens);
    unsigned at = (blockIdx.y * blockDim.x + threadIdx.x) * VALUES;
    if (at >= a.width)
        return;
    float sum[VALUES] = {};
    unsigned run = begin;
    for (unsigned first = begin; first < end; first += IN_FLIGHT) {
        float values[IN_FLIGHT][VALUES];
#pragma unroll
        for (unsigned i = 0; i < IN_FLIGHT; i++)
            if (first + i < end)
                load_row(a, (const T *)a.output_gradient + (size_t)a.order[first + i] * a.width, at, values[i]);
#pragma unroll
        for (unsigned i = 0; i < IN_FLIGHT; i++) {
            unsigned place = first + i;
            if (place >= end)
                break;
            if (place > run && a.ids[place] != a.ids[run]) {
                put_run<W>(a, a.ids[run], begin, run, place, at, sum);
                run = place;
#pragma unroll
                for (int e = 0; e < VALUES; e++)
                    sum[e] = 0;
            }
#pragma unroll
            for (int e = 0; e < VALUES; e++)
                sum[e] += values[i][e];
        }
    }
    put_run<W>(a, a.ids[run], begin, run, end, at, sum);
}

/* The first sorted position after those of `id`, which stands at `place`. */
__device__ __forceinline__ unsigned run_end(const Backward &a, uint32_t id, unsigned place)
{
    unsigned low = place, high = a.tokens; /* ids[low] == id; ids[high] is beyond */
    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;
        if (a.ids[middle] == id)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* Runs that begin in tile blockIdx.x and go on in the next. */
template <class W> __global__ void __launch_bounds__(THREADS) add_partial(const __grid_constant__ Backward a)
{
    unsigned tile = blockIdx.x, begin = tile * TILE, next = begin + TILE;
    unsigned at = (blockIdx.y * blockDim.x + threadIdx.x) * VALUES;
    if (at >= a.width || next >= a.tokens || a.ids[next - 1] != a.ids[next])
        return;
    uint32_t id = a.ids[next];
    if (begin > 0 && a.ids[begin] == id && a.ids[begin - 1] == id)
        return; /* it began earlier */
    unsigned last = (run_end(a, id, next) - 1) / TILE;
    float sum[VALUES];
    load_row(a, a.partial + ((size_t)tile * 2 + TAIL) * a.width, at, sum);
    for (unsigned first = tile + 1; first <= last; first += IN_FLIGHT) {
        float values[IN_FLIGHT][VALUES] = {};
#pragma unroll
        for (unsigned i = 0; i < IN_FLIGHT; i++)
            if (first + i <= last)
                load_row(a, a.partial + ((size_t)(first + i) * 2 + HEAD) * a.width, at, values[i]);
#pragma unroll
        for (unsigned i = 0; i < IN_FLIGHT; i++)
#pragma unroll
            for (int e = 0; e < VALUES; e++)
                sum[e] += values[i][e];
    }
    add_to_table<W>(a, id, at, sum);
}

/* ---- Workspace --------------------------------------------------------------------------------------------------- */

enum { WORKSPACE_ALIGNMENT = 256 };

/* Offsets in bytes. */
struct Workspace {
    size_t keys[2], tokens[2], counts, partial, all;
};

size_t tiles_of(size_t tokens)
{
    return rows::divide_up(tokens, TILE);
}

int bits_of(size_t vocabulary) /* of 0..vocabulary */
{
    int bits = 1;
    while (vocabulary >> bits)
        bits++;
    return bits;
}

size_t take(size_t *all, size_t bytes)
{
    size_t at = *all;
    *all += rows::divide_up(bytes, WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT;
    return at;
}

Workspace lay_out(const struct tk_embedding_backward *embedding)
{
    Workspace w = {};
    size_t bytes = embedding->tokens * sizeof(uint32_t);
    for (int i = 0; i < 2; i++) {
        w.keys[i] = take(&w.all, bytes);
        w.tokens[i] = take(&w.all, bytes);
    }
    w.counts = take(&w.all, sort::counts_bytes(embedding->tokens));
    w.partial = take(&w.all, tiles_of(embedding->tokens) * 2 * embedding->width * sizeof(float));
    return w;
}

/* `*ids` and `*order`: the sorted ids and their tokens, in the workspace. */
enum tk_status sort_tokens(const struct tk_embedding_backward *embedding, const Workspace &w, cudaStream_t stream,
                           const uint32_t **ids, const uint32_t **order)
{
    char *base = (char *)embedding->workspace;
    uint32_t *keys[2] = {(uint32_t *)(base + w.keys[0]), (uint32_t *)(base + w.keys[1])};
    uint32_t *tokens[2] = {(uint32_t *)(base + w.tokens[0]), (uint32_t *)(base + w.tokens[1])};
    Keys arguments = {(unsigned)embedding->tokens, (unsigned)embedding->vocabulary, embedding->ids, keys[0], tokens[0]};
    make_keys<<<(arguments.tokens - 1) / THREADS + 1, THREADS, 0, stream>>>(arguments);
    enum tk_status status = tk_launched("embedding_backward: keys");
    int sorted = 0;
    if (status == TK_OK)
        status = sort::run(keys, tokens, (uint32_t *)(base + w.counts), embedding->tokens,
                           bits_of(embedding->vocabulary), stream, &sorted);
    if (status != TK_OK)
        return status;
    *ids = keys[sorted];
    *order = tokens[sorted];
    return TK_OK;
}

typedef void Kernel(Backward);

/* [output gradient's type][table gradient's type] */
Kernel *const run_kernels[TK_DATATYPE_COUNT][TK_DATATYPE_COUNT] = {
    {add_runs<float, float>, add_runs<float, __nv_bfloat16>},
    {add_runs<__nv_bfloat16, float>, add_runs<__nv_bfloat16, __nv_bfloat16>},
};
Kernel *const partial_kernels[TK_DATATYPE_COUNT] = {add_partial<float>, add_partial<__nv_bfloat16>};
static_assert(TK_F32 == 0 && TK_BF16 == 1, "the order of the tables' rows");

enum tk_status add_tokens(const struct tk_embedding_backward *embedding, const Workspace &w, cudaStream_t stream)
{
    const uint32_t *ids, *order;
    enum tk_status status = sort_tokens(embedding, w, stream, &ids, &order);
    if (status != TK_OK)
        return status;
    Backward arguments = {(unsigned)embedding->tokens,
                          (unsigned)embedding->vocabulary,
                          (unsigned)embedding->width,
                          embedding->width % VALUES == 0 &&
                              rows::all_aligned(0, {embedding->output_gradient, embedding->table_gradient}),
                          embedding->output_gradient,
                          embedding->table_gradient,
                          ids,
                          order,
                          (float *)((char *)embedding->workspace + w.partial)};
    size_t threads = rows::divide_up(embedding->width, VALUES);
    unsigned block = threads < THREADS ? rows::whole_warps(threads) : THREADS;
    dim3 grid((unsigned)tiles_of(embedding->tokens), (unsigned)rows::divide_up(threads, block));
    run_kernels[embedding->type][embedding->table_type]<<<grid, block, 0, stream>>>(arguments);
    status = tk_launched("embedding_backward: runs");
    if (status != TK_OK)
        return status;
    partial_kernels[embedding->table_type]<<<grid, block, 0, stream>>>(arguments);
    return tk_launched("embedding_backward: partial rows");
}

#define SHAPE(V, STREAM)                                                                                          \
    {                                                                                                             \
        (const void *)embedding_forward<T, V, false, STREAM>, (const void *)embedding_forward<T, V, true, STREAM> \
    }

template <class T> rows::Family forward_family()
{
    return {"embedding_forward", Format<T>::N, {1, 4, 0, 4}, {SHAPE(1, false), SHAPE(4, false), {}, SHAPE(4, true)},
            BLOCK_THREADS,       false};
}

} // namespace

enum tk_status tk_embedding_forward(const struct tk_embedding_forward *embedding, void *stream)
{
    enum tk_status status = tk_embedding_forward_check(embedding);
    if (status != TK_OK || embedding->tokens == 0)
        return status;
    rows::Family family = embedding->type == TK_BF16 ? forward_family<__nv_bfloat16>() : forward_family<float>();
    bool aligned =
        rows::all_aligned(embedding->width * tk_datatype_size(embedding->type), {embedding->table, embedding->output});
    rows::Plan plan = {};
    status = rows::make_plan(family, embedding->tokens, embedding->width, aligned, 0, MOST_BLOCKS, &plan);
    if (status != TK_OK)
        return status;
    Forward arguments = {embedding->tokens, embedding->vocabulary, (unsigned)embedding->width,
                         embedding->ids,    embedding->table,      embedding->output};
    return rows::launch(family.name, plan, 0, arguments, stream);
}

enum tk_status tk_embedding_backward_workspace(const struct tk_embedding_backward *embedding, size_t *bytes)
{
    enum tk_status status = tk_embedding_backward_check(embedding);
    if (status == TK_OK)
        *bytes = lay_out(embedding).all;
    return status;
}

enum tk_status tk_embedding_backward(const struct tk_embedding_backward *embedding, void *stream_)
{
    cudaStream_t stream = (cudaStream_t)stream_;
    enum tk_status status = tk_embedding_backward_check(embedding);
    if (status != TK_OK)
        return status;
    Workspace w = lay_out(embedding);
    if (embedding->workspace_bytes < w.all || (w.all > 0 && embedding->workspace == NULL))
        return tk_error(TK_ERR_MEMORY, "embedding_backward: workspace_bytes is %zu, %zu are needed",
                        embedding->workspace_bytes, w.all);
    if (!embedding->accumulate) {
        size_t bytes = embedding->vocabulary * embedding->width * tk_datatype_size(embedding->table_type);
        status =
            tk_cuda_status(cudaMemsetAsync(embedding->table_gradient, 0, bytes, stream), "embedding_backward: zeros");
    }
    return status != TK_OK || embedding->tokens == 0 ? status : add_tokens(embedding, w, stream);
}

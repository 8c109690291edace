/*
 * rotary.cu - rotary position embedding on the GPU. A thread rotates N pairs: two packs of 16 bytes where a head's half is
 * made of whole packs, else one pair. The table's row of a token serves all its heads from the first-level cache.
 */
#include "kernels/rotary.h"
#include "kernels/check.h"
#include "kernels/rows_launch.cuh"

namespace
{

using rows::Format;
using rows::Words;

enum { THREADS = 256, BLOCKS_PER_MULTIPROCESSOR = 32 };

struct Arguments {
    size_t tokens, input_stride, output_stride, sequence, table_positions;
    unsigned heads, half; /* pairs of a head */
    float sign;           /* of sin: -1 rotates back */
    const void *input;
    void *output;
    const int32_t *positions;
    const float *table;
};

/* A row of the table, or NULL for a position that it lacks. */
__device__ __forceinline__ const float *table_row(const Arguments &a, size_t token)
{
    size_t position = a.positions ? (size_t)(int64_t)a.positions[token] : token % a.sequence;
    return position < a.table_positions ? a.table + position * 2 * a.half : nullptr;
}

/* N values of the table from pair `i` on, NaN where there is no row. */
template <int N> __device__ __forceinline__ void load_table(const float *row, unsigned i, float (&values)[N])
{
    if (row == nullptr) {
#pragma unroll
        for (int e = 0; e < N; e++)
            values[e] = NAN;
    } else if (N == 1) {
        values[0] = __ldg(row + i);
    } else {
#pragma unroll
        for (int e = 0; e < N; e += 4) {
            float4 four = __ldg((const float4 *)(row + i + e));
            values[e] = four.x, values[e + 1] = four.y, values[e + 2] = four.z, values[e + 3] = four.w;
        }
    }
}

/* Pairs' first and second values, as they stand in two packs. */
template <int N, bool INTERLEAVED>
__device__ __forceinline__ void split(const float (&low)[N], const float (&high)[N], float (&a)[N], float (&b)[N])
{
#pragma unroll
    for (int e = 0; e < N; e++) {
        a[e] = !INTERLEAVED ? low[e] : e < N / 2 ? low[2 * e % N] : high[2 * e % N];
        b[e] = !INTERLEAVED ? high[e] : e < N / 2 ? low[(2 * e + 1) % N] : high[(2 * e + 1) % N];
    }
}

template <int N, bool INTERLEAVED>
__device__ __forceinline__ void merge(const float (&a)[N], const float (&b)[N], float (&low)[N], float (&high)[N])
{
#pragma unroll
    for (int e = 0; e < N; e++) {
        low[e] = !INTERLEAVED ? a[e] : e % 2 ? b[e / 2] : a[e / 2];
        high[e] = !INTERLEAVED ? b[e] : e % 2 ? b[(N + e) / 2] : a[(N + e) / 2];
    }
}

template <int N>
__device__ __forceinline__ void rotate(float (&a)[N], float (&b)[N], const float *table, unsigned half, unsigned i,
                                       float sign)
{
    float c[N], s[N];
    load_table<N>(table, i, c);
    load_table<N>(table == nullptr ? table : table + half, i, s);
#pragma unroll
    for (int e = 0; e < N; e++) {
        float x = a[e], y = b[e], sin = sign * s[e];
        a[e] = x * c[e] - y * sin;
        b[e] = x * sin + y * c[e];
    }
}

/* Where thread item `item` of a token works: pair i of head `head`. */
struct Place {
    size_t token, low, high; /* columns of the two packs */
    unsigned i;
};

template <int N, bool INTERLEAVED> __device__ __forceinline__ Place place(const Arguments &a, size_t item)
{
    unsigned per_head = a.half / N, per_token = a.heads * per_head;
    Place p;
    p.token = item / per_token;
    unsigned rest = (unsigned)(item - p.token * per_token), head = rest / per_head;
    p.i = (rest - head * per_head) * N;
    p.low = (size_t)head * 2 * a.half + (INTERLEAVED ? 2 * p.i : p.i);
    p.high = p.low + (INTERLEAVED ? N : a.half);
    return p;
}

template <class T, bool INTERLEAVED>
__global__ void __launch_bounds__(THREADS) rotary_packs(const __grid_constant__ Arguments a)
{
    constexpr int N = Format<T>::N;
    size_t items = a.tokens * a.heads * (a.half / N);
    for (size_t item = (size_t)blockIdx.x * THREADS + threadIdx.x; item < items; item += (size_t)gridDim.x * THREADS) {
        Place p = place<N, INTERLEAVED>(a, item);
        const T *from = (const T *)a.input + p.token * a.input_stride;
        T *to = (T *)a.output + p.token * a.output_stride;
        float low[N], high[N], x[N], y[N];
        Words first = rows::load_words<rows::ONCE>(from + p.low), second = rows::load_words<rows::ONCE>(from + p.high);
        Format<T>::widen(first, low);
        Format<T>::widen(second, high);
        split<N, INTERLEAVED>(low, high, x, y);
        rotate<N>(x, y, table_row(a, p.token), a.half, p.i, a.sign);
        merge<N, INTERLEAVED>(x, y, low, high);
        rows::store_words(to + p.low, Format<T>::narrow(low));
        rows::store_words(to + p.high, Format<T>::narrow(high));
    }
}

template <class T, bool INTERLEAVED>
__global__ void __launch_bounds__(THREADS) rotary_pairs(const __grid_constant__ Arguments a)
{
    size_t items = a.tokens * a.heads * a.half;
    for (size_t item = (size_t)blockIdx.x * THREADS + threadIdx.x; item < items; item += (size_t)gridDim.x * THREADS) {
        Place p = place<1, INTERLEAVED>(a, item);
        const T *from = (const T *)a.input + p.token * a.input_stride;
        T *to = (T *)a.output + p.token * a.output_stride;
        float x[1] = {rows::to_float(from[p.low])}, y[1] = {rows::to_float(from[p.high])};
        rotate<1>(x, y, table_row(a, p.token), a.half, p.i, a.sign);
        to[p.low] = rows::from_float<T>(x[0]);
        to[p.high] = rows::from_float<T>(y[0]);
    }
}

typedef void Kernel(Arguments);

/* [type][interleaved][packs] */
Kernel *const kernels[TK_DATATYPE_COUNT][2][2] = {
    {{rotary_pairs<float, false>, rotary_packs<float, false>}, {rotary_pairs<float, true>, rotary_packs<float, true>}},
    {{rotary_pairs<__nv_bfloat16, false>, rotary_packs<__nv_bfloat16, false>},
     {rotary_pairs<__nv_bfloat16, true>, rotary_packs<__nv_bfloat16, true>}},
};
static_assert(TK_F32 == 0 && TK_BF16 == 1, "the order of the table's rows");

enum tk_status rotate(const struct tk_rotary *rotary, float sign, void *stream)
{
    enum tk_status status = tk_rotary_check(rotary);
    if (status != TK_OK || rotary->tokens == 0 || rotary->heads == 0)
        return status;
    struct tk_device device;
    status = tk_device_get(&device);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(rotary->type), half = rotary->width / 2, pack = rows::PACK_BYTES / size;
    bool packs =
        half % pack == 0 && (uintptr_t)rotary->table % rows::PACK_BYTES == 0 &&
        rows::all_aligned((rotary->input_stride | rotary->output_stride) * size, {rotary->input, rotary->output});
    Arguments arguments = {rotary->tokens,          rotary->input_stride,    rotary->output_stride, rotary->sequence,
                           rotary->table_positions, (unsigned)rotary->heads, (unsigned)half,        sign,
                           rotary->input,           rotary->output,          rotary->positions,     rotary->table};
    size_t items = rotary->tokens * rotary->heads * (packs ? half / pack : half);
    size_t blocks = rows::divide_up(items, THREADS);
    size_t most = (size_t)device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    kernels[rotary->type][rotary->interleaved]
           [packs]<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, (cudaStream_t)stream>>>(arguments);
    return tk_launched("rotary");
}

} // namespace

enum tk_status tk_rotary_forward(const struct tk_rotary *rotary, void *stream)
{
    return rotate(rotary, 1.0f, stream);
}

enum tk_status tk_rotary_backward(const struct tk_rotary *rotary, void *stream)
{
    return rotate(rotary, -1.0f, stream);
}

/*
 * attention_backward_sm90.cuh - attention backward on Hopper (Dao 2023): a CTA has 128 keys and goes over Q.
 *
 * With P = exp(scale Q K^T - LSE) and delta = row sum of dO x O,
 *
 *     dV = P^T dO    dS = P x (dO V^T - delta)    dK = scale dS^T Q    dQ = scale dS K
 *
 * Each of two warpgroups has 64 keys and computes everything transposed, keys down: so P^T and dS^T are left operands
 * of dV and dK as they stand in registers. For dQ, which needs all 128 keys of dS, they meet in shared memory; each
 * multiplies half of the tile, and adds its part to dQ in memory, in f32. A tile of Q, of five products:
 *
 *     products   S^T = K Q^T, dP^T = V dO^T          dV += P^T dO   |meet| dQ' = dS K, dK += dS^T Q
 *     the rest                  P^T (under dP^T)  dS^T      dS to shared |    dQ += dQ' (under dK)
 *
 * prepare() comes before it in the stream: delta, and dQ = 0; finish() after it: dQ to bf16.
 */
#ifndef KERNELS_ATTENTION_BACKWARD_SM90_CUH
#define KERNELS_ATTENTION_BACKWARD_SM90_CUH

#include "kernels/attention.h"
#include "kernels/attention_tile_sm90.cuh"

namespace attention
{

/* BM: rows of Q a tile. WITH_DQ: also dQ, whose parts are added in any order. */
template <int D_, int BM_, bool CAUSAL_, bool WITH_DQ_> struct Backward {
    static constexpr int D = D_, BM = BM_, BN = 128, BOXES = D / 64, THREADS = 384;
    static constexpr bool CAUSAL = CAUSAL_, WITH_DQ = WITH_DQ_;
    static constexpr int KV_BOX = BN * ROW_BYTES, Q_BOX = BM * ROW_BYTES;
    static constexpr int KV_BYTES = BOXES * KV_BOX, Q_BYTES = BOXES * Q_BOX;
    static constexpr int DS_BOX = BN * ROW_BYTES, DS_BYTES = BM / 64 * DS_BOX; /* dS^T: 128 keys x 64 rows a box */
    static constexpr int Q_AT = 2 * KV_BYTES, DO_AT = Q_AT + STAGES * Q_BYTES, DS_AT = DO_AT + STAGES * Q_BYTES;
    static constexpr int ROWS_AT = DS_AT + 2 * DS_BYTES; /* LSE and delta of a tile, a stage each */
    static constexpr int BARRIERS_AT = ROWS_AT + STAGES * 2 * BM * 4;
    static constexpr int SHARED_BYTES = BARRIERS_AT + 128 + 1024;
};

/* Named barriers. */
enum { BOTH_WARPGROUPS = 1, OF_ONE = 2 };

struct BackwardShape {
    int sq, sk, heads, kv_heads, group;
    int tiles; /* of BM rows of Q, a head */
    float scale_log2, scale;
    const float *lse2;  /* [batch][heads][tiles x BM]: LSE x log2(e); +inf where a row has no key or does not exist */
    const float *delta; /* the same shape */
    float *dq;          /* [batch][heads][tiles][BM x D], a tile in the order of put_dq(); without scale */
};

template <class C> struct BackwardShared {
    uint32_t base;
    __device__ __forceinline__ uint32_t k() const
    {
        return base;
    }
    __device__ __forceinline__ uint32_t v() const
    {
        return base + C::KV_BYTES;
    }
    __device__ __forceinline__ uint32_t q(int stage) const
    {
        return base + C::Q_AT + stage * C::Q_BYTES;
    }
    __device__ __forceinline__ uint32_t d_o(int stage) const
    {
        return base + C::DO_AT + stage * C::Q_BYTES;
    }
    __device__ __forceinline__ uint32_t ds(int buffer) const
    {
        return base + C::DS_AT + buffer * C::DS_BYTES;
    }
    __device__ __forceinline__ uint32_t lse(int stage) const
    {
        return base + C::ROWS_AT + stage * 2 * C::BM * 4;
    }
    __device__ __forceinline__ uint32_t delta(int stage) const
    {
        return lse(stage) + C::BM * 4;
    }
    __device__ __forceinline__ uint32_t barrier(int i) const
    {
        return base + C::BARRIERS_AT + 8 * i;
    }
    __device__ __forceinline__ uint32_t kv_full() const
    {
        return barrier(0);
    }
    __device__ __forceinline__ uint32_t q_full(int stage) const
    {
        return barrier(1 + stage);
    }
    __device__ __forceinline__ uint32_t do_full(int stage) const
    {
        return barrier(1 + STAGES + stage);
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
    {
        return barrier(1 + 2 * STAGES + stage);
    }
};

struct BackwardMaps {
    CUtensorMap q, k, v, d_o, dk, dv;
};

/* The first tile of rows that sees a key of block n. */
template <class C> __device__ __forceinline__ int first_tile(const BackwardShape &s, int n)
{
    return C::CAUSAL ? max(0, n * C::BN - (s.sk - s.sq)) / C::BM : 0;
}

/* One thread. at.head: of K and V. */
template <class C>
__device__ __forceinline__ void load_backward(const BackwardShared<C> &s, const BackwardMaps &maps,
                                              const BackwardShape &shape, const Place &at)
{
    hopper::barrier_expect(s.kv_full(), 2 * C::KV_BYTES);
    for (int i = 0; i < C::BOXES; i++) {
        hopper::load_box4(s.k() + i * C::KV_BOX, &maps.k, s.kv_full(), 64 * i, at.block * C::BN, at.head, at.batch);
        hopper::load_box4(s.v() + i * C::KV_BOX, &maps.v, s.kv_full(), 64 * i, at.block * C::BN, at.head, at.batch);
    }
    Ring<STAGES> ring;
    for (int g = 0; g < shape.group; g++) {
        int head = at.head * shape.group + g;
        size_t rows = ((size_t)at.batch * shape.heads + head) * shape.tiles * C::BM;
        for (int m = first_tile<C>(shape, at.block); m < shape.tiles; m++, ring.next()) {
            int st = ring.stage;
            hopper::barrier_wait(s.empty(st), ring.parity ^ 1);
            hopper::barrier_expect(s.q_full(st), C::Q_BYTES + C::BM * 4);
            for (int i = 0; i < C::BOXES; i++)
                hopper::load_box4(s.q(st) + i * C::Q_BOX, &maps.q, s.q_full(st), 64 * i, m * C::BM, head, at.batch);
            hopper::load_bytes(s.lse(st), shape.lse2 + rows + m * C::BM, C::BM * 4, s.q_full(st));
            hopper::barrier_expect(s.do_full(st), C::Q_BYTES + C::BM * 4);
            for (int i = 0; i < C::BOXES; i++)
                hopper::load_box4(s.d_o(st) + i * C::Q_BOX, &maps.d_o, s.do_full(st), 64 * i, m * C::BM, head,
                                  at.batch);
            hopper::load_bytes(s.delta(st), shape.delta + rows + m * C::BM, C::BM * 4, s.do_full(st));
        }
    }
}

/* acc[64 keys x BM rows] = this warpgroup's rows of `kv` times all rows of `q`, over D. */
template <class C>
__device__ __forceinline__ void transposed_scores(float (&acc)[C::BM / 2], uint32_t kv, uint32_t q, int wg)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::D / 16; k++)
        hopper::wgmma_bf16<0, 0>(acc,
                                 hopper::k_major_operand(kv + k / 4 * C::KV_BOX + wg * 64 * ROW_BYTES + k % 4 * 32),
                                 hopper::k_major_operand(q + k / 4 * C::Q_BOX + k % 4 * 32), k > 0);
    hopper::wgmma_commit();
}

/* acc[64 keys x D] += p[64 keys x BM rows] x[BM rows x D] */
template <class C>
__device__ __forceinline__ void accumulate(float (&acc)[C::D / 2], const uint32_t (&p)[C::BM / 16][4], uint32_t x)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::BM / 16; k++)
        hopper::wgmma_bf16<1>(acc, p[k], hopper::mn_major_operand(x + k * 16 * ROW_BYTES, C::Q_BOX), 1);
    hopper::wgmma_commit();
}

/* acc[64 rows x 64 columns] = dS[64 rows x 128 keys] K[128 keys x 64 columns]. This warpgroup's half of the tile of dQ
 * is columns (BM 64, D 128) or rows (BM 128, D 64). */
template <class C>
__device__ __forceinline__ void query_gradient(float (&acc)[32], uint32_t ds, uint32_t k_tile, int wg)
{
    static_assert((C::BM == 64 && C::D == 128) || (C::BM == 128 && C::D == 64), "two halves of 64 x 64");
    uint32_t a = ds + (C::BM == 128 ? wg * C::DS_BOX : 0), b = k_tile + (C::BM == 64 ? wg * C::KV_BOX : 0);
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::BN / 16; k++)
        hopper::wgmma_bf16<1, 1>(acc, hopper::mn_major_operand(a + k * 16 * ROW_BYTES, C::DS_BOX),
                                 hopper::mn_major_operand(b + k * 16 * ROW_BYTES, C::KV_BOX), k > 0);
    hopper::wgmma_commit();
}

__device__ __forceinline__ float2 shared_pair(uint32_t at)
{
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at));
    return x;
}

/* acc: scores become probabilities. lse: of the tile's rows, here columns. */
template <class C>
__device__ __forceinline__ void probabilities(float (&acc)[C::BM / 2], uint32_t lse, float scale_log2, int lane)
{
#pragma unroll
    for (int j = 0; j < C::BM / 8; j++) {
        float2 l = shared_pair(lse + (8 * j + 2 * (lane % 4)) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++)
            acc[4 * j + i] = exp2_fast(fmaf(acc[4 * j + i], scale_log2, i % 2 ? -l.y : -l.x));
    }
}

/* ds = dO V^T becomes dS = P x (ds - delta). */
template <class C>
__device__ __forceinline__ void score_gradients(float (&ds)[C::BM / 2], const float (&p)[C::BM / 2], uint32_t delta,
                                                int lane)
{
#pragma unroll
    for (int j = 0; j < C::BM / 8; j++) {
        float2 d = shared_pair(delta + (8 * j + 2 * (lane % 4)) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++)
            ds[4 * j + i] = p[4 * j + i] * (ds[4 * j + i] - (i % 2 ? d.y : d.x));
    }
}

/* Probabilities of keys that a row may not see become 0. key: this thread's first; row: the tile's first. */
template <class C>
__device__ __forceinline__ void mask_transposed(float (&acc)[C::BM / 2], const BackwardShape &s, int key, int row,
                                                int lane)
{
#pragma unroll
    for (int i = 0; i < C::BM / 2; i++) {
        int r = row + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (key + i % 4 / 2 * 8 >= keys_end<C::CAUSAL>(s.sq, s.sk, r))
            acc[i] = 0;
    }
}

/* dS^T in boxes of 64 rows of Q. */
template <class C>
__device__ __forceinline__ void put_ds(uint32_t ds, const uint32_t (&p)[C::BM / 16][4], const Worker &w)
{
#pragma unroll
    for (int k = 0; k < C::BM / 16; k++)
        hopper::store_matrices(matrices_at(ds + k / 4 * C::DS_BOX, 16 * k, w), p[k][0], p[k][1], p[k][2], p[k][3]);
}

/* Add to the tile of dQ, which lies in memory as the threads hold it: [warpgroup][8][128 threads][4]. */
__device__ __forceinline__ void put_dq(float *tile, const float (&acc)[32], const Worker &w)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                         tile + ((w.wg * 8 + i) * 128 + w.thread) * 4),
                     "f"(acc[4 * i]), "f"(acc[4 * i + 1]), "f"(acc[4 * i + 2]), "f"(acc[4 * i + 3])
                     : "memory");
}

/* A thread's part of 64 keys. */
template <class C> struct Keys {
    float dk[C::D / 2], dv[C::D / 2];
};

/* Tile m of rows of Q, in stage ring.stage. dS lies in one of two buffers by turns: who writes one has passed the
 * meeting of the tile before, which the other warpgroup reached after it had read that buffer. */
template <class C>
__device__ __forceinline__ void add_tile(const BackwardShared<C> &s, Keys<C> &t, const BackwardShape &shape,
                                         const Ring<STAGES> &ring, int buffer, int m, int first_key, bool tail,
                                         float *dq, const Worker &w)
{
    int st = ring.stage, lane = w.lane(), own = first_key + w.wg * 64;
    float p[C::BM / 2], ds[C::BM / 2];
    uint32_t p_operand[C::BM / 16][4], ds_operand[C::BM / 16][4];
    hopper::barrier_wait(s.q_full(st), ring.parity);
    transposed_scores<C>(p, s.k(), s.q(st), w.wg);
    hopper::barrier_wait(s.do_full(st), ring.parity);
    transposed_scores<C>(ds, s.v(), s.d_o(st), w.wg);
    hopper::wgmma_wait<1>();
    probabilities<C>(p, s.lse(st), shape.scale_log2, lane);
    if (tail || (C::CAUSAL && m * C::BM + (shape.sk - shape.sq) < own + 63))
        mask_transposed<C>(p, shape, first_key + w.row(), m * C::BM, lane);
    as_operand(p, p_operand);
    hopper::wgmma_wait<0>();
    score_gradients<C>(ds, p, s.delta(st), lane);
    as_operand(ds, ds_operand);
    accumulate<C>(t.dv, p_operand, s.d_o(st));
    float dq_part[32];
    if constexpr (C::WITH_DQ) {
        put_ds<C>(s.ds(buffer), ds_operand, w);
        hopper::fence_async_shared();
        hopper::named_barrier(BOTH_WARPGROUPS, 256);
        query_gradient<C>(dq_part, s.ds(buffer), s.k(), w.wg);
    }
    accumulate<C>(t.dk, ds_operand, s.q(st));
    hopper::wgmma_wait<1>();
    keep(p_operand);
    if constexpr (C::WITH_DQ)
        put_dq(dq + (size_t)m * (C::BM * C::D), dq_part, w);
    hopper::wgmma_wait<0>();
    keep(ds_operand);
    release(s.empty(st), lane);
}

template <class C>
__device__ __forceinline__ void work_backward(const BackwardShared<C> &s, const BackwardMaps &maps,
                                              const BackwardShape &shape, const Place &at, const Worker &w)
{
    int first_key = at.block * C::BN;
    bool tail = first_key + C::BN > shape.sk;
    Keys<C> t = {};
    Ring<STAGES> ring;
    int buffer = 0;
    hopper::barrier_wait(s.kv_full(), 0);
    for (int g = 0; g < shape.group; g++) {
        int head = at.head * shape.group + g;
        float *dq = shape.dq + ((size_t)at.batch * shape.heads + head) * shape.tiles * (C::BM * C::D);
        for (int m = first_tile<C>(shape, at.block); m < shape.tiles; m++, ring.next(), buffer ^= 1)
            add_tile(s, t, shape, ring, buffer, m, first_key, tail, dq, w);
    }
    /* K and V are read by nobody any more */
    hopper::named_barrier(BOTH_WARPGROUPS, 256);
    int row = first_key + w.wg * 64, barrier = OF_ONE + w.wg;
    put_rows<C::D, C::KV_BOX>(&maps.dk, s.k(), t.dk, shape.scale, row, at.head, at.batch, barrier, w);
    put_rows<C::D, C::KV_BOX>(&maps.dv, s.v(), t.dv, 1, row, at.head, at.batch, barrier, w);
    if (w.thread == 0)
        hopper::store_wait<0>();
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    backward(const __grid_constant__ BackwardMaps maps, BackwardShape shape)
{
    extern __shared__ char memory[];
    BackwardShared<C> s = {(hopper::shared_address(memory) + 1023) & ~1023u};
    int wg = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        hopper::barrier_init(s.kv_full(), 1);
        for (int i = 0; i < STAGES; i++) {
            hopper::barrier_init(s.q_full(i), 1);
            hopper::barrier_init(s.do_full(i), 1);
            hopper::barrier_init(s.empty(i), 8);
        }
        hopper::barrier_init_fence();
    }
    __syncthreads();
    /* causal: the first keys are seen by the most rows, and come first */
    Place at = place_of((shape.sk + C::BN - 1) / C::BN, shape.kv_heads, false);
    if (wg == 0) {
        hopper::give_registers<24>();
        if (thread == 0)
            load_backward(s, maps, shape, at);
    } else {
        hopper::take_registers<240>();
        work_backward(s, maps, shape, at, {wg - 1, thread});
    }
}

/* ---- Before and after -------------------------------------------------------------------------------------------- */

/* A [batch][row][head][D] tensor of bf16. */
struct View {
    __nv_bfloat16 *data;
    struct tk_attention_strides strides;
    __device__ __forceinline__ __nv_bfloat16 *row(int batch, int row, int head) const
    {
        return data + batch * strides.batch + row * strides.row + head * strides.head;
    }
};

/* delta, LSE in base 2, dQ = 0 (dq may be NULL). A warp a row, 8 a CTA; `padded` rows a head. */
template <int D>
__global__ void __launch_bounds__(256)
    prepare(View o, View d_o, const float *lse, float *lse2, float *delta, float *dq, int sq, int padded, int heads)
{
    Place at = place_of(padded / 8, heads, false);
    int row = at.block * 8 + (int)threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t head = (size_t)at.batch * heads + at.head, to = head * padded + row;
    float sum = 0;
    if (row < sq)
        for (int i = lane * 2; i < D; i += 64) {
            float2 a = __bfloat1622float2(*(const __nv_bfloat162 *)(o.row(at.batch, row, at.head) + i));
            float2 b = __bfloat1622float2(*(const __nv_bfloat162 *)(d_o.row(at.batch, row, at.head) + i));
            sum += a.x * b.x + a.y * b.y;
        }
    for (int i = 16; i; i /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, i);
    for (int i = lane * 4; dq && i < D; i += 128)
        *(float4 *)(dq + to * D + i) = make_float4(0, 0, 0, 0);
    if (lane == 0) {
        float l = row < sq ? lse[head * sq + row] : -CUDART_INF_F;
        lse2[to] = l == -CUDART_INF_F ? CUDART_INF_F : l * LOG2_E;
        delta[to] = l == -CUDART_INF_F ? 0 : sum;
    }
}

/* dQ from the order of put_dq() to rows of bf16. A CTA of 256 threads a tile. */
template <int D, int BM>
__global__ void __launch_bounds__(256) finish(const float *dq, View out, float scale, int sq, int tiles, int heads)
{
    Place at = place_of(tiles, heads, false);
    Worker w = {(int)threadIdx.x / 128, (int)threadIdx.x % 128};
    const float *tile = dq + (((size_t)at.batch * heads + at.head) * tiles + at.block) * (BM * D);
    int row = at.block * BM + (BM == 128 ? w.row() : w.row() % 64);
    int column = (BM == 64 ? w.wg * 64 : 0) + w.lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float4 x = *(const float4 *)(tile + ((w.wg * 8 + i) * 128 + w.thread) * 4);
        if (row < sq)
            *(uint32_t *)(out.row(at.batch, row, at.head) + column + 8 * i) = pack(x.x * scale, x.y * scale);
        if (row + 8 < sq)
            *(uint32_t *)(out.row(at.batch, row + 8, at.head) + column + 8 * i) = pack(x.z * scale, x.w * scale);
    }
}

} // namespace attention

#endif

/*
 * attention_forward_sm90.cuh - attention forward on Hopper.
 *
 * A CTA has 64 rows of Q a warpgroup and goes over the keys, last block first (with a causal mask the blocks that need
 * it come first). One warp loads; each warpgroup keeps a running maximum and sum a row (Milakov and Gimelshein 2018;
 * Dao et al. 2022). Its softmax of a block runs under its own product P V of the block before, and under the other
 * warpgroup's products: they issue theirs in turns (Shah et al. 2024). Two warpgroups, blocks 3, 2, 1, 0:
 *
 *     loader        K3 V3 K2 V2 | K1 V1 (as stages are released) ...
 *     warpgroup 0   S3 | softmax 3 | S2, O += P3 V3 | softmax 2    | S1, O += P2 V2 | ...
 *     warpgroup 1      | S3        | softmax 3      | S2, O += P3 V3 | softmax 2    | ...
 */
#ifndef KERNELS_ATTENTION_FORWARD_SM90_CUH
#define KERNELS_ATTENTION_FORWARD_SM90_CUH

#include "kernels/attention_tile_sm90.cuh"

namespace attention
{

/* D: a head's width; NWG: warpgroups that multiply; BN: keys a block. */
template <int D_, int NWG_, int BN_, bool CAUSAL_> struct Forward {
    static constexpr int D = D_, NWG = NWG_, BN = BN_, BM = 64 * NWG, BOXES = D / 64;
    static constexpr bool CAUSAL = CAUSAL_;
    static constexpr int Q_BOX = BM * ROW_BYTES, KV_BOX = BN * ROW_BYTES;
    static constexpr int Q_BYTES = BOXES * Q_BOX, KV_BYTES = BOXES * KV_BOX;
    static constexpr int BARRIERS_AT = Q_BYTES + 2 * STAGES * KV_BYTES;
    static constexpr int SHARED_BYTES = BARRIERS_AT + 128 + 1024; /* 1024: to align */
    static constexpr int THREADS = 128 * (NWG + 1);
    static constexpr int REGISTERS = NWG == 2 ? 240 : 160, LOADER_REGISTERS = NWG == 2 ? 24 : 32;
    static_assert(REGISTERS * NWG + LOADER_REGISTERS <= 512, "an SM has 64 Ki registers");
};

/* Named barriers; __syncthreads() is 0. */
enum { OF_WARPGROUP = 1, TURN = 8 }; /* one a warpgroup each */

template <class C> struct ForwardShared {
    uint32_t base;
    __device__ __forceinline__ uint32_t q() const
    {
        return base;
    }
    __device__ __forceinline__ uint32_t k(int stage) const
    {
        return base + C::Q_BYTES + stage * 2 * C::KV_BYTES;
    }
    __device__ __forceinline__ uint32_t v(int stage) const
    {
        return k(stage) + C::KV_BYTES;
    }
    __device__ __forceinline__ uint32_t barrier(int i) const
    {
        return base + C::BARRIERS_AT + 8 * i;
    }
    __device__ __forceinline__ uint32_t q_full() const
    {
        return barrier(0);
    }
    __device__ __forceinline__ uint32_t k_full(int stage) const
    {
        return barrier(1 + stage);
    }
    __device__ __forceinline__ uint32_t v_full(int stage) const
    {
        return barrier(1 + STAGES + stage);
    }
    __device__ __forceinline__ uint32_t k_empty(int stage) const
    {
        return barrier(1 + 2 * STAGES + stage);
    }
    __device__ __forceinline__ uint32_t v_empty(int stage) const
    {
        return barrier(1 + 3 * STAGES + stage);
    }
};

struct ForwardMaps {
    CUtensorMap q, k, v, o;
};

/* One thread. */
template <class C>
__device__ __forceinline__ void load_forward(const ForwardShared<C> &s, const ForwardMaps &maps, const Shape &shape,
                                             const Place &at)
{
    int n = blocks_of<C>(shape, at.block), kv_head = at.head / shape.group;
    if (n == 0)
        return;
    hopper::barrier_expect(s.q_full(), C::Q_BYTES);
    for (int i = 0; i < C::BOXES; i++)
        hopper::load_box4(s.q() + i * C::Q_BOX, &maps.q, s.q_full(), 64 * i, at.block * C::BM, at.head, at.batch);
    Ring<STAGES> ring;
    for (int j = n - 1; j >= 0; j--, ring.next()) {
        int st = ring.stage;
        hopper::barrier_wait(s.k_empty(st), ring.parity ^ 1);
        hopper::barrier_expect(s.k_full(st), C::KV_BYTES);
        for (int i = 0; i < C::BOXES; i++)
            hopper::load_box4(s.k(st) + i * C::KV_BOX, &maps.k, s.k_full(st), 64 * i, j * C::BN, kv_head, at.batch);
        hopper::barrier_wait(s.v_empty(st), ring.parity ^ 1);
        hopper::barrier_expect(s.v_full(st), C::KV_BYTES);
        for (int i = 0; i < C::BOXES; i++)
            hopper::load_box4(s.v(st) + i * C::KV_BOX, &maps.v, s.v_full(st), 64 * i, j * C::BN, kv_head, at.batch);
    }
}

/* A thread's part of 64 rows. */
template <class C> struct Rows {
    float o[C::D / 2];         /* sum of exp(score - max) x V, not yet divided */
    float max[2], sum[2];      /* of its two rows; sum: of its own columns */
    uint32_t p[C::BN / 16][4]; /* exp(score - max) of the block at hand */
};

/* acc[64 x BN] = Q K^T */
template <class C>
__device__ __forceinline__ void scores(const ForwardShared<C> &s, float (&acc)[C::BN / 2], int stage, int wg)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::D / 16; k++)
        hopper::wgmma_bf16<0, 0>(acc,
                                 hopper::k_major_operand(s.q() + k / 4 * C::Q_BOX + wg * 64 * ROW_BYTES + k % 4 * 32),
                                 hopper::k_major_operand(s.k(stage) + k / 4 * C::KV_BOX + k % 4 * 32), k > 0);
    hopper::wgmma_commit();
}

/* O[64 x D] += P V */
template <class C> __device__ __forceinline__ void weigh(const ForwardShared<C> &s, Rows<C> &t, int stage)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::BN / 16; k++)
        hopper::wgmma_bf16<1>(t.o, t.p[k], hopper::mn_major_operand(s.v(stage) + k * 16 * ROW_BYTES, C::KV_BOX), 1);
    hopper::wgmma_commit();
}

/* Over the four lanes that share a row. */
__device__ __forceinline__ float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

/* acc becomes exp(score - max); factor: what earlier sums and outputs are worth under the new maximum. A row that has
 * seen no key yet has a maximum of -inf; 0 stands in for it, as -inf - -inf would be NaN. */
template <class C>
__device__ __forceinline__ void soften(float (&acc)[C::BN / 2], Rows<C> &t, float scale_log2, float (&factor)[2])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most = t.max[h];
#pragma unroll
        for (int i = 0; i < C::BN / 8; i++)
            most = fmaxf(most, fmaxf(acc[4 * i + 2 * h], acc[4 * i + 2 * h + 1]));
        most = row_max(most);
        float base = most == -CUDART_INF_F ? 0 : most * scale_log2;
        factor[h] = exp2_fast(t.max[h] * scale_log2 - base);
        t.max[h] = most;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < C::BN / 8; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = acc[4 * i + 2 * h + e];
                x = exp2_fast(fmaf(x, scale_log2, -base));
                sum += x;
            }
        t.sum[h] = t.sum[h] * factor[h] + sum;
    }
}

template <class C> __device__ __forceinline__ void rescale(Rows<C> &t, const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < C::D / 2; i++)
        t.o[i] *= factor[i % 4 / 2];
}

/* Turns go round; the last warpgroup passes the first one, and the last one passed is taken by nobody. */
__device__ __forceinline__ void take_turn(int wg)
{
    hopper::named_barrier(TURN + wg, 256);
}

template <class C> __device__ __forceinline__ void pass_turn(int wg)
{
    hopper::named_barrier_arrive(TURN + (wg + 1 == C::NWG ? 0 : wg + 1), 256);
}

/* O and LSE. A row without keys (its sum is 0, not NaN) gives 0 whatever V holds: 0 x NaN may be in O. */
template <class C>
__device__ __forceinline__ void put_out(const ForwardShared<C> &s, const CUtensorMap *map, float *lse, Rows<C> &t,
                                        const Shape &shape, const Place &at, const Worker &w)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = row_sum(t.sum[h]), inverse = 1 / sum;
        int row = at.block * C::BM + w.row() + 8 * h;
        if (w.lane() % 4 == 0 && row < shape.sq)
            lse[((size_t)at.batch * shape.heads + at.head) * shape.sq + row] =
                sum == 0 ? -CUDART_INF_F : (t.max[h] * shape.scale_log2 + log2f(sum)) * LN_2;
#pragma unroll
        for (int i = 0; i < C::D / 8; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = t.o[4 * i + 2 * h + e];
                x = sum == 0 ? 0 : x * inverse;
            }
    }
    /* the warpgroup's own rows of Q are read by nobody any more */
    hopper::named_barrier(OF_WARPGROUP + w.wg, 128);
    put_rows<C::D, C::Q_BOX>(map, s.q(), t.o, 1, at.block * C::BM + w.wg * 64, at.head, at.batch, OF_WARPGROUP + w.wg,
                             w);
    if (w.thread == 0)
        hopper::store_wait<0>();
}

/* From scores to the left operand of P V. */
template <class C>
__device__ __forceinline__ void first_block(const ForwardShared<C> &s, Rows<C> &t, float (&acc)[C::BN / 2],
                                            const Shape &shape, int j, bool whole, int row, const Worker &w)
{
    float factor[2];
    hopper::barrier_wait(s.q_full(), 0);
    hopper::barrier_wait(s.k_full(0), 0);
    scores(s, acc, 0, w.wg);
    if (w.wg == C::NWG - 1)
        pass_turn<C>(w.wg);
    hopper::wgmma_wait<0>();
    release(s.k_empty(0), w.lane());
    if (!whole)
        mask<C>(acc, shape, row, j * C::BN, w.lane());
    soften<C>(acc, t, shape.scale_log2, factor);
    as_operand(acc, t.p);
}

/* Block j's scores and softmax, with the product P V of the block before in flight. */
template <class C>
__device__ __forceinline__ void next_block(const ForwardShared<C> &s, Rows<C> &t, float (&acc)[C::BN / 2],
                                           const Shape &shape, Ring<STAGES> &ring, int j, bool whole, int row,
                                           const Worker &w)
{
    float factor[2];
    Ring<STAGES> before = ring;
    ring.next();
    hopper::barrier_wait(s.k_full(ring.stage), ring.parity);
    take_turn(w.wg);
    scores(s, acc, ring.stage, w.wg);
    hopper::barrier_wait(s.v_full(before.stage), before.parity);
    weigh(s, t, before.stage);
    pass_turn<C>(w.wg);
    hopper::wgmma_wait<1>();
    release(s.k_empty(ring.stage), w.lane());
    if (!whole)
        mask<C>(acc, shape, row, j * C::BN, w.lane());
    soften<C>(acc, t, shape.scale_log2, factor);
    hopper::wgmma_wait<0>();
    release(s.v_empty(before.stage), w.lane());
    keep(t.p);
    rescale(t, factor);
    as_operand(acc, t.p);
}

template <class C>
__device__ __forceinline__ void work_forward(const ForwardShared<C> &s, const CUtensorMap *mo, float *lse,
                                             const Shape &shape, const Place &at, const Worker &w)
{
    int row = at.block * C::BM + w.row(), n = blocks_of<C>(shape, at.block);
    int whole = whole_blocks<C>(shape, at.block * C::BM + w.wg * 64);
    Rows<C> t = {};
    t.max[0] = t.max[1] = -CUDART_INF_F;
    if (n > 0) {
        float acc[C::BN / 2];
        Ring<STAGES> ring;
        first_block<C>(s, t, acc, shape, n - 1, n - 1 < whole, row, w);
        for (int j = n - 2; j >= 0; j--)
            next_block<C>(s, t, acc, shape, ring, j, j < whole, row, w);
        hopper::barrier_wait(s.v_full(ring.stage), ring.parity);
        weigh(s, t, ring.stage);
        hopper::wgmma_wait<0>();
    }
    put_out(s, mo, lse, t, shape, at, w);
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    forward(const __grid_constant__ ForwardMaps maps, float *lse, Shape shape)
{
    extern __shared__ char memory[];
    ForwardShared<C> s = {(hopper::shared_address(memory) + 1023) & ~1023u};
    int wg = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        hopper::barrier_init(s.q_full(), 1);
        for (int i = 0; i < STAGES; i++) {
            hopper::barrier_init(s.k_full(i), 1);
            hopper::barrier_init(s.v_full(i), 1);
            hopper::barrier_init(s.k_empty(i), 4 * C::NWG);
            hopper::barrier_init(s.v_empty(i), 4 * C::NWG);
        }
        hopper::barrier_init_fence();
    }
    __syncthreads();
    Place at = place_of(shape.tiles, shape.heads, C::CAUSAL); /* causal: the longest tiles first */
    if (wg == 0) {
        hopper::give_registers<C::LOADER_REGISTERS>();
        if (thread == 0)
            load_forward(s, maps, shape, at);
    } else {
        hopper::take_registers<C::REGISTERS>();
        work_forward(s, &maps.o, lse, shape, at, {wg - 1, thread});
    }
}

} // namespace attention

#endif

/*
 * attention_dq_sm90.cuh - dQ alone, for a backward pass whose sums have a fixed order: a CTA has 128 rows of Q, 64 a
 * warpgroup, and goes over the keys. S = Q K^T and dP = dO V^T are computed again, which costs 7 products in place of 5
 * over both kernels:
 *
 *     S = Q K^T | dP = dO V^T   P (under dP)   dS   dQ += dS K
 */
#ifndef KERNELS_ATTENTION_DQ_SM90_CUH
#define KERNELS_ATTENTION_DQ_SM90_CUH

#include "kernels/attention_tile_sm90.cuh"

namespace attention
{

/* BN: keys a block. */
template <int D_, int BN_, bool CAUSAL_> struct QueryGradient {
    static constexpr int D = D_, BM = 128, BN = BN_, BOXES = D / 64, THREADS = 384;
    static constexpr bool CAUSAL = CAUSAL_;
    static constexpr int Q_BOX = BM * ROW_BYTES, KV_BOX = BN * ROW_BYTES;
    static constexpr int Q_BYTES = BOXES * Q_BOX, KV_BYTES = BOXES * KV_BOX;
    static constexpr int BARRIERS_AT = 2 * Q_BYTES + 2 * STAGES * KV_BYTES;
    static constexpr int SHARED_BYTES = BARRIERS_AT + 128 + 1024;
};

template <class C> struct QueryShared {
    uint32_t base;
    __device__ __forceinline__ uint32_t q() const
    {
        return base;
    }
    __device__ __forceinline__ uint32_t d_o() const
    {
        return base + C::Q_BYTES;
    }
    __device__ __forceinline__ uint32_t k(int stage) const
    {
        return base + 2 * C::Q_BYTES + stage * 2 * C::KV_BYTES;
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
    __device__ __forceinline__ uint32_t kv_full(int stage) const
    {
        return barrier(1 + stage);
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
    {
        return barrier(1 + STAGES + stage);
    }
};

struct QueryMaps {
    CUtensorMap q, k, v, d_o, dq;
};

/* [batch][heads][tiles x 128], as prepare() leaves them. */
struct RowSums {
    const float *lse2, *delta;
};

/* One thread. */
template <class C>
__device__ __forceinline__ void load_for_dq(const QueryShared<C> &s, const QueryMaps &maps, const Shape &shape,
                                            const Place &at)
{
    int n = blocks_of<C>(shape, at.block), kv_head = at.head / shape.group, row = at.block * C::BM;
    if (n == 0)
        return;
    hopper::barrier_expect(s.q_full(), 2 * C::Q_BYTES);
    for (int i = 0; i < C::BOXES; i++) {
        hopper::load_box4(s.q() + i * C::Q_BOX, &maps.q, s.q_full(), 64 * i, row, at.head, at.batch);
        hopper::load_box4(s.d_o() + i * C::Q_BOX, &maps.d_o, s.q_full(), 64 * i, row, at.head, at.batch);
    }
    Ring<STAGES> ring;
    for (int j = 0; j < n; j++, ring.next()) {
        int st = ring.stage;
        hopper::barrier_wait(s.empty(st), ring.parity ^ 1);
        hopper::barrier_expect(s.kv_full(st), 2 * C::KV_BYTES);
        for (int i = 0; i < C::BOXES; i++) {
            hopper::load_box4(s.k(st) + i * C::KV_BOX, &maps.k, s.kv_full(st), 64 * i, j * C::BN, kv_head, at.batch);
            hopper::load_box4(s.v(st) + i * C::KV_BOX, &maps.v, s.kv_full(st), 64 * i, j * C::BN, kv_head, at.batch);
        }
    }
}

/* acc[64 rows x BN keys] = this warpgroup's rows of x times all rows of y, over D. */
template <class C> __device__ __forceinline__ void rows_by_keys(float (&acc)[C::BN / 2], uint32_t x, uint32_t y, int wg)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::D / 16; k++)
        hopper::wgmma_bf16<0, 0>(acc, hopper::k_major_operand(x + k / 4 * C::Q_BOX + wg * 64 * ROW_BYTES + k % 4 * 32),
                                 hopper::k_major_operand(y + k / 4 * C::KV_BOX + k % 4 * 32), k > 0);
    hopper::wgmma_commit();
}

/* dq[64 rows x D] += dS[64 rows x BN keys] K */
template <class C>
__device__ __forceinline__ void add_dq(float (&dq)[C::D / 2], const uint32_t (&ds)[C::BN / 16][4], uint32_t k_tile)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < C::BN / 16; k++)
        hopper::wgmma_bf16<1>(dq, ds[k], hopper::mn_major_operand(k_tile + k * 16 * ROW_BYTES, C::KV_BOX), 1);
    hopper::wgmma_commit();
}

/* Block j of keys. l, d: LSE and delta of this thread's two rows. */
template <class C>
__device__ __forceinline__ void add_block(const QueryShared<C> &s, float (&dq)[C::D / 2], const Shape &shape,
                                          const float (&l)[2], const float (&d)[2], const Ring<STAGES> &ring, int j,
                                          bool whole, int row, const Worker &w)
{
    float p[C::BN / 2], ds[C::BN / 2];
    uint32_t operand[C::BN / 16][4];
    int st = ring.stage;
    hopper::barrier_wait(s.kv_full(st), ring.parity);
    rows_by_keys<C>(p, s.q(), s.k(st), w.wg);
    rows_by_keys<C>(ds, s.d_o(), s.v(st), w.wg);
    hopper::wgmma_wait<1>();
    if (!whole)
        mask<C>(p, shape, row, j * C::BN, w.lane());
#pragma unroll
    for (int i = 0; i < C::BN / 2; i++)
        p[i] = exp2_fast(fmaf(p[i], shape.scale_log2, -l[i % 4 / 2]));
    hopper::wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < C::BN / 2; i++)
        ds[i] = p[i] * (ds[i] - d[i % 4 / 2]);
    as_operand(ds, operand);
    add_dq<C>(dq, operand, s.k(st));
    hopper::wgmma_wait<0>();
    keep(operand);
    release(s.empty(st), w.lane());
}

template <class C>
__device__ __forceinline__ void work_on_dq(const QueryShared<C> &s, const CUtensorMap *map, const RowSums &sums,
                                           const Shape &shape, float scale, const Place &at, const Worker &w)
{
    int row = at.block * C::BM + w.row(), n = blocks_of<C>(shape, at.block);
    int whole = whole_blocks<C>(shape, at.block * C::BM + w.wg * 64);
    float dq[C::D / 2] = {}, l[2], d[2];
    size_t first = ((size_t)at.batch * shape.heads + at.head) * shape.tiles * C::BM;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        l[h] = sums.lse2[first + row + 8 * h];
        d[h] = sums.delta[first + row + 8 * h];
    }
    Ring<STAGES> ring;
    if (n > 0)
        hopper::barrier_wait(s.q_full(), 0);
    for (int j = 0; j < n; j++, ring.next())
        add_block<C>(s, dq, shape, l, d, ring, j, j < whole, row, w);
    /* the warpgroup's own rows of Q are read by nobody any more */
    hopper::named_barrier(1 + w.wg, 128);
    put_rows<C::D, C::Q_BOX>(map, s.q(), dq, scale, at.block * C::BM + w.wg * 64, at.head, at.batch, 1 + w.wg, w);
    if (w.thread == 0)
        hopper::store_wait<0>();
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    query_gradients(const __grid_constant__ QueryMaps maps, RowSums sums, Shape shape, float scale)
{
    extern __shared__ char memory[];
    QueryShared<C> s = {(hopper::shared_address(memory) + 1023) & ~1023u};
    int wg = __shfl_sync(0xffffffff, threadIdx.x / 128, 0), thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        hopper::barrier_init(s.q_full(), 1);
        for (int i = 0; i < STAGES; i++) {
            hopper::barrier_init(s.kv_full(i), 1);
            hopper::barrier_init(s.empty(i), 8);
        }
        hopper::barrier_init_fence();
    }
    __syncthreads();
    Place at = place_of(shape.tiles, shape.heads, C::CAUSAL); /* causal: the longest tiles first */
    if (wg == 0) {
        hopper::give_registers<24>();
        if (thread == 0)
            load_for_dq(s, maps, shape, at);
    } else {
        hopper::take_registers<240>();
        work_on_dq(s, &maps.dq, sums, shape, scale, at, {wg - 1, thread});
    }
}

} // namespace attention

#endif

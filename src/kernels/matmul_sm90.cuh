/*
 * matmul_sm90.cuh - C = A B on Hopper: a persistent grid of clusters of two CTAs, one warp that loads, two
 * warpgroups that multiply.
 *
 *     cluster   | CTA 0: tile (m,   n)   loads A(m),   half of B(n), sent to both
 *               | CTA 1: tile (m+1, n)   loads A(m+1), the other half of B(n)
 *
 * A tile is BM x BN of C, BM = 128 WM; a warpgroup has 64 WM rows of it in registers. Stages of 64 values of k go
 * round in shared memory: `full` says that a stage's bytes are there, `empty` that both CTAs' warpgroups have read
 * it. A bf16 result as it is goes through shared memory and out by bulk copies while the next tile is multiplied;
 * any other goes through the epilogue (matmul_epilogue.cuh). There K may be cut into `splits` slices, each a tile
 * of its own in C's place.
 */
#ifndef KERNELS_MATMUL_SM90_CUH
#define KERNELS_MATMUL_SM90_CUH

#include "kernels/hopper.cuh"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/wgmma.cuh"

namespace matmul
{

enum { BK = 64, ROW_BYTES = 128, BOX_BYTES = 64 * ROW_BYTES, THREADS = 384, CLUSTER = 2, GROUP = 8 };

/* How many tiles there are, in clusters along m. */
struct Tiles {
    int m, n; /* clusters along m, tiles along n */
    int nk;   /* stages of all of K */
    int splits;
};

/* FUSED: through the epilogue. */
template <int WM, int BN_, int A_MN_, int B_MN_, int STAGES_, bool FUSED_> struct Config {
    static constexpr bool FUSED = FUSED_;
    static constexpr int BM = 128 * WM, BN = BN_, A_MN = A_MN_, B_MN = B_MN_, STAGES = STAGES_;
    static constexpr int A_BYTES = BM * ROW_BYTES, B_BYTES = BN * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int C_COLUMNS = BN % 128 ? 64 : 128 / WM; /* of the staging buffer of a warpgroup: 64 WM rows */
    static constexpr int C_BYTES = 64 * WM * C_COLUMNS * 2;
    static constexpr int SUM_COLUMNS = C_BYTES / 256; /* of f32 in the same buffer, 16 rows a warp */
    static constexpr int BARRIERS_AT = STAGES * STAGE_BYTES + 2 * C_BYTES;
    static constexpr int SHARED_BYTES = BARRIERS_AT + 16 * STAGES + 1024; /* 1024: to align */
};

/* A tile: cluster m, tile n, stages first_k .. first_k + nk. */
struct Place {
    int slice, m, n, first_k, nk;
};

/* Tiles in an order in which those that run at once share rows and columns. */
template <class C> __device__ __forceinline__ Place place(const Tiles &tiles, int index)
{
    Place p = {0, 0, 0, 0, tiles.nk};
    if (C::FUSED && tiles.splits > 1) {
        p.slice = index / (tiles.m * tiles.n);
        index -= p.slice * tiles.m * tiles.n;
        p.first_k = (int)((int64_t)p.slice * tiles.nk / tiles.splits);
        p.nk = (int)((int64_t)(p.slice + 1) * tiles.nk / tiles.splits) - p.first_k;
    }
    int in_group = GROUP * tiles.n, group = index / in_group, rest = index - group * in_group;
    int rows = min(GROUP, tiles.m - group * GROUP);
    p.n = rest / rows;
    p.m = group * GROUP + rest - p.n * rows;
    return p;
}

template <class C> struct Shared {
    uint32_t base;
    uint32_t cta;
    __device__ __forceinline__ uint32_t a(int stage) const
    {
        return base + stage * C::STAGE_BYTES;
    }
    __device__ __forceinline__ uint32_t b(int stage) const
    {
        return a(stage) + C::A_BYTES;
    }
    __device__ __forceinline__ uint32_t c(int warpgroup) const
    {
        return base + C::STAGES * C::STAGE_BYTES + warpgroup * C::C_BYTES;
    }
    __device__ __forceinline__ uint32_t full(int stage) const
    {
        return base + C::BARRIERS_AT + 16 * stage;
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
    {
        return full(stage) + 8;
    }
};

/* A place in the ring of stages. */
template <int STAGES> struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* ---- The loader -------------------------------------------------------------------------------------------------- */

template <class C>
__device__ __forceinline__ void load_a(const Shared<C> &s, const CUtensorMap *map, int stage, int m, int k)
{
    if (C::A_MN)
        for (int i = 0; i < C::BM / 64; i++)
            hopper::load_box(s.a(stage) + i * BOX_BYTES, map, s.full(stage), m + 64 * i, k);
    else
        hopper::load_box(s.a(stage), map, s.full(stage), k, m);
}

/* This CTA's half of B, to both. */
template <class C>
__device__ __forceinline__ void load_b(const Shared<C> &s, const CUtensorMap *map, int stage, int n, int k)
{
    constexpr uint16_t both = 3;
    if (C::B_MN) {
        for (int i = s.cta; i < C::BN / 64; i += CLUSTER)
            hopper::load_box_multicast(s.b(stage) + i * BOX_BYTES, map, s.full(stage), n + 64 * i, k, both);
    } else {
        int half = s.cta * (C::BN / 2);
        hopper::load_box_multicast(s.b(stage) + half * ROW_BYTES, map, s.full(stage), k, n + half, both);
    }
}

template <class C>
__device__ __forceinline__ void load(const Shared<C> &s, const CUtensorMap *map_a, const CUtensorMap *map_b,
                                     const Tiles &tiles, int first, int step)
{
    Ring<C::STAGES> ring;
    for (int index = first; index < tiles.m * tiles.n * tiles.splits; index += step) {
        Place p = place<C>(tiles, index);
        for (int k = 0; k < p.nk; k++, ring.next()) {
            hopper::barrier_wait(s.empty(ring.stage), ring.parity ^ 1);
            hopper::barrier_expect(s.full(ring.stage), C::STAGE_BYTES);
            load_a(s, map_a, ring.stage, (p.m * CLUSTER + s.cta) * C::BM, (p.first_k + k) * BK);
            load_b(s, map_b, ring.stage, p.n * C::BN, (p.first_k + k) * BK);
        }
    }
}

/* ---- The multipliers --------------------------------------------------------------------------------------------- */

template <class C> __device__ __forceinline__ uint64_t operand_a(uint32_t a, int block, int k)
{
    return C::A_MN ? hopper::mn_major_operand(a + block * BOX_BYTES + k * 16 * ROW_BYTES, BOX_BYTES)
                   : hopper::k_major_operand(a + block * BOX_BYTES + k * 32);
}

template <class C> __device__ __forceinline__ uint64_t operand_b(uint32_t b, int k)
{
    return C::B_MN ? hopper::mn_major_operand(b + k * 16 * ROW_BYTES, BOX_BYTES) : hopper::k_major_operand(b + k * 32);
}

/* All of one stage's k. */
template <class C, int WM>
__device__ __forceinline__ void multiply_stage(float (&acc)[WM][C::BN / 2], uint32_t a, uint32_t b, int warpgroup,
                                               bool accumulate)
{
    hopper::wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / 16; k++)
#pragma unroll
        for (int i = 0; i < WM; i++)
            hopper::wgmma_bf16<C::A_MN, C::B_MN>(acc[i], operand_a<C>(a, warpgroup * WM + i, k), operand_b<C>(b, k),
                                                 accumulate || k > 0);
    hopper::wgmma_commit();
}

/* Tell both CTAs' loaders that this warp has read a stage. */
template <class C> __device__ __forceinline__ void release(const Shared<C> &s, int stage, int lane)
{
    if (lane < CLUSTER)
        hopper::barrier_arrive_at(s.empty(stage), lane);
}

template <class C, int WM>
__device__ __forceinline__ void multiply(const Shared<C> &s, float (&acc)[WM][C::BN / 2], Ring<C::STAGES> &ring, int nk,
                                         int warpgroup, int lane)
{
    int before = ring.stage;
    for (int k = 0; k < nk; k++, ring.next()) {
        hopper::barrier_wait(s.full(ring.stage), ring.parity);
        multiply_stage<C, WM>(acc, s.a(ring.stage), s.b(ring.stage), warpgroup, k > 0);
        hopper::wgmma_wait<1>();
        if (k > 0)
            release(s, before, lane);
        before = ring.stage;
    }
    hopper::wgmma_wait<0>();
    if (nk > 0)
        release(s, before, lane);
}

/* 16 rows x 16 columns of a warp's accumulators, as bf16 into a box of 64 columns, swizzled. */
__device__ __forceinline__ void put_16x16(uint32_t box, int row, int column, int lane, const float *d)
{
    int r = row + (lane & 15), block = column / 8 + lane / 16;
    uint32_t at = box + r * ROW_BYTES + ((block ^ (r & 7)) * 16);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(pack(d[0], d[1])),
                 "r"(pack(d[2], d[3])), "r"(pack(d[4], d[5])), "r"(pack(d[6], d[7]))
                 : "memory");
}

/* C_COLUMNS columns from `first` on, through the warpgroup's staging buffer. */
template <class C, int WM>
__device__ __forceinline__ void store_columns(const Shared<C> &s, const CUtensorMap *map, float (&acc)[WM][C::BN / 2],
                                              int first, int m, int n, int warpgroup, int thread)
{
    int warp = thread / 32, lane = thread % 32;
    if (thread == 0)
        hopper::store_wait_read<0>();
    hopper::named_barrier(1 + warpgroup, 128);
#pragma unroll
    for (int i = 0; i < WM; i++)
#pragma unroll
        for (int c = 0; c < C::C_COLUMNS; c += 16)
            put_16x16(s.c(warpgroup) + (c / 64 * WM + i) * BOX_BYTES, warp * 16, c % 64, lane,
                      &acc[i][(first + c) / 2]);
    hopper::fence_async_shared();
    hopper::named_barrier(1 + warpgroup, 128);
    if (thread == 0) {
        for (int c = 0; c < C::C_COLUMNS; c += 64)
            for (int i = 0; i < WM; i++)
                hopper::store_box(map, s.c(warpgroup) + (c / 64 * WM + i) * BOX_BYTES, n + first + c, m + 64 * i);
        hopper::store_commit();
    }
}

/* A tile's sums through the epilogue. Slices of K stand one below the other in C. */
template <class C, int WM>
__device__ __forceinline__ void finish_tile(float *sums, const Epilogue &epilogue, float (&acc)[WM][C::BN / 2],
                                            const Place &p, int row, int column, int lane)
{
    Epilogue e = epilogue;
    e.c = (float *)e.c + (size_t)p.slice * e.m * e.ldc;
#pragma unroll
    for (int i = 0; i < WM; i++)
#pragma unroll
        for (int c = 0; c < C::BN; c += C::SUM_COLUMNS)
            finish_rows<C::SUM_COLUMNS>(e, sums, &acc[i][c / 2], row + 64 * i, column + c, lane);
}

template <class C, int WM>
__device__ __forceinline__ void work(const Shared<C> &s, const CUtensorMap *map_c, const Epilogue &epilogue,
                                     const Tiles &tiles, int first, int step, int warpgroup, int thread)
{
    Ring<C::STAGES> ring;
    float acc[WM][C::BN / 2];
    int warp = thread / 32, lane = thread % 32;
    for (int index = first; index < tiles.m * tiles.n * tiles.splits; index += step) {
        Place p = place<C>(tiles, index);
        multiply<C, WM>(s, acc, ring, p.nk, warpgroup, lane);
        int row = (p.m * CLUSTER + s.cta) * C::BM + warpgroup * 64 * WM, column = p.n * C::BN;
        if (C::FUSED) {
            finish_tile<C, WM>((float *)__cvta_shared_to_generic(s.c(warpgroup) + warp * (C::C_BYTES / 4)), epilogue,
                               acc, p, row + 16 * warp, column, lane);
        } else {
#pragma unroll
            for (int c = 0; c < C::BN; c += C::C_COLUMNS)
                store_columns<C, WM>(s, map_c, acc, c, row, column, warpgroup, thread);
        }
    }
    if (!C::FUSED && thread == 0)
        hopper::store_wait<0>();
}

template <class C>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
           const __grid_constant__ CUtensorMap map_c, const __grid_constant__ Epilogue epilogue, Tiles tiles)
{
    extern __shared__ char memory[];
    Shared<C> s = {(hopper::shared_address(memory) + 1023) & ~1023u, hopper::cluster_cta()};
    int group = threadIdx.x / 128, thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < C::STAGES; i++) {
            hopper::barrier_init(s.full(i), 1);
            hopper::barrier_init(s.empty(i), 2 * 4 * CLUSTER);
        }
        hopper::barrier_init_fence();
    }
    hopper::cluster_sync();
    /* all above overlaps the end of the kernel before, if that lets it; nothing of memory is touched until it is done */
    hopper::wait_for_kernel_before();
    hopper::let_next_kernel_start();
    int first = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER;
    if (group == 0) {
        hopper::give_registers<40>();
        if (thread == 0)
            load(s, &map_a, &map_b, tiles, first, step);
    } else {
        hopper::take_registers<232>();
        work<C, C::BM / 128>(s, &map_c, epilogue, tiles, first, step, group - 1, thread);
    }
    hopper::cluster_sync();
}

} // namespace matmul

#endif

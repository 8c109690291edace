/*
 * attention_tile_sm90.cuh - what attention's kernels on Hopper share: who works on what, which keys a row sees, tiles
 * between registers, shared memory and memory.
 *
 * A warpgroup holds tiles of 64 rows as wgmma gives them: thread t of it has, of rows r = t/32*16 + t%32/4 and r + 8,
 * the columns 8 j + t%4*2 and the next one, at acc[4 j + 0, 1] (row r) and acc[4 j + 2, 3] (row r + 8).
 *
 * In shared memory a tile is boxes of 64 columns: rows of 128 bytes whose 16-byte blocks are swizzled (block ^ row
 * % 8).
 */
#ifndef KERNELS_ATTENTION_TILE_SM90_CUH
#define KERNELS_ATTENTION_TILE_SM90_CUH

#include "kernels/hopper.cuh"
#include "kernels/wgmma.cuh"

#include <math_constants.h>

namespace attention
{

enum { ROW_BYTES = 128, STAGES = 2 };

static const float LOG2_E = 1.4426950408889634f, LN_2 = 0.69314718055994531f;

struct Shape {
    int sq, sk, heads, group; /* group: heads of Q a kv head */
    int tiles;                /* of rows of Q, a head */
    float scale_log2;         /* softmax scale x log2(e) */
};

/* What a CTA works on: a tile of rows of Q or a block of keys. The grid is flat: blocks, then heads, then batches. */
struct Place {
    int block, head, batch;
};

__device__ __forceinline__ Place place_of(int blocks, int heads, bool last_first)
{
    int block = blockIdx.x % blocks, rest = blockIdx.x / blocks;
    return {last_first ? blocks - 1 - block : block, rest % heads, rest / heads};
}

/* A thread of the warpgroups that multiply: wg from 0, thread 0..127. */
struct Worker {
    int wg, thread;
    __device__ __forceinline__ int lane() const
    {
        return thread % 32;
    }
    /* The first of its two rows of the CTA's tile. */
    __device__ __forceinline__ int row() const
    {
        return wg * 64 + thread / 32 * 16 + lane() / 4;
    }
};

/* A place in a ring of N stages, and the parity of its barriers' phase. */
template <int N> struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void next()
    {
        if (++stage == N) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* A warp has read a stage. */
__device__ __forceinline__ void release(uint32_t barrier, int lane)
{
    if (lane == 0)
        hopper::barrier_arrive(barrier);
}

/* ---- Which keys a row sees --------------------------------------------------------------------------------------- */

/* The end of them; not above 0 where there are none. sk - sq first: the sum of all three could pass 2^31. */
template <bool CAUSAL> __device__ __forceinline__ int keys_end(int sq, int sk, int row)
{
    return CAUSAL ? min(sk, row + 1 + (sk - sq)) : sk;
}

/* Blocks of keys that tile `m` of rows needs. */
template <class C> __device__ __forceinline__ int blocks_of(const Shape &shape, int m)
{
    int end = keys_end<C::CAUSAL>(shape.sq, shape.sk, (m + 1) * C::BM - 1);
    return end <= 0 ? 0 : (end + C::BN - 1) / C::BN;
}

/* The blocks below this one are seen whole by `row` and all after it. */
template <class C> __device__ __forceinline__ int whole_blocks(const Shape &shape, int row)
{
    return max(0, keys_end<C::CAUSAL>(shape.sq, shape.sk, row)) / C::BN;
}

/* Scores of keys that the row may not see become -inf. `row`: this thread's first; `key`: the block's first. */
template <class C>
__device__ __forceinline__ void mask(float (&acc)[C::BN / 2], const Shape &shape, int row, int key, int lane)
{
#pragma unroll
    for (int i = 0; i < C::BN / 2; i++) {
        int column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (column >= keys_end<C::CAUSAL>(shape.sq, shape.sk, row + i % 4 / 2 * 8))
            acc[i] = -CUDART_INF_F;
    }
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ uint32_t pack(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* The result of one product, 64 x 2N, as the left operand (in registers) of the next. */
template <int N> __device__ __forceinline__ void as_operand(const float (&acc)[N], uint32_t (&p)[N / 8][4])
{
#pragma unroll
    for (int k = 0; k < N / 8; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[k][i] = pack(acc[8 * k + 2 * i], acc[8 * k + 2 * i + 1]);
}

/* Stands after the wait for the product that reads p: keeps ptxas (before 13.3) from giving its registers to others
 * while the product runs (triton issues 9433, 11781). */
template <int N> __device__ __forceinline__ void keep(const uint32_t (&p)[N][4])
{
#pragma unroll
    for (int k = 0; k < N; k++)
        asm volatile("" ::"r"(p[k][0]), "r"(p[k][1]), "r"(p[k][2]), "r"(p[k][3]));
}

/* ---- Tiles in shared memory and memory --------------------------------------------------------------------------- */

/* Where this lane's row of the 16 x 16 elements at (the warp's rows, column) goes, in a box of rows of 64 columns. */
__device__ __forceinline__ uint32_t matrices_at(uint32_t box, int column, const Worker &w)
{
    int row = w.wg * 64 + w.thread / 32 * 16 + (w.lane() & 15), block = column % 64 / 8 + w.lane() / 16;
    return box + row * ROW_BYTES + ((block ^ (row & 7)) * 16);
}

/*
 * acc x scale, rounded to bf16, through the warpgroup's 64 rows of `tile` (boxes of BOX bytes) to the tensor's rows
 * from `row`; rows past its end are dropped. Nobody may read or write these rows of `tile` any more. Thread 0 has
 * committed the store and is to wait for it. `barrier`: of the warpgroup.
 */
template <int D, int BOX>
__device__ __forceinline__ void put_rows(const CUtensorMap *map, uint32_t tile, const float (&acc)[D / 2], float scale,
                                         int row, int head, int batch, int barrier, const Worker &w)
{
#pragma unroll
    for (int c = 0; c < D; c += 16) {
        const float *x = &acc[c / 2];
        hopper::store_matrices(matrices_at(tile + c / 64 * BOX, c, w), pack(x[0] * scale, x[1] * scale),
                               pack(x[2] * scale, x[3] * scale), pack(x[4] * scale, x[5] * scale),
                               pack(x[6] * scale, x[7] * scale));
    }
    hopper::fence_async_shared();
    hopper::named_barrier(barrier, 128);
    if (w.thread == 0) {
        for (int i = 0; i < D / 64; i++)
            hopper::store_box4(map, tile + i * BOX + w.wg * 64 * ROW_BYTES, 64 * i, row, head, batch);
        hopper::store_commit();
    }
}

} // namespace attention

#endif

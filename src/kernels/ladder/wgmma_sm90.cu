/*
 * wgmma_sm90.cu - step 5 of the ladder: TMA and wgmma, each at its own pace.
 *
 * One thread asks TMA for tiles of A and B, 64 k at a time, into a ring of 4 stages; two warpgroups, 64 rows of C
 * each, have the tensor cores read them straight from shared memory. A barrier `full` a stage says that its bytes
 * have come, `empty` that both warpgroups have done with it. A CTA makes one tile of 128 x 128 and ends: what the
 * persistent grid of the fast path adds is that the next tile's loads run during this one's stores, and clusters,
 * larger tiles and an order of tiles that suits the cache.
 */
#include "kernels/error.h"
#include "kernels/hopper.cuh"
#include "kernels/ladder/ladder.h"
#include "kernels/launch.h"
#include "kernels/tensor_map.h"
#include "kernels/wgmma.cuh"

enum { SIDE = 128, BK = 64, STAGES = 4, THREADS = 384, TILE_BYTES = SIDE * BK * 2, BOX_BYTES = 64 * BK * 2 };
enum { BARRIERS_AT = STAGES * 2 * TILE_BYTES, SHARED_BYTES = BARRIERS_AT + 16 * STAGES + 1024 /* to align */ };

struct Ring {
    uint32_t base;
    __device__ uint32_t a(int stage) const
    {
        return base + stage * 2 * TILE_BYTES;
    }
    __device__ uint32_t b(int stage) const
    {
        return a(stage) + TILE_BYTES;
    }
    __device__ uint32_t full(int stage) const
    {
        return base + BARRIERS_AT + 16 * stage;
    }
    __device__ uint32_t empty(int stage) const
    {
        return full(stage) + 8;
    }
};

static __device__ void load(const Ring &ring, const CUtensorMap *a, const CUtensorMap *b, int row, int column,
                            int stages)
{
    for (int i = 0; i < stages; i++) {
        int stage = i % STAGES, k = i * BK;
        hopper::barrier_wait(ring.empty(stage), (i / STAGES & 1) ^ 1);
        hopper::barrier_expect(ring.full(stage), 2 * TILE_BYTES);
        hopper::load_box(ring.a(stage), a, ring.full(stage), k, row);
        hopper::load_box(ring.b(stage), b, ring.full(stage), column, k);
        hopper::load_box(ring.b(stage) + BOX_BYTES, b, ring.full(stage), column + 64, k);
    }
}

static __device__ void multiply(const Ring &ring, int stages, int warpgroup, int lane, float (&acc)[SIDE / 2])
{
    for (int i = 0; i < stages; i++) {
        int stage = i % STAGES;
        hopper::barrier_wait(ring.full(stage), i / STAGES & 1);
        hopper::wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK / 16; k++)
            hopper::wgmma_bf16<0, 1>(acc, hopper::k_major_operand(ring.a(stage) + warpgroup * BOX_BYTES + k * 32),
                                     hopper::mn_major_operand(ring.b(stage) + k * 16 * 128, BOX_BYTES), i > 0 || k > 0);
        hopper::wgmma_commit();
        hopper::wgmma_wait<0>();
        if (lane == 0)
            hopper::barrier_arrive(ring.empty(stage)); /* a warp of the eight */
    }
}

static __global__ void __launch_bounds__(THREADS, 1)
    wgmma(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *c, int n, int k)
{
    extern __shared__ char memory[];
    Ring ring = {(hopper::shared_address(memory) + 1023) & ~1023u};
    int row = (int)blockIdx.y * SIDE, column = (int)blockIdx.x * SIDE;
    int group = threadIdx.x / 128, thread = threadIdx.x % 128, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            hopper::barrier_init(ring.full(i), 1);
            hopper::barrier_init(ring.empty(i), 8);
        }
        hopper::barrier_init_fence();
    }
    __syncthreads();
    if (group == 2) {
        if (thread == 0)
            load(ring, &a, &b, row, column, k / BK);
        return;
    }
    float acc[SIDE / 2];
    multiply(ring, k / BK, group, lane, acc);
    size_t first = (size_t)(row + group * 64 + thread / 32 * 16 + lane / 4);
#pragma unroll
    for (int j = 0; j < SIDE / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            *(__nv_bfloat162 *)(c + (first + 8 * half) * n + column + 8 * j + lane % 4 * 2) =
                __floats2bfloat162_rn(acc[4 * j + 2 * half], acc[4 * j + 2 * half + 1]);
}

enum tk_status tk_ladder_wgmma(const void *a, const void *b, void *c, int m, int n, int k, void *stream)
{
    struct tk_tensor tensor_a = {"ladder: a", a, 2, {(size_t)k, (size_t)m}, {1, (size_t)k}};
    struct tk_tensor tensor_b = {"ladder: b", b, 2, {(size_t)n, (size_t)k}, {1, (size_t)n}};
    CUtensorMap map_a, map_b;
    enum tk_status status = tk_tensor_map(&tensor_a, SIDE, &map_a);
    if (status == TK_OK)
        status = tk_tensor_map(&tensor_b, 64, &map_b);
    if (status != TK_OK)
        return status;
    cudaError_t error =
        cudaFuncSetAttribute((const void *)wgmma, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (error != cudaSuccess)
        return tk_cuda_status(error, "ladder: shared memory of wgmma");
    wgmma<<<dim3(n / SIDE, m / SIDE), THREADS, SHARED_BYTES, (cudaStream_t)stream>>>(map_a, map_b, (__nv_bfloat16 *)c,
                                                                                     n, k);
    return tk_launched("ladder: wgmma");
}

/*
 * hopper.cuh - the instructions of sm_90a that CUDA C++ has no words for: mbarriers, bulk tensor copies (TMA), warpgroup
 * matrix multiply (wgmma), clusters. One function an instruction; names follow the PTX ISA 8.x, which documents them.
 */
#ifndef KERNELS_HOPPER_CUH
#define KERNELS_HOPPER_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

namespace hopper
{

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* ---- mbarriers --------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Make initialised barriers visible to the copy engine and to the other CTAs of the cluster. */
__device__ __forceinline__ void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrive at the barrier that stands at the same place in CTA `cta` of the cluster. */
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t cta)
{
    asm volatile("{\n\t"
                 ".reg .b32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t"
                 "}" ::"r"(barrier),
                 "r"(cta)
                 : "memory");
}

__device__ __forceinline__ bool barrier_try(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n\t"
                 ".reg .pred done;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, done;\n\t"
                 "}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done;
}

/* A barrier that is never completed is a bug of the kernel, not of a peer: the wait ends after seconds, and the result is
 * wrong. (A trap here would make ptxas ignore setmaxnreg: docs/kernels.md.) */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    for (uint32_t tries = 0; !barrier_try(barrier, parity); tries++)
        if (tries == 1u << 18)
            break;
}

/* ---- Clusters ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t cluster_cta()
{
    uint32_t cta;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(cta));
    return cta;
}

__device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* ---- Launches that overlap (programmatic dependent launch) --------------------------------------------------------- */

/* Until the kernel before in the stream has ended and its writes are seen. */
__device__ __forceinline__ void wait_for_kernel_before()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* Once every CTA has said so, the next kernel's CTAs may take what multiprocessors are free. */
__device__ __forceinline__ void let_next_kernel_start()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* ---- Bulk tensor copies ------------------------------------------------------------------------------------------ */

__device__ __forceinline__ void prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Box at (x, y), x the contiguous dimension, into shared memory; `barrier` counts its bytes. */
__device__ __forceinline__ void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y)
        : "memory");
}

/* The same, to the same place in every CTA of `ctas` (a bit each), whose own barriers count it. */
__device__ __forceinline__ void load_box_multicast(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y,
                                                   uint16_t ctas)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(ctas)
                 : "memory");
}

__device__ __forceinline__ void store_box(const CUtensorMap *map, uint32_t from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y)
                 : "memory");
}

/* The same of a tensor of 4 dimensions, (x, y, z, w). */
__device__ __forceinline__ void load_box4(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y, int z,
                                          int w)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
                 "%5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ __forceinline__ void store_box4(const CUtensorMap *map, uint32_t from, int x, int y, int z, int w)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* `bytes` from global memory, multiples of 16 all. */
__device__ __forceinline__ void load_bytes(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void store_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until all but `pending` of this thread's stores have read their shared memory. */
template <int pending> __device__ __forceinline__ void store_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

template <int pending> __device__ __forceinline__ void store_wait()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

/* Order this thread's ordinary writes to shared memory before later reads of it by the copy engine or the tensor cores. */
__device__ __forceinline__ void fence_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Four 8 x 8 matrices of 16-bit elements, held as by the results of wgmma; lane 8 i + j says where row j of matrix i goes. */
__device__ __forceinline__ void store_matrices(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

/* Barrier `id` (1..15) among `threads` threads of the CTA. */
__device__ __forceinline__ void named_barrier(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Arrive there without waiting. */
__device__ __forceinline__ void named_barrier_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int registers> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/* ---- Warpgroup matrix multiply ----------------------------------------------------------------------------------- */

__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int pending> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/*
 * How an operand lies in shared memory, in rows of 128 bytes swizzled by 128 bytes (8 rows an atom of 1024 bytes):
 * K-major: rows are the operand's rows, 64 values of k each; atoms follow each other down the rows.
 * MN-major: rows are values of k, 64 of the operand's rows each; atoms follow each other over k, and blocks of 64 rows
 * lie `block_bytes` apart.
 */
__device__ __forceinline__ uint64_t k_major_operand(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ __forceinline__ uint64_t mn_major_operand(uint32_t address, uint32_t block_bytes)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(block_bytes >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

} // namespace hopper

#endif

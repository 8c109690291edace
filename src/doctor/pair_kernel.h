/* pair_kernel.h - kernels that write and check a pattern, also in another GPU's memory. */
#ifndef DOCTOR_PAIR_KERNEL_H
#define DOCTOR_PAIR_KERNEL_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Word i of a pattern is splitmix64(seed + i) (Steele, Lea, Flood 2014). */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
        uint64_t
        doctor_pattern(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Enqueue: write `words` words of the pattern; count into *wrong those that differ from it. */
cudaError_t doctor_pattern_store(uint64_t *to, unsigned words, uint64_t seed, cudaStream_t stream);
cudaError_t doctor_pattern_count_wrong(const uint64_t *from, unsigned words, uint64_t seed, unsigned *wrong,
                                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif

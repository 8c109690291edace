/* pair_kernel.cu - kernels that write and check a pattern. Peers' memory is read as volatile: from there, each time. */
#include "doctor/pair_kernel.h"

static const unsigned THREADS = 256;

__global__ void store(volatile uint64_t *to, unsigned words, uint64_t seed)
{
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
        to[i] = doctor_pattern(seed, i);
    __threadfence_system();
}

__global__ void count_wrong(const volatile uint64_t *from, unsigned words, uint64_t seed, unsigned *wrong)
{
    unsigned mine = 0;
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
        mine += from[i] != doctor_pattern(seed, i);
    if (mine)
        atomicAdd(wrong, mine);
}

extern "C" cudaError_t doctor_pattern_store(uint64_t *to, unsigned words, uint64_t seed, cudaStream_t stream)
{
    store<<<1, THREADS, 0, stream>>>(to, words, seed);
    return cudaGetLastError();
}

extern "C" cudaError_t doctor_pattern_count_wrong(const uint64_t *from, unsigned words, uint64_t seed, unsigned *wrong,
                                                  cudaStream_t stream)
{
    count_wrong<<<1, THREADS, 0, stream>>>(from, words, seed, wrong);
    return cudaGetLastError();
}

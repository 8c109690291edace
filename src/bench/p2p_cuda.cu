/*
 * p2p_cuda.cu - the kernels of p2p_bench: a copy between GPUs, and messages there and back.
 *
 * The copy ends by itself. The exchange waits for the other rank's kernel: every wait looks at an abort word and at a
 * deadline, and whoever gives up tells the other.
 */
#include "bench/p2p_cuda.h"

#include "bench/bench_cuda.h"
#include "collectives/cuda_memory.cuh"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

static char error_text[512];

static bool check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return true;
    snprintf(error_text, sizeof error_text, "%s failed: %s (%s)", call, cudaGetErrorString(error),
             cudaGetErrorName(error));
    cudaGetLastError();
    return false;
}

extern "C" const char *p2p_cuda_error(void)
{
    return error_text;
}

/* ---- Copying ----------------------------------------------------------------------------------------------------- */

enum { UNIT = 16, UNROLL = 8, COPY_THREADS = 512, EXCHANGE_THREADS = 512 };

/* The bytes past the last whole unit: a word if there is one, then bytes. */
static __device__ __forceinline__ void copy_rest(char *to, const char *from, size_t bytes, uint32_t thread)
{
    uint32_t words = bytes / 8;
    if (words && thread == 0)
        *(volatile uint64_t *)to = load_word(from);
    uint32_t at = words * 8 + thread;
    if (at < bytes)
        *(volatile char *)(to + at) = *(const volatile char *)(from + at);
}

/* Threads 0 .. nthreads - 1 (at least 16) copy; each has UNROLL loads under way before it stores. */
static __device__ __forceinline__ void copy_units(char *to, const char *from, size_t bytes, size_t thread,
                                                  size_t nthreads)
{
    size_t units = bytes / UNIT, i = thread;
    for (; i + (UNROLL - 1) * nthreads < units; i += UNROLL * nthreads) {
        uint64_t a[UNROLL], b[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            load_words(from + (i + u * nthreads) * UNIT, a[u], b[u]);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            store_words_weak(to + (i + u * nthreads) * UNIT, a[u], b[u]);
    }
    for (; i < units; i += nthreads) {
        uint64_t a, b;
        load_words(from + i * UNIT, a, b);
        store_words_weak(to + i * UNIT, a, b);
    }
    if (thread < UNIT)
        copy_rest(to + units * UNIT, from + units * UNIT, bytes % UNIT, (uint32_t)thread);
}

__global__ void __launch_bounds__(COPY_THREADS) copy_kernel(char *to, const char *from, size_t bytes)
{
    copy_units(to, from, bytes, (size_t)blockIdx.x * blockDim.x + threadIdx.x, (size_t)gridDim.x * blockDim.x);
}

/* ---- There and back ---------------------------------------------------------------------------------------------- */

struct result {
    uint32_t end; /* enum p2p_cuda_end */
    uint64_t ns;
};

/* The abort word and the clock are looked at once in so many spins. */
enum { SPINS = 256 };

static __device__ __noinline__ uint32_t give_up(const p2p_cuda_exchange &x, uint32_t why)
{
    store_release(x.my_abort, 1);
    store_release(x.their_abort, 1);
    return why;
}

/* By one thread. Returns how it ended. */
static __device__ __forceinline__ uint32_t await(const p2p_cuda_exchange &x, uint64_t count)
{
    uint64_t since = 0;
    for (uint32_t spins = 1; load_acquire(x.mine) < count; spins++) {
        if (spins % SPINS)
            continue;
        uint64_t now = nanoseconds();
        if (since == 0)
            since = now;
        if (load_word(x.my_abort))
            return give_up(x, P2P_CUDA_ABORTED);
        if (now - since > x.timeout_ns)
            return give_up(x, P2P_CUDA_TIMEOUT);
    }
    return P2P_CUDA_DONE;
}

/* The flag follows what all threads of the block wrote. */
static __device__ __forceinline__ void send(const p2p_cuda_exchange &x, uint64_t count)
{
    if (!x.pulls)
        copy_units((char *)x.to, (const char *)x.from, x.bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    if (threadIdx.x == 0)
        store_release(x.theirs, count);
}

/* False: give up, all threads of the block alike. A send, with its barrier, lies between one call and the next, so that
 * nobody still reads `end` when it is written again. */
static __device__ __forceinline__ bool receive(const p2p_cuda_exchange &x, uint64_t count, uint32_t *end)
{
    if (threadIdx.x == 0)
        *end = await(x, count);
    __syncthreads();
    if (*end != P2P_CUDA_DONE)
        return false;
    if (x.pulls)
        copy_units((char *)x.to, (const char *)x.from, x.bytes, threadIdx.x, blockDim.x);
    return true;
}

/* One block. */
__global__ void __launch_bounds__(EXCHANGE_THREADS)
    exchange_kernel(const __grid_constant__ p2p_cuda_exchange x, volatile result *to)
{
    __shared__ uint32_t end;
    uint64_t began = nanoseconds();
    if (threadIdx.x == 0)
        end = P2P_CUDA_DONE;
    __syncthreads();
    for (uint32_t i = 0; i < x.warmup + x.iterations; i++) {
        uint64_t count = x.first + i + 1;
        if (i == x.warmup)
            began = nanoseconds();
        if (x.starts)
            send(x, count);
        if (!receive(x, count, &end))
            break;
        if (!x.starts)
            send(x, count);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        to->ns = nanoseconds() - began;
        to->end = end;
    }
}

/* ---- Host -------------------------------------------------------------------------------------------------------- */

static struct {
    int multiprocessors;
    struct result *result, *device_result; /* host memory, and its address on the GPU */
} cuda;

extern "C" bool p2p_cuda_open(void)
{
    int device;
    return check(cudaGetDevice(&device), "cudaGetDevice") &&
           check(cudaDeviceGetAttribute(&cuda.multiprocessors, cudaDevAttrMultiProcessorCount, device),
                 "cudaDeviceGetAttribute") &&
           check(cudaHostAlloc((void **)&cuda.result, sizeof *cuda.result, cudaHostAllocMapped), "cudaHostAlloc") &&
           check(cudaHostGetDevicePointer((void **)&cuda.device_result, cuda.result, 0), "cudaHostGetDevicePointer");
}

extern "C" void p2p_cuda_close(void)
{
    if (cuda.result)
        cudaFreeHost(cuda.result);
    cuda = {};
}

static cudaStream_t stream(void)
{
    return (cudaStream_t)bench_cuda_stream();
}

extern "C" bool p2p_cuda_clear(void *data, size_t bytes)
{
    return check(cudaMemsetAsync(data, 0, bytes, stream()), "cudaMemsetAsync") &&
           check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
}

/* A unit for every thread, two blocks on every multiprocessor at most. */
static unsigned copy_blocks(size_t bytes)
{
    size_t wanted = bytes / ((size_t)UNIT * COPY_THREADS) + 1, most = 2 * (size_t)cuda.multiprocessors;
    return (unsigned)(wanted < most ? wanted : most);
}

extern "C" bool p2p_cuda_copy(void *to, const void *from, size_t bytes)
{
    copy_kernel<<<copy_blocks(bytes), COPY_THREADS, 0, stream()>>>((char *)to, (const char *)from, bytes);
    return check(cudaGetLastError(), "copy_kernel");
}

/* As many threads as there are units, in whole warps. */
static unsigned exchange_threads(size_t bytes)
{
    size_t warps = bytes / UNIT / 32 + 1;
    return warps < EXCHANGE_THREADS / 32 ? (unsigned)warps * 32 : (unsigned)EXCHANGE_THREADS;
}

extern "C" bool p2p_cuda_run_exchange(const struct p2p_cuda_exchange *exchange, enum p2p_cuda_end *end, uint64_t *ns)
{
    cuda.result->end = P2P_CUDA_TIMEOUT;
    cuda.result->ns = 0;
    exchange_kernel<<<1, exchange_threads(exchange->bytes), 0, stream()>>>(*exchange, cuda.device_result);
    if (!check(cudaGetLastError(), "exchange_kernel") ||
        !check(cudaStreamSynchronize(stream()), "waiting for exchange_kernel"))
        return false;
    *end = (enum p2p_cuda_end)((volatile result *)cuda.result)->end;
    *ns = ((volatile result *)cuda.result)->ns;
    return true;
}

/* ---- Links ------------------------------------------------------------------------------------------------------- */

static bool uuid_of(int device, char *text, size_t size)
{
    cudaDeviceProp properties;
    if (!check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"))
        return false;
    const unsigned char *u = (const unsigned char *)properties.uuid.bytes;
    snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
             u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    return true;
}

/* The visible device of that name, -1 if there is none. */
static bool find_device(const char *uuid, int *device)
{
    char text[64];
    *device = -1;
    for (int d = 0; d < bench_cuda_device_count() && *device < 0; d++) {
        if (!uuid_of(d, text, sizeof text))
            return false;
        if (strcmp(text, uuid) == 0)
            *device = d;
    }
    return true;
}

extern "C" bool p2p_cuda_find_link(int device, const char *uuid, struct p2p_cuda_link *link)
{
    int peer;
    *link = {};
    if (!check(cudaDeviceGetPCIBusId(link->bus, sizeof link->bus, device), "cudaDeviceGetPCIBusId") ||
        !find_device(uuid, &peer))
        return false;
    if (peer < 0)
        return true;
    link->visible = true;
    if (!check(cudaDeviceGetPCIBusId(link->peer_bus, sizeof link->peer_bus, peer), "cudaDeviceGetPCIBusId"))
        return false;
    return peer == device ||
           (check(cudaDeviceGetP2PAttribute(&link->native_atomics, cudaDevP2PAttrNativeAtomicSupported, device, peer),
                  "cudaDeviceGetP2PAttribute") &&
            check(cudaDeviceGetP2PAttribute(&link->performance_rank, cudaDevP2PAttrPerformanceRank, device, peer),
                  "cudaDeviceGetP2PAttribute"));
}

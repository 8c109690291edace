/* bench_cuda.cu - what the benches need of CUDA: buffers, clocks, graphs, and test data made and verified on the GPU. */
#include "bench/bench_cuda.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <time.h>

/* What bench_cuda_open() created. */
static struct {
    cudaStream_t stream;
    cudaEvent_t start, stop;
    unsigned long long *wrong;  /* on the device */
    unsigned long long *stamps; /* nanoseconds by the GPU's clock, in host memory that it writes: STAMP_ENTRY, ... */
} cuda;

enum { STAMP_ENTRY, STAMP_NOW, STAMPS };

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

extern "C" const char *bench_cuda_error(void)
{
    return error_text;
}

extern "C" int bench_cuda_device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

extern "C" bool bench_cuda_open(int device)
{
    return check(cudaSetDevice(device), "cudaSetDevice") &&
           check(cudaStreamCreateWithFlags(&cuda.stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags") &&
           check(cudaEventCreate(&cuda.start), "cudaEventCreate") &&
           check(cudaEventCreate(&cuda.stop), "cudaEventCreate") &&
           check(cudaMalloc((void **)&cuda.wrong, sizeof *cuda.wrong), "cudaMalloc") &&
           check(cudaMallocHost((void **)&cuda.stamps, STAMPS * sizeof *cuda.stamps), "cudaMallocHost");
}

extern "C" void bench_cuda_close(void)
{
    if (cuda.stamps)
        cudaFreeHost(cuda.stamps);
    if (cuda.wrong)
        cudaFree(cuda.wrong);
    if (cuda.stop)
        cudaEventDestroy(cuda.stop);
    if (cuda.start)
        cudaEventDestroy(cuda.start);
    if (cuda.stream)
        cudaStreamDestroy(cuda.stream);
    cuda = {};
}

extern "C" void *bench_cuda_stream(void)
{
    return cuda.stream;
}

extern "C" bool bench_cuda_get_versions(struct bench_cuda_versions *versions)
{
    int device;
    size_t free_bytes;
    return check(cudaGetDevice(&device), "cudaGetDevice") &&
           check(cudaDriverGetVersion(&versions->driver), "cudaDriverGetVersion") &&
           check(cudaRuntimeGetVersion(&versions->runtime), "cudaRuntimeGetVersion") &&
           check(cudaDeviceGetAttribute(&versions->sm_clock_khz, cudaDevAttrClockRate, device),
                 "cudaDeviceGetAttribute") &&
           check(cudaDeviceGetAttribute(&versions->memory_clock_khz, cudaDevAttrMemoryClockRate, device),
                 "cudaDeviceGetAttribute") &&
           check(cudaMemGetInfo(&free_bytes, &versions->memory_bytes), "cudaMemGetInfo");
}

extern "C" bool bench_cuda_free_bytes(size_t *bytes)
{
    size_t total;
    return check(cudaMemGetInfo(bytes, &total), "cudaMemGetInfo");
}

extern "C" bool bench_cuda_alloc(size_t bytes, void **ptr)
{
    return check(cudaMalloc(ptr, bytes), "cudaMalloc");
}

extern "C" void bench_cuda_free(void *ptr)
{
    cudaFree(ptr);
}

extern "C" bool bench_cuda_wait(void)
{
    return check(cudaStreamSynchronize(cuda.stream), "cudaStreamSynchronize");
}

extern "C" bool bench_cuda_clock_start(void)
{
    return check(cudaEventRecord(cuda.start, cuda.stream), "cudaEventRecord");
}

extern "C" bool bench_cuda_clock_stop(double *seconds)
{
    float milliseconds = 0;
    bool good = check(cudaEventRecord(cuda.stop, cuda.stream), "cudaEventRecord") && bench_cuda_wait() &&
                check(cudaEventElapsedTime(&milliseconds, cuda.start, cuda.stop), "cudaEventElapsedTime");
    *seconds = milliseconds * 1e-3;
    return good;
}

extern "C" bool bench_cuda_capture_start(void)
{
    return check(cudaStreamBeginCapture(cuda.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

extern "C" bool bench_cuda_capture_stop(void **graph)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t ready = NULL;
    bool good = check(cudaStreamEndCapture(cuda.stream, &captured), "cudaStreamEndCapture") &&
                check(cudaGraphInstantiate(&ready, captured, 0), "cudaGraphInstantiate");
    if (captured)
        cudaGraphDestroy(captured);
    *graph = ready;
    return good;
}

extern "C" bool bench_cuda_graph_launch(void *graph)
{
    return check(cudaGraphLaunch((cudaGraphExec_t)graph, cuda.stream), "cudaGraphLaunch");
}

extern "C" void bench_cuda_graph_free(void *graph)
{
    cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static const size_t THREADS = 256, MOST_BLOCKS = 1056;

static unsigned blocks_for(size_t count)
{
    size_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

__global__ void empty_kernel(void)
{
}

__global__ void fill_kernel(const __grid_constant__ struct pattern p, int rank, void *data, size_t count)
{
    uint32_t seed = pattern_seed(&p, rank);
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        uint32_t h = pattern_hash(seed, i);
        if (pattern_is_float(p.type))
            pattern_store_float(p.type, data, i, pattern_float(&p, p.values, h, rank));
        else
            pattern_store_integer(p.type, data, i, pattern_integer(&p, h));
    }
}

/* Whether output i differs; its inputs are at `index` of ranks first_rank .. last_rank. */
__device__ bool differs_float(const struct pattern &p, const void *data, size_t i, size_t index, int first_rank,
                              int last_rank)
{
    double reference = 0, magnitude = 0;
    for (int rank = first_rank; rank <= last_rank; rank++) {
        double value = pattern_float(&p, p.values, pattern_hash(pattern_seed(&p, rank), index), rank);
        reference = rank == first_rank ? value : pattern_combine_float(p.op, reference, value);
        magnitude += fabs(value);
    }
    return pattern_differs_float(&p, pattern_load_float(p.type, data, i), reference, magnitude);
}

__device__ bool differs_integer(const struct pattern &p, const void *data, size_t i, size_t index, int first_rank,
                                int last_rank)
{
    int64_t reference = 0;
    for (int rank = first_rank; rank <= last_rank; rank++) {
        int64_t value = pattern_integer(&p, pattern_hash(pattern_seed(&p, rank), index));
        reference = rank == first_rank ? value : pattern_combine_integer(p.op, reference, value);
    }
    return pattern_differs_integer(&p, pattern_load_integer(p.type, data, i), reference);
}

__global__ void count_wrong_kernel(const __grid_constant__ struct pattern p, const void *data, size_t count,
                                   unsigned long long *total)
{
    unsigned long long wrong = 0;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        int first_rank = p.reduced ? 0 : (int)(i / p.segment);
        int last_rank = p.reduced ? p.nranks - 1 : first_rank;
        size_t index = p.reduced ? p.first + i : i % p.segment;
        wrong += pattern_is_float(p.type) ? differs_float(p, data, i, index, first_rank, last_rank)
                                          : differs_integer(p, data, i, index, first_rank, last_rank);
    }
    if (wrong)
        atomicAdd(total, wrong);
}

__global__ void stamp_kernel(unsigned long long *stamp)
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    *stamp = ns;
}

extern "C" bool bench_cuda_enter(void)
{
    stamp_kernel<<<1, 1, 0, cuda.stream>>>(&cuda.stamps[STAMP_ENTRY]);
    return check(cudaGetLastError(), "stamp_kernel");
}

static int64_t host_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* The two clocks are compared right after the batch, so that what they drift apart in a run does not count: the GPU's was
 * read between two readings of the host's; of a few tries the one that took least. */
extern "C" bool bench_cuda_entered(bool own, int64_t *ns, int64_t *uncertainty_ns)
{
    enum { TRIES = 3 };
    int64_t entry = (int64_t)cuda.stamps[STAMP_ENTRY], width = INT64_MAX;
    *ns = entry;
    *uncertainty_ns = 0;
    for (int i = 0; i < TRIES && !own; i++) {
        int64_t before = host_now();
        stamp_kernel<<<1, 1, 0, cuda.stream>>>(&cuda.stamps[STAMP_NOW]);
        if (!check(cudaGetLastError(), "stamp_kernel") || !bench_cuda_wait())
            return false;
        int64_t after = host_now();
        if (after - before >= width)
            continue;
        width = after - before;
        *ns = entry - (int64_t)cuda.stamps[STAMP_NOW] + before + width / 2;
        *uncertainty_ns = width / 2;
    }
    return true;
}

extern "C" bool bench_cuda_fill(const struct pattern *pattern, int rank, void *data, size_t count)
{
    if (count)
        fill_kernel<<<blocks_for(count), (unsigned)THREADS, 0, cuda.stream>>>(*pattern, rank, data, count);
    return check(cudaGetLastError(), "fill_kernel");
}

extern "C" bool bench_cuda_poison(void *data, size_t bytes)
{
    return bytes == 0 || check(cudaMemsetAsync(data, 0xFF, bytes, cuda.stream), "cudaMemsetAsync");
}

extern "C" bool bench_cuda_copy(void *to, const void *from, size_t bytes)
{
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda.stream), "cudaMemcpyAsync");
}

extern "C" bool bench_cuda_move(void *to, const void *from, size_t bytes)
{
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda.stream), "cudaMemcpyAsync") &&
           bench_cuda_wait();
}

extern "C" bool bench_cuda_launch_empty(void)
{
    empty_kernel<<<1, 32, 0, cuda.stream>>>();
    return check(cudaGetLastError(), "empty_kernel");
}

extern "C" bool bench_cuda_count_wrong(const struct pattern *pattern, const void *data, size_t count, size_t *wrong)
{
    unsigned long long total = 0;
    bool good = check(cudaMemsetAsync(cuda.wrong, 0, sizeof total, cuda.stream), "cudaMemsetAsync");
    if (good && count) {
        count_wrong_kernel<<<blocks_for(count), (unsigned)THREADS, 0, cuda.stream>>>(*pattern, data, count, cuda.wrong);
        good = check(cudaGetLastError(), "count_wrong_kernel");
    }
    good = good &&
           check(cudaMemcpyAsync(&total, cuda.wrong, sizeof total, cudaMemcpyDeviceToHost, cuda.stream),
                 "cudaMemcpyAsync") &&
           bench_cuda_wait();
    *wrong = (size_t)total;
    return good;
}

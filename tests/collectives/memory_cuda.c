/* memory_cuda.c - GPU memory for the tests. */
#include "memory.h"
#include "tap.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

const int memory_protocols[] = {TR_PROTOCOL_AUTO, TR_PROTOCOL_LL, TR_PROTOCOL_LL128, TR_PROTOCOL_DIRECT, -1};
const int memory_channels[] = {0, 1, 3, -1};

static cudaStream_t stream;

static void must(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        tap_bail_out("%s: %s", what, cudaGetErrorString(error));
}

const char *memory_unavailable(void)
{
    int devices = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess)
        return cudaGetErrorString(error);
    return devices ? NULL : "no GPU";
}

enum tr_memory memory_kind(void)
{
    return TR_MEMORY_CUDA;
}

void memory_attach(const struct tr_comm *comm)
{
    struct tr_comm_info info;
    if (tr_comm_get_info(comm, &info) != TR_OK)
        tap_bail_out("tr_comm_get_info: %s", tr_last_error());
    if (stream)
        cudaStreamDestroy(stream);
    must(cudaSetDevice(info.device), "cudaSetDevice");
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

void *memory_new(size_t bytes)
{
    void *ptr;
    must(cudaMalloc(&ptr, bytes), "cudaMalloc");
    return ptr;
}

void memory_delete(void *ptr)
{
    must(cudaFree(ptr), "cudaFree");
}

void *memory_new_image(size_t bytes)
{
    void *ptr;
    must(cudaMallocHost(&ptr, bytes), "cudaMallocHost");
    return ptr;
}

void memory_delete_image(void *image)
{
    must(cudaFreeHost(image), "cudaFreeHost");
}

void *memory_stream(void)
{
    return stream;
}

void memory_put(void *to, const void *image, size_t bytes)
{
    must(cudaMemcpyAsync(to, image, bytes, cudaMemcpyHostToDevice, stream), "copying to the GPU");
}

void memory_get(void *image, const void *from, size_t bytes)
{
    must(cudaMemcpyAsync(image, from, bytes, cudaMemcpyDeviceToHost, stream), "copying from the GPU");
    must(cudaStreamSynchronize(stream), "waiting for the GPU");
}

void memory_finish(void)
{
    must(cudaStreamSynchronize(stream), "waiting for the GPU");
}

size_t memory_in_use(void)
{
    size_t available, total;
    must(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    return total - available;
}

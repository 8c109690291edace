/* launch.c - facts about the current device, and CUDA's errors as sentences. */
#include "kernels/launch.h"
#include "kernels/error.h"

#include <stdbool.h>

enum tk_status tk_cuda_status(cudaError_t error, const char *doing)
{
    if (error == cudaSuccess)
        return TK_OK;
    return tk_error(TK_ERR_CUDA, "%s: %s (%s)", doing, cudaGetErrorString(error), cudaGetErrorName(error));
}

enum tk_status tk_launched(const char *kernel)
{
    return tk_cuda_status(cudaGetLastError(), kernel);
}

/* What devices are does not change, and asking costs a launch's time: one word a device, 0 where it was not asked yet. */
static uint64_t known[64];

static enum tk_status ask(int id, uint64_t *word)
{
    int multiprocessors, major, minor;
    cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, id);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, id);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, id);
    if (error == cudaSuccess)
        *word = (uint64_t)multiprocessors << 32 | (uint64_t)(10 * major + minor);
    return tk_cuda_status(error, "asking the current GPU what it is");
}

enum tk_status tk_device_get(struct tk_device *device)
{
    int id;
    enum tk_status status = tk_cuda_status(cudaGetDevice(&id), "asking for the current GPU");
    if (status != TK_OK)
        return status;
    bool kept = id < (int)(sizeof known / sizeof *known);
    uint64_t word = kept ? __atomic_load_n(&known[id], __ATOMIC_RELAXED) : 0;
    if (word == 0)
        status = ask(id, &word);
    if (status != TK_OK)
        return status;
    if (kept)
        __atomic_store_n(&known[id], word, __ATOMIC_RELAXED);
    *device =
        (struct tk_device){.id = id, .multiprocessors = (int)(word >> 32), .capability = (int)(word & 0xffffffff)};
    return TK_OK;
}

/* gpu_cuda.c - the GPUs that this process sees, and whether it can use its own. */
#include "collectives/cuda_ipc.h"
#include "collectives/cuda_kernel.h"
#include "doctor/probe.h"

#include <stdio.h>
#include <string.h>

/* Note what failed; true for cudaSuccess. */
static bool passed(struct doctor_gpus *gpus, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return true;
    gpus->state = DOCTOR_GPU_FAILS;
    gpus->error = (int)error;
    snprintf(gpus->what, sizeof gpus->what, "%s failed: %s (%s)", what, cudaGetErrorString(error),
             cudaGetErrorName(error));
    return false;
}

/* What fails is noted in `gpus`. */
static bool describe(struct doctor_gpus *gpus, int ordinal, struct doctor_gpu *gpu)
{
    struct cudaDeviceProp properties;
    if (!passed(gpus, cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties"))
        return false;
    tr_cuda_format_uuid(&properties.uuid, gpu->uuid);
    snprintf(gpu->name, sizeof gpu->name, "%.63s", properties.name);
    gpu->major = properties.major;
    gpu->minor = properties.minor;
    return passed(gpus, cudaDeviceGetPCIBusId(gpu->bus_id, sizeof gpu->bus_id, ordinal), "cudaDeviceGetPCIBusId") &&
           passed(gpus, cudaDeviceGetAttribute(&gpu->compute_mode, cudaDevAttrComputeMode, ordinal),
                  "cudaDeviceGetAttribute");
}

static bool find_reach(struct doctor_gpus *gpus)
{
    for (int i = 0; i < gpus->ngpus; i++) {
        gpus->reaches[i] = i == gpus->chosen;
        if (i != gpus->chosen &&
            !passed(gpus, cudaDeviceCanAccessPeer(&gpus->reaches[i], gpus->chosen, i), "cudaDeviceCanAccessPeer"))
            return false;
    }
    return true;
}

/* Use the GPU: this makes a context, and so talks to MPS where it runs. */
static bool use(struct doctor_gpus *gpus)
{
    void *memory = NULL;
    bool works = passed(gpus, cudaSetDevice(gpus->chosen), "cudaSetDevice") &&
                 passed(gpus, cudaMemGetInfo(&gpus->free_bytes, &gpus->total_bytes), "bringing up the GPU") &&
                 passed(gpus, cudaMalloc(&memory, 256), "cudaMalloc") &&
                 passed(gpus, cudaMemset(memory, 0, 256), "cudaMemset") &&
                 passed(gpus, cudaDeviceSynchronize(), "the first work on the GPU");
    if (works)
        cudaDeviceReset(); /* MPS is to see a client that ends well */
    return works;
}

void doctor_look_at_gpus(int rank, struct doctor_gpus *gpus)
{
    gpus->most_ranks = TR_CUDA_MAX_RANKS;
    cudaDriverGetVersion(&gpus->driver);
    cudaRuntimeGetVersion(&gpus->runtime);
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    /* with driver 0 there is no driver: an ordinary machine without GPUs */
    if (error == cudaErrorNoDevice || (error == cudaErrorInsufficientDriver && gpus->driver == 0)) {
        gpus->state = DOCTOR_GPU_NONE;
        return;
    }
    if (!passed(gpus, error, "cudaGetDeviceCount"))
        return;
    gpus->ngpus = count < DOCTOR_MAX_GPUS ? count : DOCTOR_MAX_GPUS;
    if (gpus->ngpus == 0) {
        gpus->state = DOCTOR_GPU_NONE;
        return;
    }
    gpus->chosen = rank % gpus->ngpus;
    for (int i = 0; i < gpus->ngpus; i++)
        if (!describe(gpus, i, &gpus->gpus[i]))
            return;
    if (find_reach(gpus) && use(gpus))
        gpus->state = DOCTOR_GPU_WORKS;
}

bool doctor_describe_gpu(int ordinal, struct doctor_gpu *gpu)
{
    struct doctor_gpus failures;
    return describe(&failures, ordinal, gpu);
}

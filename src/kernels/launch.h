/* launch.h - what the CUDA launchers share: facts about the current device, and CUDA's errors as sentences. */
#ifndef KERNELS_LAUNCH_H
#define KERNELS_LAUNCH_H

#include "kernels/kernels.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tk_device {
    int id;
    int multiprocessors;
    int capability; /* 90 for 9.0 */
};

/* The current device. */
enum tk_status tk_device_get(struct tk_device *device);

/* TK_OK for cudaSuccess; else a sentence "`doing`: what CUDA says". */
enum tk_status tk_cuda_status(cudaError_t error, const char *doing);

/* After a launch <<<>>>: whether it was accepted. `kernel` is named in the sentence. */
enum tk_status tk_launched(const char *kernel);

#ifdef __cplusplus
}
#endif

#endif

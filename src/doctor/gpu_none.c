/* gpu_none.c - stands in for gpu_cuda.c in a build without CUDA. */
#include "doctor/probe.h"

void doctor_look_at_gpus(int rank, struct doctor_gpus *gpus)
{
    (void)rank;
    gpus->state = DOCTOR_GPU_NO_BUILD;
}

bool doctor_describe_gpu(int ordinal, struct doctor_gpu *gpu)
{
    (void)ordinal, (void)gpu;
    return false;
}

/* pairs_gpu_none.c - stands in for pairs_gpu.c in a build without CUDA. */
#include "doctor/pairs.h"

void doctor_try_gpu_pairs(struct doctor *doctor)
{
    (void)doctor;
}

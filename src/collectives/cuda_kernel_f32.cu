/* cuda_kernel_f32.cu - the kernels for f32. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_f32(int op, int protocol, int fan)
{
    return find_kernel<float>(op, protocol, fan);
}

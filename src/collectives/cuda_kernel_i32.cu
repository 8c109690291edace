/* cuda_kernel_i32.cu - the kernels for i32. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_i32(int op, int protocol, int fan)
{
    return find_kernel<int32_t>(op, protocol, fan);
}

/* cuda_kernel_i64.cu - the kernels for i64. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_i64(int op, int protocol, int fan)
{
    return find_kernel<int64_t>(op, protocol, fan);
}

/* cuda_kernel_f16.cu - the kernels for f16. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_f16(int op, int protocol, int fan)
{
    return find_kernel<__half>(op, protocol, fan);
}

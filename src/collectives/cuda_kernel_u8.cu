/* cuda_kernel_u8.cu - the kernels for u8. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_u8(int op, int protocol, int fan)
{
    return find_kernel<uint8_t>(op, protocol, fan);
}

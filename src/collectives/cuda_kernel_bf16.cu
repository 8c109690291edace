/* cuda_kernel_bf16.cu - the kernels for bf16. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_bf16(int op, int protocol, int fan)
{
    return find_kernel<__nv_bfloat16>(op, protocol, fan);
}

/* cuda_kernel_f64.cu - the kernels for f64. */
#include "collectives/cuda_kernel.cuh"

const void *tr_cuda_kernel_f64(int op, int protocol, int fan)
{
    return find_kernel<double>(op, protocol, fan);
}

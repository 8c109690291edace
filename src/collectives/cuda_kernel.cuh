/* cuda_kernel.cuh - the kernels of one datatype: a cuda_kernel_<datatype>.cu file instantiates them. */
#ifndef TR_CUDA_KERNEL_CUH
#define TR_CUDA_KERNEL_CUH

#include "collectives/cuda_direct.cuh"
#include "collectives/cuda_fan.cuh"
#include "collectives/cuda_ll.cuh"
#include "collectives/cuda_ll128.cuh"

/* The values of enum tr_protocol, checked in exec_cuda.c as those of enum tr_op are. */
enum Protocol { PROTOCOL_LL = 1, PROTOCOL_LL128 = 2, PROTOCOL_DIRECT = 3, PROTOCOL_COUNT = 4 };

template <typename T> static const void *find_kernel(int op, int protocol, int fan)
{
    static const void *const fans[2] = {(const void *)fan_kernel<T, ONLY_SUM>,
                                        (const void *)fan_kernel<T, ANY_OPERATION>};
    static const void *const kernels[PROTOCOL_COUNT][2] = {
        {0, 0},
        {(const void *)ll_kernel<T, ONLY_SUM>, (const void *)ll_kernel<T, ANY_OPERATION>},
        {(const void *)ll128_kernel<T, ONLY_SUM>, (const void *)ll128_kernel<T, ANY_OPERATION>},
        {(const void *)direct_kernel<T, ONLY_SUM>, (const void *)direct_kernel<T, ANY_OPERATION>},
    };
    int kind = op == OP_SUM || op == OP_AVG ? ONLY_SUM : ANY_OPERATION;
    return fan ? fans[kind] : kernels[protocol][kind];
}

#endif

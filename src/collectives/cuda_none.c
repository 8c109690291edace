/* cuda_none.c - stands in for exec_cuda.c in a build without CUDA: there is no executor and no GPU. */
#include "collectives/comm.h"

const struct tr_executor *tr_exec_cuda(void)
{
    return NULL;
}

int tr_cuda_device_count(void)
{
    return 0;
}

size_t tr_cuda_arena_bytes(int ranks)
{
    (void)ranks;
    return 0;
}

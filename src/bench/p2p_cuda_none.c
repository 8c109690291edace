/* p2p_cuda_none.c - p2p_cuda.h in a build without CUDA: no rank has a GPU, so nothing but the error is ever called. */
#include "bench/p2p_cuda.h"

#define ABSENT __attribute__((unused))

const char *p2p_cuda_error(void)
{
    return "this build has no CUDA: configure with --with-cuda";
}

bool p2p_cuda_open(void)
{
    return false;
}

void p2p_cuda_close(void)
{
}

bool p2p_cuda_clear(void *data ABSENT, size_t bytes ABSENT)
{
    return false;
}

bool p2p_cuda_copy(void *to ABSENT, const void *from ABSENT, size_t bytes ABSENT)
{
    return false;
}

bool p2p_cuda_run_exchange(const struct p2p_cuda_exchange *exchange ABSENT, enum p2p_cuda_end *end ABSENT,
                           uint64_t *ns ABSENT)
{
    return false;
}

bool p2p_cuda_find_link(int device ABSENT, const char *uuid ABSENT, struct p2p_cuda_link *link ABSENT)
{
    return false;
}

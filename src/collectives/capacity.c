/* capacity.c - how much a mailbox slot holds on a GPU; area_host.c has the same for host memory. */
#include "collectives/capacity.h"
#include "collectives/cuda_kernel.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

const size_t tr_cuda_collective_half[TR_PROTOCOL_COUNT] = {
    [TR_PROTOCOL_LL] = MIB, [TR_PROTOCOL_LL128] = 4 * MIB, [TR_PROTOCOL_DIRECT] = 8 * MIB};
const size_t tr_cuda_pair_half[TR_PROTOCOL_COUNT] = {
    [TR_PROTOCOL_LL] = 16 * KIB, [TR_PROTOCOL_LL128] = 16 * KIB, [TR_PROTOCOL_DIRECT] = 128 * KIB};

const struct tr_cuda_unit tr_cuda_units[TR_PROTOCOL_COUNT] = {
    [TR_PROTOCOL_LL] = {TR_CUDA_LL_PAYLOAD, TR_CUDA_LL_PACKET},
    [TR_PROTOCOL_LL128] = {TR_CUDA_LL128_PAYLOAD, TR_CUDA_LL128_LINE},
    [TR_PROTOCOL_DIRECT] = {TR_CUDA_LINE, TR_CUDA_LINE},
};

size_t tr_cuda_channel_bytes(size_t half_bytes, uint32_t channels)
{
    return half_bytes / channels / TR_CUDA_LINE * TR_CUDA_LINE;
}

size_t tr_cuda_capacity(enum tr_protocol protocol, size_t half_bytes, uint32_t channels, size_t slots)
{
    size_t slot = tr_cuda_channel_bytes(half_bytes, channels) / (slots ? slots : 1);
    size_t units = slot / TR_CUDA_LINE * TR_CUDA_LINE / tr_cuda_units[protocol].bytes;
    return units * tr_cuda_units[protocol].payload / 16 * 16;
}

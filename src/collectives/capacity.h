/*
 * capacity.h - how much a mailbox slot holds. Pure arithmetic, so that what predicts a call cuts its vector as the executor
 * does, on any machine.
 */
#ifndef TR_CAPACITY_H
#define TR_CAPACITY_H

#include "treering.h"

#include <stdint.h>

/* Bytes of a GPU's mailboxes, one half, by protocol: of the collectives, and of each pair of send and receive. */
extern const size_t tr_cuda_collective_half[TR_PROTOCOL_COUNT], tr_cuda_pair_half[TR_PROTOCOL_COUNT];

/* How each protocol carries data on a GPU: bytes of payload in a unit of the mailbox. */
struct tr_cuda_unit {
    size_t payload, bytes;
};
extern const struct tr_cuda_unit tr_cuda_units[TR_PROTOCOL_COUNT];

/* Of a half of `half_bytes`: bytes of one channel's mailboxes, and the payload of one of `slots` slots in them. */
size_t tr_cuda_channel_bytes(size_t half_bytes, uint32_t channels);
size_t tr_cuda_capacity(enum tr_protocol protocol, size_t half_bytes, uint32_t channels, size_t slots);

#endif

/*
 * p2p_cuda.h - what p2p_bench needs of CUDA beyond bench_cuda.h, in plain C: p2p_cuda.cu, or p2p_cuda_none.c in a build
 * without CUDA.
 *
 * Functions return true, or false and leave a sentence in p2p_cuda_error(). All work goes into bench_cuda_stream().
 */
#ifndef BENCH_P2P_CUDA_H
#define BENCH_P2P_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *p2p_cuda_error(void);

/* On the device that bench_cuda_open() made current. */
bool p2p_cuda_open(void);
void p2p_cuda_close(void);

/* Set to zero, and wait. */
bool p2p_cuda_clear(void *data, size_t bytes);

/* Enqueue a copy by a kernel; either side may be a peer's memory. Both aligned to 16 bytes. */
bool p2p_cuda_copy(void *to, const void *from, size_t bytes);

/* Messages there and back. Both ranks run it at once with the same `first`, `warmup`, `iterations`. */
struct p2p_cuda_exchange {
    void *to; /* the copy that is part of a message, aligned to 16 bytes; bytes 0: a flag alone */
    const void *from;
    size_t bytes;
    uint32_t pulls;   /* the receiver copies, once it has the flag; otherwise the sender, before it sets it */
    uint32_t starts;  /* this rank sends first */
    uint64_t *theirs; /* the flag at the peer */
    uint64_t *mine;   /* the peer's flag here */
    uint64_t *their_abort, *my_abort; /* not zero: stop waiting */
    uint64_t first;                   /* messages before this call, each way; the flags count them */
    uint32_t warmup, iterations;
    uint64_t timeout_ns; /* of each wait */
};

enum p2p_cuda_end { P2P_CUDA_DONE, P2P_CUDA_TIMEOUT, P2P_CUDA_ABORTED };

/* Run and wait. *ns is the time of `iterations` on this rank. */
bool p2p_cuda_run_exchange(const struct p2p_cuda_exchange *exchange, enum p2p_cuda_end *end, uint64_t *ns);

/* What CUDA says of the way from this process's GPU to the GPU named `uuid` ("GPU-..."). */
struct p2p_cuda_link {
    bool visible; /* the peer's GPU is, to this process; what follows is set only then */
    int native_atomics, performance_rank;
    char bus[24], peer_bus[24];
};
bool p2p_cuda_find_link(int device, const char *uuid, struct p2p_cuda_link *link);

#ifdef __cplusplus
}
#endif

#endif

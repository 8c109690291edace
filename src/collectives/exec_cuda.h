/* exec_cuda.h - the state of the CUDA executor, shared by exec_cuda.c (running) and cuda_setup.c (making, freeing). */
#ifndef TR_EXEC_CUDA_H
#define TR_EXEC_CUDA_H

#include "collectives/comm.h"
#include "collectives/cuda_ipc.h"
#include "collectives/cuda_kernel.h"

/* Bytes and offsets of a domain (cuda_kernel.h has the picture); boxes[] by enum tr_protocol, half[] of one parity. */
struct tr_cuda_layout {
    uint32_t channels;
    size_t flags;
    size_t mailbox[TR_PROTOCOL_COUNT];
    size_t half[TR_PROTOCOL_COUNT];
    size_t bytes;
};

struct tr_cuda_exec {
    int device;
    int multiprocessors;
    bool overlaps_launches; /* programmatic dependent launch, compute capability 9.0 and later */
    uint32_t fullest;       /* ranks on the GPU that most ranks share */
    uint32_t max_channels;  /* so that the blocks of all ranks on a GPU are resident together */
    uint32_t last_channels; /* of the call launched last */
    struct tr_cuda_layout collectives, pair;
    void *arena;   /* the collectives' domain, then the pairs': from rank r at r, to rank r at size + r */
    void **arenas; /* every rank's, as mapped here */
    struct tr_cuda_share *shares;
    struct tr_cuda_mappings mappings;
    struct tr_cuda_report *report, *device_report; /* mapped host memory, and its address on the GPU */
    cudaStream_t side;                             /* for what must not wait behind the user's streams */
    cudaStream_t last_stream;                      /* of the last call, when has_last */
    cudaEvent_t order;
    bool has_last;
};

/* cuda_setup.c */
enum tr_status tr_cuda_create(struct tr_comm *comm);
void tr_cuda_destroy(struct tr_comm *comm);

/* Where `rank`'s part of a domain is, as mapped here. */
char *tr_cuda_domain(const struct tr_comm *comm, const struct tr_domain *domain, int rank);

/* cuda_lower.c: what is worked out once for a program. */
struct tr_cuda_kept {
    size_t nsteps, nrefs; /* of the lowered program */
    size_t blob_bytes;
    uint8_t sender[]; /* of the message in each of this rank's slots */
};

/* The caller frees it. Errors: MEMORY, UNSUPPORTED (a program too long for a kernel's arguments). */
enum tr_status tr_cuda_keep(struct tr_cached_program *cached, struct tr_cuda_kept **kept);

/* Fill the kernel's argument for a call; the blob has room for kept->blob_bytes. */
void tr_cuda_lower(const struct tr_comm *comm, const struct tr_call *call, const struct tr_cuda_kept *kept,
                   struct tr_cuda_call *to, uint64_t *blob);

/* struct tr_executor's slot_capacity. */
size_t tr_cuda_slot_capacity(const struct tr_comm *comm, enum tr_protocol protocol, const struct tr_domain *domain,
                             uint32_t channels, size_t slots);

#endif

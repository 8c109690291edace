/* cuda_ipc.h - sharing GPU memory between the ranks' processes through CUDA IPC. */
#ifndef TR_CUDA_IPC_H
#define TR_CUDA_IPC_H

#include "collectives/comm.h"

#include <cuda_runtime_api.h>

/* TR_OK for cudaSuccess, else TR_ERR_CUDA (TR_ERR_MEMORY when memory is short) and the sentence "<what> failed: ...". */
enum tr_status tr_cuda_status(cudaError_t error, const char *what);

/* "GPU-..." as nvidia-smi writes it (cuda_setup.c). */
enum { TR_CUDA_UUID_BYTES = 48 };
void tr_cuda_format_uuid(const cudaUUID_t *uuid, char text[TR_CUDA_UUID_BYTES]);

/* What a rank tells the others about memory that it shares. */
struct tr_cuda_share {
    cudaIpcMemHandle_t handle; /* of the whole allocation */
    size_t offset;             /* of the shared part in it */
};

/* Describe [ptr, ptr + bytes) for the others. UNSUPPORTED for memory without an IPC handle (VMM, async pools). */
enum tr_status tr_cuda_share_describe(const void *ptr, struct tr_cuda_share *share);

/* Mappings of peers' allocations, kept by handle: an allocation is mapped once however often it is shared, and memory
 * freed and allocated anew at the same address has another handle. */
struct tr_cuda_mappings {
    struct tr_cuda_mapping *first;
};

/* Map what a peer described; *ptr is its start here. Undone by tr_cuda_unmap() with the same share. */
enum tr_status tr_cuda_map(struct tr_cuda_mappings *mappings, const struct tr_cuda_share *share, void **ptr);
void tr_cuda_unmap(struct tr_cuda_mappings *mappings, const struct tr_cuda_share *share);

/* Share `mine` with all ranks of the communicator: shares[size] and ptrs[size], where ptrs[rank] is `mine` itself. Collective;
 * all ranks fail together. tr_cuda_withdraw() unmaps. */
enum tr_status tr_cuda_exchange(struct tr_comm *comm, struct tr_cuda_mappings *mappings, void *mine,
                                struct tr_cuda_share *shares, void **ptrs);
void tr_cuda_withdraw(const struct tr_comm *comm, struct tr_cuda_mappings *mappings,
                      const struct tr_cuda_share *shares);

#endif

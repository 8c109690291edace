/* cuda_ipc.c - sharing GPU memory between the ranks' processes through CUDA IPC. */
#include "collectives/cuda_ipc.h"

#include "collectives/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum tr_status tr_cuda_status(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return TR_OK;
    cudaGetLastError(); /* not to be found again by a later check */
    return tr_error(error == cudaErrorMemoryAllocation ? TR_ERR_MEMORY : TR_ERR_CUDA, "%s failed: %s (%s)", what,
                    cudaGetErrorString(error), cudaGetErrorName(error));
}

/* cuMemGetAddressRange of the driver: the allocation that an address lies in. */
typedef int address_range_fn(unsigned long long *base, size_t *bytes, unsigned long long address);

enum tr_status tr_cuda_share_describe(const void *ptr, struct tr_cuda_share *share)
{
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult found;
    enum tr_status status = tr_cuda_status(
        cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 12000, cudaEnableDefault, &found),
        "looking up cuMemGetAddressRange");
    if (status != TR_OK)
        return status;
    unsigned long long base = 0;
    size_t bytes = 0;
    if (!entry || ((address_range_fn *)entry)(&base, &bytes, (unsigned long long)(uintptr_t)ptr) != 0)
        return tr_error(TR_ERR_ARGUMENT, "%p is not GPU memory; pass memory from cudaMalloc", ptr);
    cudaError_t error = cudaIpcGetMemHandle(&share->handle, (void *)(uintptr_t)base);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return tr_error(TR_ERR_UNSUPPORTED,
                        "the GPU memory at %p has no IPC handle (%s); allocate it with cudaMalloc or tr_mem_alloc, not "
                        "from a virtual-memory or asynchronous pool, or pass it unregistered",
                        ptr, cudaGetErrorString(error));
    }
    share->offset = (uintptr_t)ptr - (uintptr_t)base;
    return TR_OK;
}

struct tr_cuda_mapping {
    cudaIpcMemHandle_t handle;
    void *base;
    int users;
    struct tr_cuda_mapping *next;
};

/* The link that holds the mapping of a handle; it points to NULL when there is none. */
static struct tr_cuda_mapping **find(struct tr_cuda_mappings *mappings, const cudaIpcMemHandle_t *handle)
{
    struct tr_cuda_mapping **link = &mappings->first;
    while (*link && memcmp(&(*link)->handle, handle, sizeof *handle) != 0)
        link = &(*link)->next;
    return link;
}

enum tr_status tr_cuda_map(struct tr_cuda_mappings *mappings, const struct tr_cuda_share *share, void **ptr)
{
    struct tr_cuda_mapping *mapping = *find(mappings, &share->handle);
    if (!mapping) {
        mapping = calloc(1, sizeof *mapping);
        if (!mapping)
            return tr_error(TR_ERR_MEMORY, "no memory for a table entry");
        mapping->handle = share->handle;
        cudaError_t error = cudaIpcOpenMemHandle(&mapping->base, share->handle, cudaIpcMemLazyEnablePeerAccess);
        if (error != cudaSuccess) {
            free(mapping);
            return tr_cuda_status(error, "mapping a peer's GPU memory (cudaIpcOpenMemHandle; the ranks need one PID "
                                         "namespace and must see each other's GPUs: under Slurm use --gpus-per-node "
                                         "with --gpu-bind=none)");
        }
        mapping->next = mappings->first;
        mappings->first = mapping;
    }
    mapping->users++;
    *ptr = (char *)mapping->base + share->offset;
    return TR_OK;
}

void tr_cuda_unmap(struct tr_cuda_mappings *mappings, const struct tr_cuda_share *share)
{
    struct tr_cuda_mapping **link = find(mappings, &share->handle), *mapping = *link;
    if (!mapping || --mapping->users > 0)
        return;
    *link = mapping->next;
    cudaIpcCloseMemHandle(mapping->base);
    free(mapping);
}

static enum tr_status map_peers(const struct tr_comm *comm, struct tr_cuda_mappings *mappings, void *mine,
                                const struct tr_cuda_share *shares, void **ptrs, int *mapped)
{
    for (*mapped = 0; *mapped < comm->size; ++*mapped) {
        int r = *mapped;
        ptrs[r] = mine;
        enum tr_status status = r == comm->rank ? TR_OK : tr_cuda_map(mappings, &shares[r], &ptrs[r]);
        if (status != TR_OK)
            return status;
    }
    return TR_OK;
}

static void unmap_first(const struct tr_comm *comm, struct tr_cuda_mappings *mappings,
                        const struct tr_cuda_share *shares, int count)
{
    for (int r = 0; r < count; r++)
        if (r != comm->rank)
            tr_cuda_unmap(mappings, &shares[r]);
}

enum tr_status tr_cuda_exchange(struct tr_comm *comm, struct tr_cuda_mappings *mappings, void *mine,
                                struct tr_cuda_share *shares, void **ptrs)
{
    struct tr_cuda_share share;
    memset(&share, 0, sizeof share);
    enum tr_status status = tr_comm_agree(comm, tr_cuda_share_describe(mine, &share));
    if (status == TR_OK)
        status = tr_comm_gather(comm, &share, shares, sizeof share);
    if (status != TR_OK)
        return status;
    int mapped = 0;
    status = tr_comm_agree(comm, map_peers(comm, mappings, mine, shares, ptrs, &mapped));
    if (status != TR_OK)
        unmap_first(comm, mappings, shares, mapped);
    return status;
}

void tr_cuda_withdraw(const struct tr_comm *comm, struct tr_cuda_mappings *mappings, const struct tr_cuda_share *shares)
{
    unmap_first(comm, mappings, shares, comm->size);
}

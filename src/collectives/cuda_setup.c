/*
 * cuda_setup.c - bringing up the CUDA executor: which GPU, how much mailbox memory, whom it can reach.
 *
 * GPU memory of a rank, 8 ranks: 26 MiB of mailboxes for the collectives, 5 MiB for the pairs of send and receive.
 */
#include "collectives/capacity.h"
#include "collectives/error.h"
#include "collectives/exec_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANNELS = 64, /* of every domain */
};

int tr_cuda_device_count(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return count;
}

/* ---- Layout ------------------------------------------------------------------------------------------------------ */

/* Lay out a domain of `ranks` ranks whose mailboxes, one half each, take half[protocol] bytes. */
static struct tr_cuda_layout lay_out(size_t ranks, const size_t half[TR_PROTOCOL_COUNT])
{
    struct tr_cuda_layout layout = {.channels = CHANNELS, .flags = (size_t)CHANNELS * TR_CUDA_LINE};
    size_t at = layout.flags + CHANNELS * ranks * TR_CUDA_LINE;
    for (int p = 0; p < TR_PROTOCOL_COUNT; p++) {
        layout.mailbox[p] = at;
        layout.half[p] = half[p];
        at += 2 * half[p];
    }
    layout.bytes = at;
    return layout;
}

static void choose_layouts(struct tr_cuda_exec *ex, int ranks)
{
    ex->collectives = lay_out((size_t)ranks, tr_cuda_collective_half);
    ex->pair = lay_out(2, tr_cuda_pair_half);
}

static size_t arena_bytes(const struct tr_cuda_exec *ex, int ranks)
{
    return ex->collectives.bytes + 2 * (size_t)ranks * ex->pair.bytes;
}

size_t tr_cuda_arena_bytes(int ranks)
{
    struct tr_cuda_exec ex = {0};
    choose_layouts(&ex, ranks);
    return arena_bytes(&ex, ranks);
}

char *tr_cuda_domain(const struct tr_comm *comm, const struct tr_domain *domain, int rank)
{
    const struct tr_cuda_exec *ex = comm->exec;
    if (domain->sender < 0)
        return ex->arenas[rank];
    size_t pair = rank == domain->receiver ? (size_t)domain->sender : (size_t)(comm->size + domain->receiver);
    return (char *)ex->arenas[rank] + ex->collectives.bytes + pair * ex->pair.bytes;
}

/* ---- The GPU ----------------------------------------------------------------------------------------------------- */

void tr_cuda_format_uuid(const cudaUUID_t *uuid, char text[static TR_CUDA_UUID_BYTES])
{
    const unsigned char *u = (const unsigned char *)uuid->bytes;
    snprintf(text, TR_CUDA_UUID_BYTES, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
             u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

static enum tr_status describe_device(struct tr_comm *comm, char *bus_id, int bus_id_bytes)
{
    struct tr_cuda_exec *ex = comm->exec;
    struct cudaDeviceProp properties;
    enum tr_status status = tr_cuda_status(cudaGetDeviceProperties(&properties, ex->device), "cudaGetDeviceProperties");
    if (status == TR_OK)
        status = tr_cuda_status(cudaDeviceGetPCIBusId(bus_id, bus_id_bytes, ex->device), "cudaDeviceGetPCIBusId");
    if (status != TR_OK)
        return status;
    if (properties.major < 8)
        return tr_error(TR_ERR_UNSUPPORTED, "GPU %d is a %s of compute capability %d.%d; 8.0 or later is needed",
                        ex->device, properties.name, properties.major, properties.minor);
    ex->multiprocessors = properties.multiProcessorCount;
    ex->overlaps_launches = properties.major >= 9;
    comm->info.device = ex->device;
    snprintf(comm->info.device_name, sizeof comm->info.device_name, "%.63s", properties.name);
    tr_cuda_format_uuid(&properties.uuid, comm->info.device_uuid);
    return TR_OK;
}

static enum tr_status choose_device(struct tr_comm *comm, char *bus_id, int bus_id_bytes)
{
    struct tr_cuda_exec *ex = comm->exec;
    int count = tr_cuda_device_count();
    ex->device = comm->config.device ? comm->config.device - 1 : comm->rank % count;
    if (ex->device >= count)
        return tr_error(TR_ERR_ARGUMENT,
                        "config.device asks for GPU %d, but this rank sees %d; check "
                        "CUDA_VISIBLE_DEVICES",
                        ex->device, count);
    enum tr_status status = tr_cuda_status(cudaSetDevice(ex->device), "cudaSetDevice");
    return status == TR_OK ? describe_device(comm, bus_id, bus_id_bytes) : status;
}

/* Count the ranks on this GPU. All ranks take the same number of channels, so the fullest GPU sets the limit: blocks that
 * wait for each other must be resident together, and a multiprocessor surely holds one. */
static enum tr_status count_sharers(struct tr_comm *comm)
{
    struct tr_cuda_exec *ex = comm->exec;
    size_t bytes = sizeof comm->info.device_uuid;
    char *uuids = malloc((size_t)comm->size * bytes);
    enum tr_status status = tr_comm_agree(comm, uuids ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for GPU names"));
    if (status == TR_OK)
        status = tr_comm_gather(comm, comm->info.device_uuid, uuids, bytes);
    int fullest = 1;
    for (int r = 0; status == TR_OK && r < comm->size; r++) {
        int same = 0;
        for (int q = 0; q < comm->size; q++)
            same += !memcmp(uuids + (size_t)r * bytes, uuids + (size_t)q * bytes, bytes);
        if (same > fullest)
            fullest = same;
        if (r == comm->rank)
            comm->info.ranks_on_device = same;
    }
    free(uuids);
    snprintf(comm->info.transport, sizeof comm->info.transport, "CUDA IPC, to %d ranks on this GPU and %d on others",
             comm->info.ranks_on_device - 1, comm->size - comm->info.ranks_on_device);
    ex->fullest = (uint32_t)fullest;
    ex->max_channels = (uint32_t)(ex->multiprocessors / fullest);
    if (ex->max_channels > CHANNELS)
        ex->max_channels = CHANNELS;
    if (ex->max_channels < 1)
        ex->max_channels = 1;
    return status;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Clear everything; every channel of every domain starts at the first epoch. */
static enum tr_status set_epochs(struct tr_comm *comm)
{
    struct tr_cuda_exec *ex = comm->exec;
    struct tr_cuda_state states[CHANNELS];
    for (int c = 0; c < CHANNELS; c++)
        states[c] = (struct tr_cuda_state){.epoch = comm->config.first_epoch};
    size_t pairs = 2 * (size_t)comm->size, width = sizeof *states;
    cudaError_t error = cudaMemset(ex->arena, 0, arena_bytes(ex, comm->size));
    for (size_t d = 0; d <= pairs && error == cudaSuccess; d++) {
        char *base = (char *)ex->arena + (d ? ex->collectives.bytes + (d - 1) * ex->pair.bytes : 0);
        error = cudaMemcpy2D(base, TR_CUDA_LINE, states, width, width, CHANNELS, cudaMemcpyHostToDevice);
    }
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    return tr_cuda_status(error, "clearing the mailboxes");
}

static enum tr_status allocate(struct tr_comm *comm)
{
    struct tr_cuda_exec *ex = comm->exec;
    ex->arenas = calloc((size_t)comm->size, sizeof *ex->arenas);
    ex->shares = calloc((size_t)comm->size, sizeof *ex->shares);
    if (!ex->arenas || !ex->shares)
        return tr_error(TR_ERR_MEMORY, "no memory for the tables of %d ranks", comm->size);
    enum tr_status status =
        tr_cuda_status(cudaMalloc(&ex->arena, arena_bytes(ex, comm->size)), "allocating mailboxes on the GPU");
    if (status == TR_OK)
        status = set_epochs(comm);
    if (status == TR_OK)
        status = tr_cuda_status(cudaHostAlloc((void **)&ex->report, sizeof *ex->report, cudaHostAllocMapped),
                                "allocating the error report");
    if (status != TR_OK)
        return status;
    memset(ex->report, 0, sizeof *ex->report);
    status = tr_cuda_status(cudaHostGetDevicePointer((void **)&ex->device_report, ex->report, 0),
                            "mapping the error report");
    if (status == TR_OK)
        status = tr_cuda_status(cudaStreamCreateWithFlags(&ex->side, cudaStreamNonBlocking), "cudaStreamCreate");
    if (status == TR_OK)
        status = tr_cuda_status(cudaEventCreateWithFlags(&ex->order, cudaEventDisableTiming), "cudaEventCreate");
    return status;
}

/* ---- A first word to every peer: a mapping may exist and yet lose what is written ---------------------------------- */

static uint64_t token(int from, int to)
{
    return 0x7472656572696e67u ^ ((uint64_t)from << 32 | (uint64_t)to);
}

/* Where rank `from` leaves its token at rank `to`: in the flags' place, which set_epochs() clears again. */
static char *token_place(const struct tr_comm *comm, int from, int to)
{
    const struct tr_cuda_exec *ex = comm->exec;
    return (char *)ex->arenas[to] + ex->collectives.flags + (size_t)from * TR_CUDA_LINE;
}

static enum tr_status write_tokens(struct tr_comm *comm)
{
    cudaError_t error = cudaSuccess;
    for (int r = 0; r < comm->size && error == cudaSuccess; r++) {
        uint64_t word = token(comm->rank, r);
        error = cudaMemcpy(token_place(comm, comm->rank, r), &word, sizeof word, cudaMemcpyHostToDevice);
    }
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    return tr_cuda_status(error, "writing to a peer's GPU memory");
}

static enum tr_status read_tokens(struct tr_comm *comm)
{
    for (int r = 0; r < comm->size; r++) {
        uint64_t word = 0;
        cudaError_t error = cudaMemcpy(&word, token_place(comm, r, comm->rank), sizeof word, cudaMemcpyDeviceToHost);
        if (error != cudaSuccess)
            return tr_cuda_status(error, "reading the first word of a peer");
        if (word != token(r, comm->rank))
            return tr_error(TR_ERR_CUDA,
                            "what rank %d wrote to this rank's GPU memory through CUDA IPC did not arrive; peer writes "
                            "are lost between these GPUs (IOMMU or ACS settings?), use host memory (-M host)",
                            r);
    }
    return TR_OK;
}

static enum tr_status greet_peers(struct tr_comm *comm)
{
    enum tr_status status = tr_comm_agree(comm, write_tokens(comm));
    if (status == TR_OK)
        status = tr_comm_agree(comm, read_tokens(comm));
    if (status == TR_OK)
        status = tr_comm_agree(comm, set_epochs(comm));
    return status;
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

enum tr_status tr_cuda_create(struct tr_comm *comm)
{
    if (comm->size > TR_CUDA_MAX_RANKS)
        return tr_error(TR_ERR_UNSUPPORTED, "%d ranks; GPU communicators have at most %d", comm->size,
                        TR_CUDA_MAX_RANKS);
    struct tr_cuda_exec *ex = calloc(1, sizeof *ex);
    enum tr_status status = tr_comm_agree(comm, ex ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for the executor"));
    comm->exec = ex;
    if (status != TR_OK)
        return status;
    choose_layouts(ex, comm->size);
    char bus_id[32] = "";
    status = tr_comm_agree(comm, choose_device(comm, bus_id, sizeof bus_id));
    if (status == TR_OK)
        status = tr_comm_agree(comm, tr_topology_bind(comm, bus_id));
    if (status == TR_OK)
        status = count_sharers(comm);
    if (status == TR_OK)
        status = tr_comm_agree(comm, allocate(comm));
    if (status == TR_OK)
        status = tr_cuda_exchange(comm, &ex->mappings, ex->arena, ex->shares, ex->arenas);
    if (status == TR_OK)
        status = greet_peers(comm);
    if (status == TR_OK) {
        comm->info.device_bytes = arena_bytes(ex, comm->size);
        comm->info.host_bytes = sizeof *comm + sizeof *ex + sizeof *ex->report +
                                (size_t)comm->size * (sizeof *ex->arenas + sizeof *ex->shares);
    }
    return status;
}

void tr_cuda_destroy(struct tr_comm *comm)
{
    struct tr_cuda_exec *ex = comm->exec;
    if (!ex)
        return;
    if (ex->arenas && ex->shares && ex->mappings.first)
        tr_cuda_withdraw(comm, &ex->mappings, ex->shares);
    if (ex->order)
        cudaEventDestroy(ex->order);
    if (ex->side)
        cudaStreamDestroy(ex->side);
    if (ex->report)
        cudaFreeHost(ex->report);
    if (ex->arena)
        cudaFree(ex->arena);
    free(ex->arenas);
    free(ex->shares);
    free(ex);
    comm->exec = NULL;
}

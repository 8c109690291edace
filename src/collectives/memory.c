/*
 * memory.c - registered memory: the list of what every rank can map, and its coming and going.
 *
 * Registering is collective and in the same order everywhere, so an entry's place in the list is the same on every rank.
 */
#include "collectives/comm.h"
#include "collectives/error.h"

#include <inttypes.h>
#include <stdlib.h>

struct tr_registration *tr_registration_find(const struct tr_comm *comm, const void *ptr, size_t bytes)
{
    uintptr_t start = (uintptr_t)ptr;
    for (struct tr_registration *r = comm->registrations; r; r = r->next) {
        uintptr_t offset = start - (uintptr_t)r->base; /* huge where ptr lies below */
        if (offset < r->bytes && bytes <= r->bytes - offset)
            return r;
    }
    return NULL;
}

int tr_registration_index(const struct tr_comm *comm, const struct tr_registration *registration)
{
    int index = 0;
    for (const struct tr_registration *r = comm->registrations; r; r = r->next, index++)
        if (r == registration)
            return index;
    return -1;
}

/* The first rank that passed something other than rank 0, in one sentence; the same verdict on every rank. */
static enum tr_status check_same_bytes(struct tr_comm *comm, const char *call, size_t bytes)
{
    uint64_t mine = bytes;
    uint64_t *all = malloc((size_t)comm->size * sizeof *all);
    enum tr_status status = all ? TR_OK : tr_error(TR_ERR_MEMORY, "%s: no memory to compare sizes", call);
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = tr_comm_gather(comm, &mine, all, sizeof mine);
    for (int r = 1; status == TR_OK && r < comm->size; r++)
        if (all[r] != all[0])
            status = tr_error(TR_ERR_MISMATCH,
                              "%s: rank 0 passed %" PRIu64 " bytes and rank %d passed %" PRIu64
                              "; pass the same on every rank",
                              call, all[0], r, all[r]);
    free(all);
    return status;
}

/* Make the entry, let the executor fill it with `make`, and add it only if every rank succeeded. */
static enum tr_status add(struct tr_comm *comm, const char *call, void *ptr, size_t bytes,
                          struct tr_registration **added)
{
    struct tr_registration *registration = calloc(1, sizeof *registration);
    enum tr_status status = registration ? TR_OK : tr_error(TR_ERR_MEMORY, "%s: no memory for a table entry", call);
    status = tr_comm_agree(comm, status);
    if (status != TR_OK) {
        free(registration);
        return status;
    }
    if (ptr)
        status = comm->executor->mem_register(comm, ptr, bytes, registration);
    else
        status = comm->executor->mem_alloc(comm, bytes, registration);
    enum tr_status agreed = tr_comm_agree(comm, status);
    if (agreed != TR_OK) {
        if (status == TR_OK)
            comm->executor->mem_release(comm, registration);
        free(registration);
        return agreed;
    }
    registration->owned = !ptr;
    registration->next = comm->registrations;
    comm->registrations = registration;
    *added = registration;
    return TR_OK;
}

enum tr_status tr_mem_alloc(struct tr_comm *comm, size_t bytes, void **ptr)
{
    if (!comm || !ptr)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_alloc: %s is NULL", comm ? "ptr" : "comm");
    enum tr_status status = TR_OK;
    if (!bytes || bytes > PTRDIFF_MAX)
        status = tr_error(TR_ERR_ARGUMENT, "tr_mem_alloc: bytes is %zu; valid: 1..%td", bytes, PTRDIFF_MAX);
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = check_same_bytes(comm, "tr_mem_alloc", bytes);
    struct tr_registration *registration;
    if (status == TR_OK)
        status = add(comm, "tr_mem_alloc", NULL, bytes, &registration);
    if (status == TR_OK)
        *ptr = registration->base;
    return status;
}

static enum tr_status check_register(const struct tr_comm *comm, const void *ptr, size_t bytes)
{
    if (!ptr)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_register: ptr is NULL");
    if (!bytes || bytes > PTRDIFF_MAX)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_register: bytes is %zu; valid: 1..%td", bytes, PTRDIFF_MAX);
    for (const struct tr_registration *r = comm->registrations; r; r = r->next)
        if ((uintptr_t)ptr < (uintptr_t)r->base + r->bytes && (uintptr_t)r->base < (uintptr_t)ptr + bytes)
            return tr_error(TR_ERR_ARGUMENT,
                            "tr_mem_register: [%p, +%zu) overlaps the registered [%p, +%zu); deregister that first",
                            ptr, bytes, r->base, r->bytes);
    return TR_OK;
}

enum tr_status tr_mem_register(struct tr_comm *comm, void *ptr, size_t bytes)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_register: comm is NULL");
    if (comm->memory == TR_MEMORY_HOST)
        return tr_error(TR_ERR_UNSUPPORTED,
                        "tr_mem_register: peers cannot map a process's private pages; allocate with "
                        "tr_mem_alloc, or pass the buffer as it is");
    enum tr_status status = tr_comm_agree(comm, check_register(comm, ptr, bytes));
    if (status == TR_OK)
        status = check_same_bytes(comm, "tr_mem_register", bytes);
    struct tr_registration *registration;
    if (status == TR_OK)
        status = add(comm, "tr_mem_register", ptr, bytes, &registration);
    return status;
}

/* The link that holds the entry with this base; it points to NULL when there is none. */
static struct tr_registration **find_link(struct tr_comm *comm, const void *base, bool owned)
{
    struct tr_registration **link = &comm->registrations;
    while (*link && ((*link)->base != base || (*link)->owned != owned))
        link = &(*link)->next;
    return link;
}

/* The agreement before the release is also the barrier: no peer is still in a call that uses the memory. */
static enum tr_status drop(struct tr_comm *comm, const char *call, const void *ptr, bool owned)
{
    struct tr_registration **link = find_link(comm, ptr, owned);
    struct tr_registration *registration = *link;
    enum tr_status status = TR_OK;
    if (!registration)
        status = tr_error(TR_ERR_ARGUMENT, "%s: %p was not given by %s on this communicator", call, ptr,
                          owned ? "tr_mem_alloc" : "tr_mem_register");
    status = tr_comm_agree(comm, status);
    if (status != TR_OK)
        return status;
    *link = registration->next;
    comm->executor->mem_release(comm, registration);
    free(registration);
    return TR_OK;
}

enum tr_status tr_mem_free(struct tr_comm *comm, void *ptr)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_free: comm is NULL");
    return ptr ? drop(comm, "tr_mem_free", ptr, true) : TR_OK;
}

enum tr_status tr_mem_deregister(struct tr_comm *comm, void *ptr)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_deregister: comm is NULL");
    return drop(comm, "tr_mem_deregister", ptr, false);
}

void tr_registrations_clear(struct tr_comm *comm)
{
    while (comm->registrations) {
        struct tr_registration *registration = comm->registrations;
        comm->registrations = registration->next;
        comm->executor->mem_release(comm, registration);
        free(registration);
    }
}

static enum tr_status check_nccl(const struct tr_comm *comm, const char *call)
{
    if (comm->nccl)
        return TR_OK;
    return tr_error(TR_ERR_UNSUPPORTED, "%s: NCCL is not up on this communicator: %s", call, comm->info.why_no_nccl);
}

enum tr_status tr_mem_alloc_nccl(struct tr_comm *comm, size_t bytes, void **ptr)
{
    if (!comm || !ptr)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_alloc_nccl: %s is NULL", comm ? "ptr" : "comm");
    enum tr_status status = check_nccl(comm, "tr_mem_alloc_nccl");
    if (status != TR_OK)
        return status;
    if (!bytes || bytes > PTRDIFF_MAX)
        status = tr_error(TR_ERR_ARGUMENT, "tr_mem_alloc_nccl: bytes is %zu; valid: 1..%td", bytes, PTRDIFF_MAX);
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = check_same_bytes(comm, "tr_mem_alloc_nccl", bytes);
    return status == TR_OK ? tr_nccl_mem_alloc(comm, bytes, ptr) : status;
}

enum tr_status tr_mem_free_nccl(struct tr_comm *comm, void *ptr)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "tr_mem_free_nccl: comm is NULL");
    if (!ptr)
        return TR_OK;
    enum tr_status status = check_nccl(comm, "tr_mem_free_nccl");
    return status == TR_OK ? tr_nccl_mem_free(comm, ptr) : status;
}

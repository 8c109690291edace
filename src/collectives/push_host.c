/*
 * push_host.c - copies into the private memory of other ranks, by process_vm_writev().
 *
 * A long message between unregistered buffers is copied once this way, by the kernel, and not twice through a mailbox
 * (MPI libraries call it cross-memory attach). The programs are those of registered buffers; OUT of another rank is
 * found through its header, where it wrote the address before it announced its entry.
 */
#include "collectives/error.h"
#include "collectives/exec_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

int tr_host_write(int pid, uintptr_t address, const void *data, size_t bytes)
{
    while (bytes > 0) {
        struct iovec local = {(void *)(uintptr_t)data, bytes}, remote = {(void *)address, bytes};
        ssize_t written = process_vm_writev(pid, &local, 1, &remote, 1, 0);
        if (written <= 0)
            return written < 0 ? errno : EFAULT;
        data = (const char *)data + written;
        address += (size_t)written;
        bytes -= (size_t)written;
    }
    return 0;
}

static enum tr_status push(const struct tr_host_run *run, int rank, uintptr_t address, const void *data, size_t bytes)
{
    struct tr_host *host = run->host;
    int error = tr_host_write(host->pids[rank], address, data, bytes);
    if (error == 0)
        return TR_OK;
    tr_host_abort(host, error == ESRCH ? TR_REASON_DIED : TR_REASON_FAILED, rank);
    return tr_error(
        error == ESRCH ? TR_ERR_PEER : TR_ERR_SYSTEM,
        "%s: writing %zu bytes to the receive buffer of rank %d (pid %d on %s) failed: %s; see whether it lives "
        "and its buffer is as large as the call says",
        tr_collective_name(run->call->collective), bytes, rank, host->pids[rank], host->comm->info.host,
        strerror(error));
}

enum tr_status tr_host_push_step(const struct tr_host_run *run, const struct tr_program_step *step, size_t j,
                                 size_t count)
{
    const struct tr_program_ref *ref = run->code->refs + step->ref;
    const char *src = tr_host_address(run, ref, j);
    size_t bytes = count * run->element;
    for (int k = 0; k < step->ndst; k++) {
        ref++;
        if (ref->rank == run->call->program->rank) {
            char *to = tr_host_address(run, ref, j);
            if (to != src)
                memcpy(to, src, bytes);
            continue;
        }
        const struct tr_host_header *header = run->host->areas.rank[ref->rank];
        uintptr_t out = atomic_load_explicit(&header->out[run->domain->calls % 2], memory_order_relaxed);
        enum tr_status status =
            push(run, ref->rank, out + (ref->index + j) * run->pitch[TR_OUT] + run->shift[TR_OUT], src, bytes);
        if (status != TR_OK)
            return status;
    }
    return TR_OK;
}

enum tr_status tr_host_push_probe(struct tr_host *host, uintptr_t next)
{
    const struct tr_comm *comm = host->comm;
    int works = tr_host_write(host->pids[(comm->rank + 1) % comm->size], next, &(uint64_t){1}, sizeof host->probe) == 0;
    int *all = calloc((size_t)comm->size, sizeof *all);
    enum tr_status status = tr_comm_agree(host->comm, all ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for a table"));
    if (status == TR_OK)
        status = tr_comm_gather(host->comm, &works, all, sizeof works);
    host->reaches_private = status == TR_OK;
    for (int r = 0; status == TR_OK && r < comm->size; r++)
        host->reaches_private = host->reaches_private && all[r];
    free(all);
    return status;
}

/* nccl_none.c - stands in for nccl.c in a build without NCCL: no communicator ever has it. */
#include "collectives/comm.h"
#include "collectives/error.h"

#include <stdio.h>

enum tr_status tr_nccl_create(struct tr_comm *comm)
{
    snprintf(comm->info.why_no_nccl, sizeof comm->info.why_no_nccl,
             "this build of Treering has no NCCL; configure it with --with-nccl=DIR");
    return TR_OK;
}

void tr_nccl_destroy(struct tr_comm *comm)
{
    comm->nccl = NULL;
}

static enum tr_status absent(void)
{
    return tr_error(TR_ERR_UNSUPPORTED, "this build of Treering has no NCCL; configure it with --with-nccl=DIR");
}

enum tr_status tr_nccl_run(struct tr_comm *comm, enum tr_collective collective, const void *in, void *out, size_t count,
                           enum tr_datatype datatype, enum tr_op op, int root, void *stream)
{
    (void)comm, (void)collective, (void)in, (void)out, (void)count, (void)datatype, (void)op, (void)root, (void)stream;
    return absent();
}

enum tr_status tr_nccl_mem_alloc(struct tr_comm *comm, size_t bytes, void **ptr)
{
    (void)comm, (void)bytes, (void)ptr;
    return absent();
}

enum tr_status tr_nccl_mem_free(struct tr_comm *comm, void *ptr)
{
    (void)comm, (void)ptr;
    return absent();
}

bool tr_nccl_is_window(const struct tr_comm *comm, const void *ptr, size_t bytes)
{
    (void)comm, (void)ptr, (void)bytes;
    return false;
}

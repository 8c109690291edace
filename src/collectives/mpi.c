/*
 * mpi.c - the collectives by MPI's own, on host memory: what ours are measured against.
 *
 * Counts past INT_MAX go in several calls. MPI waits as it sees fit: the communicator's timeout does not reach here.
 * MPI's min and max do not promise NaN for NaN, and its sums may depend on the rank.
 */
#include "collectives/comm.h"
#include "collectives/error.h"
#include "collectives/reduce_host.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct mpi_call {
    struct tr_comm *comm;
    const char *in;
    char *out;
    size_t count, element_bytes;
    enum tr_datatype datatype;
    MPI_Datatype type; /* MPI_DATATYPE_NULL: there is none */
    MPI_Op op;
    int root;
};

static enum tr_status result(const char *name, int code)
{
    if (code == MPI_SUCCESS)
        return TR_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return tr_error(TR_ERR_MPI, "%s failed: %.*s", name, length, text);
}

static MPI_Datatype mpi_type(enum tr_datatype datatype)
{
    switch (datatype) {
    case TR_F64:
        return MPI_DOUBLE;
    case TR_F32:
        return MPI_FLOAT;
    case TR_I64:
        return MPI_INT64_T;
    case TR_I32:
        return MPI_INT32_T;
    case TR_U8:
        return MPI_UINT8_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op mpi_op(enum tr_op op)
{
    switch (op) {
    case TR_PROD:
        return MPI_PROD;
    case TR_MIN:
        return MPI_MIN;
    case TR_MAX:
        return MPI_MAX;
    default:
        return MPI_SUM; /* an average divides afterwards */
    }
}

/* Turn sums into averages. */
static void divide(const struct mpi_call *c)
{
    const void *sums = c->out;
    struct tr_reduce_dst averages = {.address = c->out};
    tr_reduce_host(tr_reduce_kernel(c->datatype, TR_AVG), (unsigned)c->comm->size, &averages, 1, &sums, 1, c->count);
}

/* Elements of the part that starts at `done`; at most what an int counts. */
static int part(const struct mpi_call *c, size_t done)
{
    return c->count - done < INT_MAX ? (int)(c->count - done) : INT_MAX;
}

static enum tr_status allreduce(const struct mpi_call *c)
{
    int code = MPI_SUCCESS;
    for (size_t done = 0; done < c->count && code == MPI_SUCCESS; done += (size_t)part(c, done)) {
        size_t at = done * c->element_bytes;
        const void *in = c->in == c->out ? MPI_IN_PLACE : c->in + at;
        code = MPI_Allreduce(in, c->out + at, part(c, done), c->type, c->op, c->comm->mpi);
    }
    return result("MPI_Allreduce", code);
}

static enum tr_status reduce_to(const struct mpi_call *c, const char *in, char *out, int root)
{
    int code = MPI_SUCCESS;
    for (size_t done = 0; done < c->count && code == MPI_SUCCESS; done += (size_t)part(c, done)) {
        size_t at = done * c->element_bytes;
        bool receives = c->comm->rank == root;
        const void *from = receives && in == out ? MPI_IN_PLACE : in + at;
        code = MPI_Reduce(from, receives ? out + at : NULL, part(c, done), c->type, c->op, root, c->comm->mpi);
    }
    return result("MPI_Reduce", code);
}

static enum tr_status reduce(const struct mpi_call *c)
{
    return reduce_to(c, c->in, c->out, c->root);
}

/* MPI's in-place form would destroy the other segments of the input, ours must not: in place goes through a copy. */
static enum tr_status reduce_scatter_in_place(const struct mpi_call *c)
{
    size_t bytes = c->count * c->element_bytes;
    char *own = malloc(bytes);
    if (!own)
        return tr_error(TR_ERR_MEMORY, "no memory for an in-place MPI_Reduce_scatter_block of %zu bytes", bytes);
    int code = MPI_Reduce_scatter_block(c->in, own, (int)c->count, c->type, c->op, c->comm->mpi);
    if (code == MPI_SUCCESS)
        memcpy(c->out, own, bytes);
    free(own);
    return result("MPI_Reduce_scatter_block", code);
}

static enum tr_status reduce_scatter(const struct mpi_call *c)
{
    size_t bytes = c->count * c->element_bytes;
    if (c->count <= INT_MAX && c->out == c->in + (size_t)c->comm->rank * bytes)
        return reduce_scatter_in_place(c);
    if (c->count <= INT_MAX)
        return result("MPI_Reduce_scatter_block",
                      MPI_Reduce_scatter_block(c->in, c->out, (int)c->count, c->type, c->op, c->comm->mpi));
    enum tr_status status = TR_OK;
    for (int r = 0; r < c->comm->size && status == TR_OK; r++)
        status = reduce_to(c, c->in + (size_t)r * bytes, c->out, r);
    return status;
}

static enum tr_status broadcast_bytes(const struct mpi_call *c, char *buffer, size_t bytes, int root)
{
    int code = MPI_SUCCESS;
    for (size_t done = 0; done < bytes && code == MPI_SUCCESS;) {
        int length = bytes - done < INT_MAX ? (int)(bytes - done) : INT_MAX;
        code = MPI_Bcast(buffer + done, length, MPI_BYTE, root, c->comm->mpi);
        done += (size_t)length;
    }
    return result("MPI_Bcast", code);
}

static enum tr_status broadcast(const struct mpi_call *c)
{
    size_t bytes = c->count * c->element_bytes;
    if (c->comm->rank == c->root && c->in != c->out)
        memcpy(c->out, c->in, bytes);
    return broadcast_bytes(c, c->out, bytes, c->root);
}

/* Past what an int counts: every segment is a broadcast of its own. */
static enum tr_status allgather_long(const struct mpi_call *c, size_t bytes)
{
    char *own = c->out + (size_t)c->comm->rank * bytes;
    if (c->in != own)
        memcpy(own, c->in, bytes);
    enum tr_status status = TR_OK;
    for (int r = 0; r < c->comm->size && status == TR_OK; r++)
        status = broadcast_bytes(c, c->out + (size_t)r * bytes, bytes, r);
    return status;
}

static enum tr_status allgather(const struct mpi_call *c)
{
    size_t bytes = c->count * c->element_bytes;
    if (bytes > INT_MAX)
        return allgather_long(c, bytes);
    const void *in = c->in == c->out + (size_t)c->comm->rank * bytes ? MPI_IN_PLACE : c->in;
    return result("MPI_Allgather", MPI_Allgather(in, (int)bytes, MPI_BYTE, c->out, (int)bytes, MPI_BYTE, c->comm->mpi));
}

static const struct {
    enum tr_status (*run)(const struct mpi_call *c); /* NULL: not served */
    bool reduces;
} served[TR_COLLECTIVE_COUNT] = {
    [TR_ALLREDUCE] = {allreduce, true},  [TR_REDUCE_SCATTER] = {reduce_scatter, true},
    [TR_ALLGATHER] = {allgather, false}, [TR_BROADCAST] = {broadcast, false},
    [TR_REDUCE] = {reduce, true},
};

enum tr_status tr_mpi_run(struct tr_comm *comm, enum tr_collective collective, const void *in, void *out, size_t count,
                          enum tr_datatype datatype, enum tr_op op, int root)
{
    struct mpi_call c = {comm,       in,  out, count, tr_datatype_size(datatype), datatype, mpi_type(datatype),
                         mpi_op(op), root};
    if (!served[collective].run)
        return tr_error(TR_ERR_UNSUPPORTED, "algorithm mpi does not serve %s; use auto",
                        tr_collective_name(collective));
    if (served[collective].reduces && c.type == MPI_DATATYPE_NULL)
        return tr_error(TR_ERR_UNSUPPORTED, "MPI cannot reduce %s; use one of our algorithms",
                        tr_datatype_name(datatype));
    enum tr_status status = served[collective].run(&c);
    bool has_result = collective != TR_REDUCE || comm->rank == root;
    if (status == TR_OK && op == TR_AVG && served[collective].reduces && has_result)
        divide(&c);
    return status;
}

/*
 * compare.c - config.check_calls: whether all ranks make the same call.
 *
 * Ranks that call with different arguments end in a timeout or in wrong data, and neither says why; this does, at the
 * price of an MPI exchange a call.
 */
#include "collectives/comm.h"
#include "collectives/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum field {
    COLLECTIVE,
    COUNT,
    DATATYPE,
    OP,
    ROOT,
    ALGORITHM,
    PROTOCOL,
    CHANNELS,
    IN_REGISTRATION,
    IN_OFFSET,
    OUT_REGISTRATION,
    OUT_OFFSET,
    FIELDS
};

static const char *const field_names[FIELDS] = {
    [COLLECTIVE] = "collective",
    [COUNT] = "count",
    [DATATYPE] = "datatype",
    [OP] = "op",
    [ROOT] = "root",
    [ALGORITHM] = "tuning.algorithm",
    [PROTOCOL] = "tuning.protocol",
    [CHANNELS] = "tuning.channels",
    [IN_REGISTRATION] = "sendbuf's registration (-1: none)",
    [IN_OFFSET] = "sendbuf's offset in its registration",
    [OUT_REGISTRATION] = "recvbuf's registration (-1: none)",
    [OUT_OFFSET] = "recvbuf's offset in its registration",
};

struct record {
    int64_t field[FIELDS];
};

static struct record describe(const struct tr_comm *comm, const struct tr_call *call, size_t count, int root)
{
    return (struct record){.field = {
                               [COLLECTIVE] = call->collective,
                               [COUNT] = (int64_t)count,
                               [DATATYPE] = call->datatype,
                               [OP] = call->op,
                               [ROOT] = call->collective == TR_SENDRECV ? 0 : root,
                               [ALGORITHM] = comm->tuning.algorithm,
                               [PROTOCOL] = comm->tuning.protocol,
                               [CHANNELS] = comm->tuning.channels,
                               [IN_REGISTRATION] = tr_registration_index(comm, call->in_registration),
                               [IN_OFFSET] = (int64_t)call->in_offset,
                               [OUT_REGISTRATION] = tr_registration_index(comm, call->out_registration),
                               [OUT_OFFSET] = (int64_t)call->out_offset,
                           }};
}

/* The name of an enumeration's value, NULL for a field that is a number. */
static const char *value_name(enum field field, int64_t value)
{
    switch (field) {
    case COLLECTIVE:
        return tr_collective_name((enum tr_collective)value);
    case DATATYPE:
        return tr_datatype_name((enum tr_datatype)value);
    case OP:
        return tr_op_name((enum tr_op)value);
    case ALGORITHM:
        return tr_algorithm_name((enum tr_algorithm)value);
    case PROTOCOL:
        return tr_protocol_name((enum tr_protocol)value);
    default:
        return NULL;
    }
}

static const char *value_text(enum field field, int64_t value, char *text, size_t bytes)
{
    const char *name = value_name(field, value);
    if (name)
        return name;
    snprintf(text, bytes, "%" PRId64, value);
    return text;
}

static enum tr_status compare(int rank_a, const struct record *a, int rank_b, const struct record *b)
{
    char text_a[24], text_b[24];
    for (int f = 0; f < FIELDS; f++)
        if (a->field[f] != b->field[f])
            return tr_error(TR_ERR_MISMATCH, "the ranks' calls do not match: %s is %s on rank %d and %s on rank %d",
                            field_names[f], value_text((enum field)f, b->field[f], text_b, sizeof text_b), rank_b,
                            value_text((enum field)f, a->field[f], text_a, sizeof text_a), rank_a);
    return TR_OK;
}

static enum tr_status compare_all(struct tr_comm *comm, const struct record *mine)
{
    struct record *all = malloc((size_t)comm->size * sizeof *all);
    enum tr_status status = tr_comm_agree(comm, all ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory to compare calls"));
    if (status == TR_OK)
        status = tr_comm_gather(comm, mine, all, sizeof *mine);
    for (int r = 1; status == TR_OK && r < comm->size; r++)
        status = compare(0, &all[0], r, &all[r]);
    free(all);
    return status;
}

/* The sender's record goes with tag 1, the receiver's with tag 2, so that two opposite messages of a pair do not meet. The
 * records live until both requests are done; after a timeout they stay MPI's. */
static enum tr_status compare_pair(struct tr_comm *comm, const struct tr_call *call, const struct record *mine)
{
    bool sending = call->domain.sender == comm->rank;
    int peer = sending ? call->domain.receiver : call->domain.sender;
    struct record *pair = malloc(2 * sizeof *pair);
    if (!pair)
        return tr_error(TR_ERR_MEMORY, "no memory to compare calls");
    pair[0] = *mine;
    MPI_Request requests[2];
    int code = MPI_Isend(&pair[0], (int)sizeof *pair, MPI_BYTE, peer, sending ? 1 : 2, comm->mpi, &requests[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Irecv(&pair[1], (int)sizeof *pair, MPI_BYTE, peer, sending ? 2 : 1, comm->mpi, &requests[1]);
    if (code != MPI_SUCCESS)
        return tr_error(TR_ERR_MPI, "comparing the calls of ranks %d and %d failed", comm->rank, peer);
    enum tr_status status = tr_comm_wait(comm, 2, requests, "comparing the calls of a sender and a receiver");
    if (status != TR_OK)
        return status;
    bool first = comm->rank < peer; /* both sides give the same sentence */
    status = first ? compare(comm->rank, &pair[0], peer, &pair[1]) : compare(peer, &pair[1], comm->rank, &pair[0]);
    free(pair);
    return status;
}

enum tr_status tr_compare_call(struct tr_comm *comm, const struct tr_call *call, size_t count, int root)
{
    struct record mine = describe(comm, call, count, root);
    return call->collective == TR_SENDRECV ? compare_pair(comm, call, &mine) : compare_all(comm, &mine);
}

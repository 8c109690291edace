/*
 * select.c - which algorithm, protocol and number of channels a call runs with when it is not told.
 *
 * A fitted model of this machine decides (select_model.c), where there is one and it covers the call; else the table here,
 * made from measurements of a few machines. Its first row that fits wins. What the caller fixed narrows the rows; when no
 * row is left that agrees with the fixed algorithm, the row for that size decides protocol and channels alone. The last
 * row of each memory kind fits all.
 */
#include "collectives/comm.h"
#include "collectives/error.h"
#include "model/choice.h"

#define IN_SET(collective) (1u << (collective))
#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)

enum {
    ALLREDUCE = IN_SET(TR_ALLREDUCE),
    SCATTER_GATHER = IN_SET(TR_REDUCE_SCATTER) | IN_SET(TR_ALLGATHER),
    ROOTED = IN_SET(TR_BROADCAST) | IN_SET(TR_REDUCE),
    SENDRECV = IN_SET(TR_SENDRECV),
};
enum { STAGED = 1, REGISTERED = 2, EITHER = STAGED | REGISTERED };
#define ANY_RANKS 255
#define ANY_BYTES SIZE_MAX

struct row {
    enum tr_memory memory;
    unsigned collectives; /* set of IN_SET() */
    int max_ranks;
    unsigned buffers;
    size_t max_bytes; /* of the whole vector */
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    int channels;
};

#define HOST_ROW(collectives, ranks, buffers, bytes, algorithm, protocol)                                       \
    {                                                                                                           \
        TR_MEMORY_HOST, collectives, ranks, buffers, bytes, TR_ALGORITHM_##algorithm, TR_PROTOCOL_##protocol, 1 \
    }
#define CUDA_ROW(collectives, ranks, buffers, bytes, algorithm, protocol, channels)                                    \
    {                                                                                                                  \
        TR_MEMORY_CUDA, collectives, ranks, buffers, bytes, TR_ALGORITHM_##algorithm, TR_PROTOCOL_##protocol, channels \
    }

static const struct row rows[] = {
    HOST_ROW(ALLREDUCE, 2, EITHER, 512, ONESHOT, LL),
    HOST_ROW(ALLREDUCE, ANY_RANKS, EITHER, 256, ONESHOT, LL),
    HOST_ROW(ALLREDUCE, 2, REGISTERED, ANY_BYTES, TWOSHOT, DIRECT),
    HOST_ROW(ALLREDUCE, 2, STAGED, KIB(8), ONESHOT, DIRECT),
    HOST_ROW(ALLREDUCE, 2, STAGED, ANY_BYTES, RECURSIVE, DIRECT),
    HOST_ROW(ALLREDUCE, ANY_RANKS, EITHER, KIB(2), ONESHOT, DIRECT),
    HOST_ROW(ALLREDUCE, ANY_RANKS, REGISTERED, ANY_BYTES, TWOSHOT, DIRECT),
    HOST_ROW(ALLREDUCE, ANY_RANKS, STAGED, KIB(4), ONESHOT, DIRECT),
    HOST_ROW(ALLREDUCE, ANY_RANKS, STAGED, KIB(64), TWOSHOT, DIRECT),
    HOST_ROW(ALLREDUCE, ANY_RANKS, STAGED, KIB(512), RECURSIVE, DIRECT),
    HOST_ROW(ALLREDUCE, ANY_RANKS, STAGED, ANY_BYTES, RING, DIRECT),
    HOST_ROW(SCATTER_GATHER, 2, EITHER, KIB(1), ONESHOT, LL),
    HOST_ROW(SCATTER_GATHER, ANY_RANKS, STAGED, KIB(1), ONESHOT, LL),
    HOST_ROW(SCATTER_GATHER, ANY_RANKS, REGISTERED, KIB(2), ONESHOT, LL),
    HOST_ROW(SCATTER_GATHER, ANY_RANKS, REGISTERED, ANY_BYTES, ONESHOT, DIRECT),
    HOST_ROW(SCATTER_GATHER, ANY_RANKS, STAGED, KIB(64), ONESHOT, DIRECT),
    HOST_ROW(SCATTER_GATHER, ANY_RANKS, STAGED, ANY_BYTES, RECURSIVE, DIRECT),
    HOST_ROW(ROOTED, ANY_RANKS, EITHER, KIB(2), ONESHOT, LL),
    HOST_ROW(ROOTED, ANY_RANKS, EITHER, KIB(64), ONESHOT, DIRECT),
    HOST_ROW(ROOTED, ANY_RANKS, EITHER, ANY_BYTES, TWOSHOT, DIRECT),
    HOST_ROW(SENDRECV, ANY_RANKS, EITHER, KIB(2), ONESHOT, LL),
    HOST_ROW(SENDRECV, ANY_RANKS, EITHER, ANY_BYTES, ONESHOT, DIRECT),

    CUDA_ROW(ALLREDUCE, 8, EITHER, 512, ONESHOT, LL, 1),
    CUDA_ROW(ALLREDUCE, 8, EITHER, KIB(16), ONESHOT, LL, 8),
    CUDA_ROW(ALLREDUCE, 8, EITHER, KIB(64), ONESHOT, LL, 16),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, REGISTERED, MIB(2), TWOSHOT, DIRECT, 8),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, REGISTERED, MIB(16), TWOSHOT, DIRECT, 16),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, REGISTERED, ANY_BYTES, TWOSHOT, DIRECT, 32),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, STAGED, KIB(128), ONESHOT, DIRECT, 16),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, STAGED, KIB(256), TWOSHOT, LL, 8),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, STAGED, MIB(1), RECURSIVE, LL128, 16),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, STAGED, MIB(4), RECURSIVE, DIRECT, 32),
    CUDA_ROW(ALLREDUCE, ANY_RANKS, STAGED, ANY_BYTES, RING, DIRECT, 32),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, EITHER, KIB(4), ONESHOT, LL, 1),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, EITHER, KIB(64), ONESHOT, LL, 8),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, REGISTERED, MIB(2), ONESHOT, DIRECT, 8),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, REGISTERED, MIB(16), ONESHOT, DIRECT, 16),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, REGISTERED, ANY_BYTES, ONESHOT, DIRECT, 32),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, STAGED, MIB(1), ONESHOT, LL128, 16),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, STAGED, MIB(8), RECURSIVE, DIRECT, 32),
    CUDA_ROW(SCATTER_GATHER, ANY_RANKS, STAGED, ANY_BYTES, RING, DIRECT, 32),
    CUDA_ROW(ROOTED, ANY_RANKS, EITHER, KIB(16), ONESHOT, LL, 1),
    CUDA_ROW(ROOTED, ANY_RANKS, EITHER, KIB(256), ONESHOT, LL128, 8),
    CUDA_ROW(ROOTED, ANY_RANKS, EITHER, MIB(4), TWOSHOT, DIRECT, 16),
    CUDA_ROW(ROOTED, ANY_RANKS, EITHER, ANY_BYTES, TWOSHOT, DIRECT, 32),
    CUDA_ROW(SENDRECV, ANY_RANKS, EITHER, KIB(16), ONESHOT, LL, 1),
    CUDA_ROW(SENDRECV, ANY_RANKS, EITHER, MIB(1), ONESHOT, DIRECT, 8),
    CUDA_ROW(SENDRECV, ANY_RANKS, EITHER, ANY_BYTES, ONESHOT, DIRECT, 16),
};

/* The row for a call; `algorithm` and `protocol` narrow it unless they are AUTO. NULL: none. */
static const struct row *find_row(const struct tr_comm *comm, enum tr_collective collective, size_t bytes,
                                  bool registered, enum tr_algorithm algorithm, enum tr_protocol protocol)
{
    unsigned buffers = registered ? REGISTERED : STAGED;
    for (const struct row *row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        if (bytes <= row->max_bytes && (row->collectives & IN_SET(collective)) && row->memory == comm->memory &&
            comm->size <= row->max_ranks && (row->buffers & buffers) &&
            (algorithm == TR_ALGORITHM_AUTO || algorithm == row->algorithm) &&
            (protocol == TR_PROTOCOL_AUTO || protocol == row->protocol))
            return row;
    return NULL;
}

enum tr_status tr_select(const struct tr_comm *comm, enum tr_collective collective, size_t bytes, bool registered,
                         struct tr_tuning *tuning)
{
    if (comm->chooser && tr_chooser_pick(comm->chooser, collective, bytes, registered, tuning) && tuning->channels)
        return TR_OK;
    const struct row *row = find_row(comm, collective, bytes, registered, tuning->algorithm, tuning->protocol);
    if (!row)
        row = find_row(comm, collective, bytes, registered, TR_ALGORITHM_AUTO, tuning->protocol);
    if (!row)
        row = find_row(comm, collective, bytes, registered, TR_ALGORITHM_AUTO, TR_PROTOCOL_AUTO);
    if (!row)
        return tr_error(TR_ERR_UNSUPPORTED,
                        "no algorithm serves %s of %zu bytes on %d ranks; at most %d ranks are possible",
                        tr_collective_name(collective), bytes, comm->size, ANY_RANKS);
    if (tuning->algorithm == TR_ALGORITHM_AUTO)
        tuning->algorithm = row->algorithm;
    if (tuning->protocol == TR_PROTOCOL_AUTO)
        tuning->protocol = row->protocol;
    if (!tuning->channels)
        tuning->channels = row->channels;
    return TR_OK;
}

/* types.c - names and sizes of the public enumerations, and the names' inverse. */
#include "collectives/error.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const size_t datatype_sizes[TR_DATATYPE_COUNT] = {
    [TR_F64] = 8, [TR_F32] = 4, [TR_F16] = 2, [TR_BF16] = 2, [TR_I64] = 8, [TR_I32] = 4, [TR_U8] = 1,
};

static const char *const datatype_names[TR_DATATYPE_COUNT] = {
    [TR_F64] = "f64", [TR_F32] = "f32", [TR_F16] = "f16", [TR_BF16] = "bf16",
    [TR_I64] = "i64", [TR_I32] = "i32", [TR_U8] = "u8",
};

static const char *const op_names[TR_OP_COUNT] = {
    [TR_SUM] = "sum", [TR_PROD] = "prod", [TR_MIN] = "min", [TR_MAX] = "max", [TR_AVG] = "avg",
};

static const char *const collective_names[TR_COLLECTIVE_COUNT] = {
    [TR_ALLREDUCE] = "allreduce", [TR_REDUCE_SCATTER] = "reduce_scatter",
    [TR_ALLGATHER] = "allgather", [TR_BROADCAST] = "broadcast",
    [TR_REDUCE] = "reduce",       [TR_SENDRECV] = "sendrecv",
};

static const char *const algorithm_names[TR_ALGORITHM_COUNT] = {
    [TR_ALGORITHM_AUTO] = "auto",           [TR_ALGORITHM_RING] = "ring",
    [TR_ALGORITHM_TREE] = "tree",           [TR_ALGORITHM_DTREE] = "dtree",
    [TR_ALGORITHM_ONESHOT] = "oneshot",     [TR_ALGORITHM_TWOSHOT] = "twoshot",
    [TR_ALGORITHM_RECURSIVE] = "recursive", [TR_ALGORITHM_NCCL] = "nccl",
    [TR_ALGORITHM_NCCL_SYM] = "nccl-sym",   [TR_ALGORITHM_MPI] = "mpi",
};

static const char *const protocol_names[TR_PROTOCOL_COUNT] = {
    [TR_PROTOCOL_AUTO] = "auto",
    [TR_PROTOCOL_LL] = "LL",
    [TR_PROTOCOL_LL128] = "LL128",
    [TR_PROTOCOL_DIRECT] = "direct",
};

static const char *const memory_names[TR_MEMORY_COUNT] = {
    [TR_MEMORY_AUTO] = "auto",
    [TR_MEMORY_HOST] = "host",
    [TR_MEMORY_CUDA] = "cuda",
};

size_t tr_datatype_size(enum tr_datatype datatype)
{
    return (unsigned)datatype < TR_DATATYPE_COUNT ? datatype_sizes[datatype] : 0;
}

static const char *name_of(const char *const *names, unsigned count, unsigned value)
{
    return value < count ? names[value] : "?";
}

const char *tr_datatype_name(enum tr_datatype datatype)
{
    return name_of(datatype_names, TR_DATATYPE_COUNT, datatype);
}

const char *tr_op_name(enum tr_op op)
{
    return name_of(op_names, TR_OP_COUNT, op);
}

const char *tr_collective_name(enum tr_collective collective)
{
    return name_of(collective_names, TR_COLLECTIVE_COUNT, collective);
}

const char *tr_algorithm_name(enum tr_algorithm algorithm)
{
    return name_of(algorithm_names, TR_ALGORITHM_COUNT, algorithm);
}

const char *tr_protocol_name(enum tr_protocol protocol)
{
    return name_of(protocol_names, TR_PROTOCOL_COUNT, protocol);
}

const char *tr_memory_name(enum tr_memory memory)
{
    return name_of(memory_names, TR_MEMORY_COUNT, memory);
}

/* The place of `name` in `names` (upper or lower case alike); an error that lists them all when it is none of them. */
static enum tr_status parse(const char *kind, const char *name, const char *const *names, unsigned count,
                            unsigned *value)
{
    for (unsigned i = 0; name && i < count; i++)
        if (!strcasecmp(name, names[i])) {
            *value = i;
            return TR_OK;
        }
    char list[160] = "";
    size_t used = 0;
    for (unsigned i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    return tr_error(TR_ERR_ARGUMENT, "\"%s\" is no %s; valid names: %s", name ? name : "(null)", kind, list);
}

enum tr_status tr_datatype_parse(const char *name, enum tr_datatype *datatype)
{
    unsigned value = 0;
    enum tr_status status = parse("datatype", name, datatype_names, TR_DATATYPE_COUNT, &value);
    if (status == TR_OK)
        *datatype = (enum tr_datatype)value;
    return status;
}

enum tr_status tr_op_parse(const char *name, enum tr_op *op)
{
    unsigned value = 0;
    enum tr_status status = parse("reduction", name, op_names, TR_OP_COUNT, &value);
    if (status == TR_OK)
        *op = (enum tr_op)value;
    return status;
}

enum tr_status tr_algorithm_parse(const char *name, enum tr_algorithm *algorithm)
{
    unsigned value = 0;
    enum tr_status status = parse("algorithm", name, algorithm_names, TR_ALGORITHM_COUNT, &value);
    if (status == TR_OK)
        *algorithm = (enum tr_algorithm)value;
    return status;
}

enum tr_status tr_protocol_parse(const char *name, enum tr_protocol *protocol)
{
    unsigned value = 0;
    enum tr_status status = parse("protocol", name, protocol_names, TR_PROTOCOL_COUNT, &value);
    if (status == TR_OK)
        *protocol = (enum tr_protocol)value;
    return status;
}

enum tr_status tr_memory_parse(const char *name, enum tr_memory *memory)
{
    unsigned value = 0;
    enum tr_status status = parse("memory kind", name, memory_names, TR_MEMORY_COUNT, &value);
    if (status == TR_OK)
        *memory = (enum tr_memory)value;
    return status;
}

/*
 * collectives.c - the calls: check the arguments, find the program, cut the vector, hand over to the executor.
 *
 * An 8-byte all-reduce of two CPU ranks takes 0.2 us, so on this path there is no allocation, no MPI, no text and no
 * system call, unless something is wrong or config.check_calls asks for it.
 */
#include "collectives/comm.h"
#include "collectives/error.h"

#include <stdint.h>
#include <stdio.h>

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static bool reads_in(const struct tr_comm *comm, const struct tr_call *call, int root)
{
    if (call->collective == TR_SENDRECV)
        return call->domain.sender == comm->rank;
    return call->collective != TR_BROADCAST || comm->rank == root;
}

static bool writes_out(const struct tr_comm *comm, const struct tr_call *call, int root)
{
    if (call->collective == TR_SENDRECV)
        return call->domain.receiver == comm->rank;
    return call->collective != TR_REDUCE || comm->rank == root;
}

static const char *call_name(const struct tr_comm *comm, const struct tr_call *call)
{
    static const char *const names[TR_COLLECTIVE_COUNT] = {
        [TR_ALLREDUCE] = "tr_allreduce", [TR_REDUCE_SCATTER] = "tr_reduce_scatter",
        [TR_ALLGATHER] = "tr_allgather", [TR_BROADCAST] = "tr_broadcast",
        [TR_REDUCE] = "tr_reduce",       [TR_SENDRECV] = "tr_recv",
    };
    return call->collective == TR_SENDRECV && call->domain.sender == comm->rank ? "tr_send" : names[call->collective];
}

static enum tr_status check_peer(const struct tr_comm *comm, const struct tr_call *call, int peer)
{
    if (peer >= 0 && peer < comm->size && peer != comm->rank)
        return TR_OK;
    return tr_error(TR_ERR_ARGUMENT, "%s: peer is %d; valid: 0..%d but not the rank itself (%d)", call_name(comm, call),
                    peer, comm->size - 1, comm->rank);
}

/* `root` is the peer in a send or receive. */
static enum tr_status check_scalars(const struct tr_comm *comm, const struct tr_call *call, int root)
{
    if ((unsigned)call->datatype >= TR_DATATYPE_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "%s: datatype is %d; valid: 0..%d", call_name(comm, call), (int)call->datatype,
                        TR_DATATYPE_COUNT - 1);
    if ((unsigned)call->op >= TR_OP_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "%s: op is %d; valid: 0..%d", call_name(comm, call), (int)call->op,
                        TR_OP_COUNT - 1);
    if (call->collective == TR_SENDRECV)
        return check_peer(comm, call, root);
    if (root < 0 || root >= comm->size)
        return tr_error(TR_ERR_ARGUMENT, "%s: root is %d; valid: 0..%d", call_name(comm, call), root, comm->size - 1);
    return TR_OK;
}

static enum tr_status check_stream(const struct tr_comm *comm, const struct tr_call *call)
{
    if (!call->stream || comm->memory == TR_MEMORY_CUDA)
        return TR_OK;
    return tr_error(TR_ERR_ARGUMENT, "%s: stream is %p; on a host communicator it must be NULL", call_name(comm, call),
                    call->stream);
}

/* Bytes of a rank's send and receive buffer. */
struct extent {
    size_t segment; /* count elements */
    size_t in, out;
};

static enum tr_status measure(const struct tr_comm *comm, const struct tr_call *call, size_t count, struct extent *e)
{
    size_t element = tr_datatype_size(call->datatype), n = (size_t)comm->size;
    bool per_rank = call->collective == TR_REDUCE_SCATTER || call->collective == TR_ALLGATHER;
    size_t whole;
    if (__builtin_mul_overflow(count, per_rank ? element * n : element, &whole) || whole > PTRDIFF_MAX)
        return tr_error(TR_ERR_ARGUMENT, "%s: count is %zu; valid: 0..%zu (elements of %zu bytes%s)",
                        call_name(comm, call), count, (size_t)PTRDIFF_MAX / (per_rank ? element * n : element), element,
                        per_rank ? ", from or for every rank" : "");
    e->segment = count * element;
    e->in = call->collective == TR_ALLGATHER ? e->segment : whole;
    e->out = call->collective == TR_REDUCE_SCATTER ? e->segment : whole;
    return TR_OK;
}

static bool is_in_place(const struct tr_comm *comm, const struct tr_call *call, const struct extent *e)
{
    const char *in = call->in, *out = call->out;
    size_t own = (size_t)comm->rank * e->segment;
    if (call->collective == TR_REDUCE_SCATTER)
        return out == in + own;
    if (call->collective == TR_ALLGATHER)
        return in == out + own;
    return in == out;
}

static enum tr_status check_overlap(const struct tr_comm *comm, const struct tr_call *call, const struct extent *e)
{
    uintptr_t in = (uintptr_t)call->in, out = (uintptr_t)call->out;
    if (in >= out + e->out || out >= in + e->in || is_in_place(comm, call, e))
        return TR_OK;
    return tr_error(
        TR_ERR_ARGUMENT,
        "%s: sendbuf [%p, +%zu) and recvbuf [%p, +%zu) overlap but are not in place; keep them apart, or see "
        "the call's in-place rule in treering.h",
        call_name(comm, call), call->in, e->in, call->out, e->out);
}

static enum tr_status check_buffers(const struct tr_comm *comm, const struct tr_call *call, int root,
                                    const struct extent *e)
{
    bool reads = reads_in(comm, call, root), writes = writes_out(comm, call, root);
    if (reads && !call->in)
        return tr_error(TR_ERR_ARGUMENT, "%s: sendbuf is NULL; this rank sends %zu bytes", call_name(comm, call),
                        e->in);
    if (writes && !call->out)
        return tr_error(TR_ERR_ARGUMENT, "%s: recvbuf is NULL; this rank receives %zu bytes", call_name(comm, call),
                        e->out);
    return reads && writes ? check_overlap(comm, call, e) : TR_OK;
}

static enum tr_status check_arguments(const struct tr_comm *comm, const struct tr_call *call, size_t count, int root,
                                      struct extent *e)
{
    enum tr_status status = check_scalars(comm, call, root);
    if (status == TR_OK)
        status = check_stream(comm, call);
    if (status == TR_OK)
        status = measure(comm, call, count, e);
    if (status == TR_OK && count > 0)
        status = check_buffers(comm, call, root, e);
    return status;
}

/* ---- The program of a call --------------------------------------------------------------------------------------- */

static size_t vector_bytes(const struct tr_shape *shape)
{
    size_t segment = shape->count * shape->element_bytes;
    return tr_collective_in_is_one_chunk(shape->collective) || tr_collective_out_is_one_chunk(shape->collective)
               ? segment * (size_t)shape->nranks
               : segment;
}

static bool is_foreign(enum tr_algorithm algorithm)
{
    return algorithm == TR_ALGORITHM_NCCL || algorithm == TR_ALGORITHM_NCCL_SYM || algorithm == TR_ALGORITHM_MPI;
}

static enum tr_status not_served(const struct tr_shape *shape)
{
    char list[160] = "";
    size_t used = 0;
    for (int a = 0; a < TR_ALGORITHM_COUNT && used < sizeof list; a++)
        if (tr_schedule_exists(shape->collective, (enum tr_algorithm)a))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     tr_algorithm_name((enum tr_algorithm)a));
    return tr_error(TR_ERR_UNSUPPORTED, "algorithm %s does not serve %s; these do: %s",
                    tr_algorithm_name(shape->tuning.algorithm), tr_collective_name(shape->collective), list);
}

static enum tr_status no_protocol(const struct tr_comm *comm, const struct tr_shape *shape)
{
    return tr_error(TR_ERR_UNSUPPORTED, "protocol %s is not available for %s with %s on %s memory; use direct or auto",
                    tr_protocol_name(shape->tuning.protocol), tr_collective_name(shape->collective),
                    tr_algorithm_name(shape->tuning.algorithm), tr_memory_name(comm->memory));
}

static size_t slot_capacity(const struct tr_comm *comm, const struct tr_shape *shape, const struct tr_program *program)
{
    size_t slots = (size_t)program->nslots * program->depth;
    return comm->executor->slot_capacity(comm, shape->tuning.protocol, &shape->domain, (uint32_t)shape->tuning.channels,
                                         slots ? slots : 1);
}

static int root_of(const struct tr_shape *shape)
{
    return shape->collective == TR_SENDRECV ? 0 : shape->root;
}

static bool reaches_private(const struct tr_comm *comm, const struct tr_shape *shape)
{
    return comm->executor->reaches_private &&
           comm->executor->reaches_private(comm, shape->collective, vector_bytes(shape));
}

static enum tr_status prepare_direct(struct tr_comm *comm, struct tr_shape *shape)
{
    struct tr_schedule_spec spec = {.collective = shape->collective,
                                    .algorithm = shape->tuning.algorithm,
                                    .nranks = shape->nranks,
                                    .root = root_of(shape),
                                    .remote = shape->registered || reaches_private(comm, shape)};
    enum tr_status status = tr_cache_get(comm, &spec, TR_PROTOCOL_DIRECT, shape->rank, &shape->cached);
    if (status != TR_OK)
        return status;
    const struct tr_program *program = shape->cached->program;
    size_t capacity = program->nslots ? slot_capacity(comm, shape, program) : 0;
    if (program->nslots && !capacity)
        return no_protocol(comm, shape);
    shape->geometry = tr_geometry_cut(shape->collective, shape->nranks, shape->count, shape->element_bytes, program,
                                      (uint32_t)shape->tuning.channels, capacity);
    return TR_OK;
}

static enum tr_status too_long_for_ll(const struct tr_shape *shape, size_t capacity)
{
    size_t chunks = shape->cached->program->nchunks;
    return tr_error(
        TR_ERR_UNSUPPORTED,
        "protocol %s carries at most %zu bytes of %s with %s on %d ranks and %d channels, this call has %zu; "
        "use direct or auto",
        tr_protocol_name(shape->tuning.protocol), capacity * chunks * (size_t)shape->tuning.channels,
        tr_collective_name(shape->collective), tr_algorithm_name(shape->tuning.algorithm), shape->nranks,
        shape->tuning.channels, vector_bytes(shape));
}

/* A slot for every message, in mailboxes alone, and the vector in one piece. Sets `fits`; it is an error not to fit only
 * if the caller insists on the protocol. */
static enum tr_status prepare_ll(struct tr_comm *comm, struct tr_shape *shape, bool insist, bool *fits)
{
    struct tr_schedule_spec spec = {.collective = shape->collective,
                                    .algorithm = shape->tuning.algorithm,
                                    .nranks = shape->nranks,
                                    .root = root_of(shape),
                                    .unique = true};
    enum tr_status status = tr_cache_get(comm, &spec, TR_PROTOCOL_LL, shape->rank, &shape->cached);
    if (status != TR_OK)
        return status;
    const struct tr_program *program = shape->cached->program;
    size_t capacity = slot_capacity(comm, shape, program);
    shape->geometry = tr_geometry_whole(shape->collective, shape->nranks, shape->count, shape->element_bytes, program,
                                        (uint32_t)shape->tuning.channels);
    size_t longest = shape->geometry.tile < shape->geometry.stride ? shape->geometry.tile : shape->geometry.stride;
    *fits = capacity && (!program->nslots || longest * shape->element_bytes <= capacity);
    if (*fits || !insist)
        return TR_OK;
    return capacity ? too_long_for_ll(shape, capacity) : no_protocol(comm, shape);
}

static enum tr_status choose(struct tr_comm *comm, struct tr_shape *shape)
{
    enum tr_status status = tr_select(comm, shape->collective, vector_bytes(shape), shape->registered, &shape->tuning);
    int most = (int)comm->executor->max_channels(comm);
    if (status == TR_OK && shape->tuning.channels > most)
        shape->tuning.channels = most;
    return status;
}

/* Resolve AUTO, find the program, cut the vector. An LL protocol that was not asked for gives way to DIRECT. */
static enum tr_status prepare(struct tr_comm *comm, struct tr_shape *shape)
{
    shape->tuning = comm->tuning;
    enum tr_status status = choose(comm, shape);
    if (status != TR_OK || is_foreign(shape->tuning.algorithm))
        return status;
    if (!tr_schedule_exists(shape->collective, shape->tuning.algorithm))
        return not_served(shape);
    if (shape->tuning.protocol == TR_PROTOCOL_DIRECT)
        return prepare_direct(comm, shape);

    bool fits = false;
    status = prepare_ll(comm, shape, comm->tuning.protocol != TR_PROTOCOL_AUTO, &fits);
    if (status != TR_OK || fits)
        return status;
    shape->tuning.protocol = TR_PROTOCOL_DIRECT;
    shape->tuning.channels = comm->tuning.channels;
    status = choose(comm, shape);
    return status == TR_OK ? prepare_direct(comm, shape) : status;
}

enum tr_status tr_comm_resolve(struct tr_comm *comm, enum tr_collective collective, size_t count,
                               enum tr_datatype datatype, enum tr_op op, int registered, struct tr_tuning *resolved)
{
    if (!comm || !resolved)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_resolve: %s is NULL", comm ? "resolved" : "comm");
    if ((unsigned)collective >= TR_COLLECTIVE_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "tr_comm_resolve: collective is %d; valid: 0..%d", (int)collective,
                        TR_COLLECTIVE_COUNT - 1);
    struct tr_call call = {.collective = collective, .datatype = datatype, .op = op, .domain = {-1, -1}};
    struct tr_shape shape = {.collective = collective,
                             .count = count,
                             .rank = comm->rank,
                             .nranks = comm->size,
                             .registered = registered != 0};
    int peer = (comm->rank + 1) % comm->size;
    if (collective == TR_SENDRECV) {
        call.domain = (struct tr_domain){comm->rank, peer};
        shape.rank = 0;
        shape.nranks = 2;
    }
    shape.domain = call.domain;
    struct extent extent;
    enum tr_status status = check_scalars(comm, &call, collective == TR_SENDRECV ? peer : 0);
    if (status == TR_OK)
        status = measure(comm, &call, count, &extent);
    shape.element_bytes = tr_datatype_size(datatype);
    if (status == TR_OK)
        status = prepare(comm, &shape);
    if (status == TR_OK)
        *resolved = shape.tuning;
    return status;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* Find the registrations of the buffers that hold the whole vector (comm.h, struct tr_call). */
static void find_registrations(const struct tr_comm *comm, struct tr_call *call, const struct extent *e)
{
    bool need_in = tr_collective_shares(call->collective, TR_IN);
    bool need_out = tr_collective_shares(call->collective, TR_OUT);
    const struct tr_registration *in = need_in ? tr_registration_find(comm, call->in, e->in) : NULL;
    const struct tr_registration *out = need_out ? tr_registration_find(comm, call->out, e->out) : NULL;
    if (need_in != !!in || need_out != !!out)
        return;
    call->in_registration = in;
    call->out_registration = out;
    if (in)
        call->in_offset = (size_t)((const char *)call->in - (const char *)in->base);
    if (out)
        call->out_offset = (size_t)((const char *)call->out - (const char *)out->base);
}

static enum tr_status run_nccl(struct tr_comm *comm, const struct tr_call *call, size_t count, int root,
                               const struct extent *e, bool symmetric)
{
    if (!comm->nccl)
        return tr_error(TR_ERR_UNSUPPORTED, "%s: NCCL is not up on this communicator: %s", call_name(comm, call),
                        comm->info.why_no_nccl);
    if (symmetric && !((!reads_in(comm, call, root) || tr_nccl_is_window(comm, call->in, e->in)) &&
                       (!writes_out(comm, call, root) || tr_nccl_is_window(comm, call->out, e->out))))
        return tr_error(TR_ERR_UNSUPPORTED, "%s: algorithm nccl-sym needs buffers from tr_mem_alloc_nccl",
                        call_name(comm, call));
    return tr_nccl_run(comm, call->collective, call->in, call->out, count, call->datatype, call->op, root,
                       call->stream);
}

static enum tr_status run_foreign(struct tr_comm *comm, const struct tr_call *call, size_t count, int root,
                                  const struct extent *e, enum tr_algorithm algorithm)
{
    if (algorithm != TR_ALGORITHM_MPI)
        return run_nccl(comm, call, count, root, e, algorithm == TR_ALGORITHM_NCCL_SYM);
    if (comm->memory != TR_MEMORY_HOST)
        return tr_error(TR_ERR_UNSUPPORTED, "%s: algorithm mpi serves host memory only", call_name(comm, call));
    return tr_mpi_run(comm, call->collective, call->in, call->out, count, call->datatype, call->op, root);
}

static enum tr_status run_program(struct tr_comm *comm, struct tr_call *call, const struct tr_shape *shape, int root)
{
    call->protocol = shape->tuning.protocol;
    call->geometry = shape->geometry;
    call->cached = shape->cached;
    call->program = shape->cached->program;
    if (!call->program->remote) {
        call->in_registration = call->out_registration = NULL;
        call->in_offset = call->out_offset = 0;
    }
    if (!reads_in(comm, call, root) && !call->in_registration)
        call->in = NULL;
    if (!writes_out(comm, call, root) && !call->out_registration)
        call->out = NULL;
    enum tr_status status = comm->executor->run(comm, call);
    if (status == TR_ERR_TIMEOUT || status == TR_ERR_ABORTED)
        tr_comm_break(comm, status);
    return status;
}

/* The shape of a call; that of the last call of the collective if it was the same, so that repeating a call decides nothing
 * again. */
static enum tr_status find_shape(struct tr_comm *comm, const struct tr_call *call, size_t count, int root,
                                 const struct tr_shape **found)
{
    struct tr_shape *recent = &comm->recent[call->collective];
    bool registered = call->in_registration || call->out_registration;
    size_t element = tr_datatype_size(call->datatype);
    *found = recent;
    if (recent->nranks && recent->count == count && recent->element_bytes == element && recent->root == root &&
        recent->registered == registered && recent->domain.sender == call->domain.sender &&
        recent->domain.receiver == call->domain.receiver)
        return TR_OK;
    bool pair = call->collective == TR_SENDRECV;
    struct tr_shape shape = {.collective = call->collective,
                             .count = count,
                             .element_bytes = element,
                             .root = root,
                             .rank = pair ? call->domain.receiver == comm->rank : comm->rank,
                             .nranks = pair ? 2 : comm->size,
                             .registered = registered,
                             .domain = call->domain};
    enum tr_status status = prepare(comm, &shape);
    if (status == TR_OK)
        *recent = shape;
    return status;
}

static enum tr_status run_checked(struct tr_comm *comm, struct tr_call *call, size_t count, int root,
                                  const struct extent *e)
{
    if (comm->size == 1 && call->in == call->out && !is_foreign(comm->tuning.algorithm))
        return TR_OK; /* every operation over one rank is the identity */
    const struct tr_shape *shape;
    enum tr_status status = find_shape(comm, call, count, root, &shape);
    if (status != TR_OK)
        return status;
    if (is_foreign(shape->tuning.algorithm))
        return run_foreign(comm, call, count, root, e, shape->tuning.algorithm);
    return run_program(comm, call, shape, root);
}

/* The way of every call. `root` is the root, the peer of a send or receive, else 0. */
static enum tr_status run(struct tr_comm *comm, struct tr_call *call, size_t count, int root)
{
    if (!comm)
        return tr_error(TR_ERR_ARGUMENT, "%s: comm is NULL", tr_collective_name(call->collective));
    if (__atomic_load_n(&comm->broken, __ATOMIC_RELAXED) != TR_OK)
        return tr_comm_async_error(comm);
    struct extent extent = {0};
    enum tr_status status = check_arguments(comm, call, count, root, &extent);
    if (status == TR_OK && count > 0 && comm->registrations)
        find_registrations(comm, call, &extent);
    if (comm->config.check_calls) {
        if (call->collective != TR_SENDRECV)
            status = tr_comm_agree(comm, status);
        if (status == TR_OK)
            status = tr_compare_call(comm, call, count, root);
    }
    if (status != TR_OK || count == 0)
        return status;
    return run_checked(comm, call, count, root, &extent);
}

static const struct tr_domain everybody = {-1, -1};

enum tr_status tr_allreduce(const void *sendbuf, void *recvbuf, size_t count, enum tr_datatype datatype, enum tr_op op,
                            struct tr_comm *comm, void *stream)
{
    struct tr_call call = {.collective = TR_ALLREDUCE,
                           .datatype = datatype,
                           .op = op,
                           .in = sendbuf,
                           .out = recvbuf,
                           .domain = everybody,
                           .stream = stream};
    return run(comm, &call, count, 0);
}

enum tr_status tr_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, enum tr_datatype datatype,
                                 enum tr_op op, struct tr_comm *comm, void *stream)
{
    struct tr_call call = {.collective = TR_REDUCE_SCATTER,
                           .datatype = datatype,
                           .op = op,
                           .in = sendbuf,
                           .out = recvbuf,
                           .domain = everybody,
                           .stream = stream};
    return run(comm, &call, recvcount, 0);
}

enum tr_status tr_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, enum tr_datatype datatype,
                            struct tr_comm *comm, void *stream)
{
    struct tr_call call = {.collective = TR_ALLGATHER,
                           .datatype = datatype,
                           .in = sendbuf,
                           .out = recvbuf,
                           .domain = everybody,
                           .stream = stream};
    return run(comm, &call, sendcount, 0);
}

enum tr_status tr_broadcast(const void *sendbuf, void *recvbuf, size_t count, enum tr_datatype datatype, int root,
                            struct tr_comm *comm, void *stream)
{
    struct tr_call call = {.collective = TR_BROADCAST,
                           .datatype = datatype,
                           .in = sendbuf,
                           .out = recvbuf,
                           .domain = everybody,
                           .stream = stream};
    return run(comm, &call, count, root);
}

enum tr_status tr_reduce(const void *sendbuf, void *recvbuf, size_t count, enum tr_datatype datatype, enum tr_op op,
                         int root, struct tr_comm *comm, void *stream)
{
    struct tr_call call = {.collective = TR_REDUCE,
                           .datatype = datatype,
                           .op = op,
                           .in = sendbuf,
                           .out = recvbuf,
                           .domain = everybody,
                           .stream = stream};
    return run(comm, &call, count, root);
}

enum tr_status tr_send(const void *sendbuf, size_t count, enum tr_datatype datatype, int peer, struct tr_comm *comm,
                       void *stream)
{
    struct tr_call call = {.collective = TR_SENDRECV,
                           .datatype = datatype,
                           .in = sendbuf,
                           .stream = stream,
                           .domain = {comm ? comm->rank : -1, peer}};
    return run(comm, &call, count, peer);
}

enum tr_status tr_recv(void *recvbuf, size_t count, enum tr_datatype datatype, int peer, struct tr_comm *comm,
                       void *stream)
{
    struct tr_call call = {.collective = TR_SENDRECV,
                           .datatype = datatype,
                           .out = recvbuf,
                           .stream = stream,
                           .domain = {peer, comm ? comm->rank : -1}};
    return run(comm, &call, count, peer);
}

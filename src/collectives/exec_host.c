/*
 * exec_host.c - the executor of CPU ranks: one process a rank, programs interpreted over shared memory.
 */
#include "collectives/error.h"
#include "collectives/exec_host.h"

#include <stdlib.h>
#include <string.h>

/* Messages from here on are written into private memory through the kernel. */
static const size_t PUSH_BYTES = 16 << 10;

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static enum tr_status tables_create(struct tr_host *host)
{
    size_t n = (size_t)host->comm->size;
    host->pids = calloc(n, sizeof *host->pids);
    host->sends = calloc(n, sizeof *host->sends);
    host->receives = calloc(n, sizeof *host->receives);
    host->in = calloc(n, sizeof *host->in);
    host->out = calloc(n, sizeof *host->out);
    host->scratch = aligned_alloc(TR_HOST_LINE, TR_HOST_SCRATCH + 4096);
    if (host->pids && host->sends && host->receives && host->in && host->out && host->scratch)
        return TR_OK;
    return tr_error(TR_ERR_MEMORY, "no memory for the tables of %d ranks", host->comm->size);
}

static enum tr_status host_create(struct tr_comm *comm)
{
    struct tr_host *host = calloc(1, sizeof *host);
    comm->exec = host;
    enum tr_status status = host ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for %d ranks", comm->size);
    if (status == TR_OK) {
        host->comm = comm;
        status = tables_create(host);
    }
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = tr_host_meet(host);
    if (status == TR_OK)
        status = tr_shm_create(comm, tr_host_area_bytes(comm->size), "the mailboxes", &host->areas);
    if (status == TR_OK && !tr_host_domains_create(host))
        status = tr_error(TR_ERR_MEMORY, "no memory for the tables of %d ranks", comm->size);
    if (status != TR_OK)
        return status;
    struct tr_host_header *header = host->areas.rank[comm->rank];
    host->abort = &header->abort;
    comm->info.host_bytes += host->areas.bytes + sizeof *host + TR_HOST_SCRATCH;
    return TR_OK;
}

static void host_destroy(struct tr_comm *comm)
{
    struct tr_host *host = comm->exec;
    if (!host)
        return;
    tr_host_domains_free(host);
    tr_shm_destroy(&host->areas);
    free(host->pids);
    free(host->sends);
    free(host->receives);
    free(host->in);
    free(host->out);
    free(host->scratch);
    free(host);
    comm->exec = NULL;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static inline enum tr_status wait_all(const struct tr_host_run *run, uint32_t first, uint32_t n, uint64_t piece)
{
    const struct tr_program *program = run->call->program;
    const struct tr_program_wait *wait = run->code->waits + first;
    for (; n > 0; n--, wait++) {
        if (piece < wait->delta)
            continue;
        uint64_t position = wait->entry ? 1 : 2 + piece * program->stride + (uint64_t)(int64_t)wait->offset;
        enum tr_status status = tr_host_wait(run->host, run->domain->from[wait->rank], run->base + position,
                                             run->domain->ranks[wait->rank]);
        if (status != TR_OK)
            return status;
    }
    return TR_OK;
}

static inline void signal_all(const struct tr_host_run *run, uint32_t first, uint32_t n, uint64_t position)
{
    const uint8_t *rank = run->code->signals + first;
    for (; n > 0; n--, rank++)
        atomic_store_explicit(run->domain->to[*rank], run->base + position, memory_order_release);
}

/* Reduce-copy `count` elements of the step's j-th chunk. */
static void direct_step(const struct tr_host_run *run, const struct tr_program_step *step, size_t j, size_t count)
{
    const struct tr_program_ref *ref = run->code->refs + step->ref;
    const void *src[UINT8_MAX];
    struct tr_reduce_dst dst[UINT8_MAX];
    for (int k = 0; k < step->nsrc; k++, ref++)
        src[k] = tr_host_address(run, ref, j);
    for (int k = 0; k < step->ndst; k++, ref++) {
        dst[k].address = tr_host_address(run, ref, j);
        dst[k].stream = run->stream && ref->buffer == TR_OUT;
    }
    tr_reduce_host(run->kernel, step->final ? run->divisor : 0, dst, step->ndst, src, step->nsrc, count);
}

static enum tr_status run_step(const struct tr_host_run *run, const struct tr_program_step *step, size_t piece)
{
    enum tr_status status = step->nwait ? wait_all(run, step->wait, step->nwait, piece) : TR_OK;
    for (size_t j = 0; status == TR_OK && j < step->span; j++) {
        size_t count = tr_tile_length(&run->call->geometry, step->chunk + j, piece, 0);
        if (run->call->protocol == TR_PROTOCOL_LL)
            status = tr_packet_step(run, step, j, count);
        else if (run->push)
            status = tr_host_push_step(run, step, j, count);
        else if (count > 0)
            direct_step(run, step, j, count);
    }
    return status;
}

/* Every step on the piece that it has its hands on in iteration `i`. */
static enum tr_status run_iteration(struct tr_host_run *run, size_t i)
{
    const struct tr_program *program = run->call->program;
    const struct tr_program_step *step = run->code->steps;
    for (uint32_t s = 0; s < program->nsteps; s++, step++) {
        if (i < step->lag || i - step->lag >= run->call->geometry.npieces)
            continue;
        size_t piece = i - step->lag;
        run->shift[TR_IN] = run->shift[TR_OUT] = piece * run->call->geometry.tile * run->element;
        run->shift[TR_BOX] = program->depth > 1 ? piece % program->depth * run->code->pitch : 0;
        enum tr_status status = run_step(run, step, piece);
        if (status != TR_OK)
            return status;
        if (step->nsignal)
            signal_all(run, step->signal, step->nsignal, 2 + i * program->stride + s);
    }
    return TR_OK;
}

static enum tr_status run_program(struct tr_host_run *run)
{
    const struct tr_program *program = run->call->program;
    size_t npieces = run->call->geometry.npieces;
    signal_all(run, program->entry_signal, program->entry_nsignal, 1);
    for (size_t i = 0; i < npieces + program->max_lag; i++) {
        enum tr_status status = run_iteration(run, i);
        if (status != TR_OK)
            return status;
    }
    return wait_all(run, program->exit_wait, program->exit_nwait, npieces - 1);
}

/* The base address of IN or OUT on every rank: the registration's, or just this rank's own. `step` bytes lie between
 * the places of neighbouring ranks: in place, a rank's segment is a part of its vector. */
static void fill_memory(char **memory, const struct tr_registration *registration, size_t offset, ptrdiff_t step,
                        const void *own, const struct tr_program *program)
{
    for (int r = 0; registration && r < program->nranks; r++)
        memory[r] = (char *)registration->peer[r] + offset + (r - program->rank) * step;
    memory[program->rank] = (char *)(uintptr_t)own;
}

/* Fill in where IN and OUT of all ranks lie. */
static void find_memory(struct tr_host *host, const struct tr_call *call, size_t segment)
{
    const char *in = call->in, *out = call->out;
    size_t own = call->program->rank * segment;
    bool in_is_part = call->collective == TR_ALLGATHER && in == out + own;
    bool out_is_part = call->collective == TR_REDUCE_SCATTER && out == in + own;
    fill_memory(host->in, call->in_registration, call->in_offset, in_is_part ? (ptrdiff_t)segment : 0, in,
                call->program);
    fill_memory(host->out, call->out_registration, call->out_offset, out_is_part ? (ptrdiff_t)segment : 0, out,
                call->program);
}

/* The program's code, found out at its first call. A program runs in one kind of domain only. */
static struct tr_host_code *find_code(const struct tr_call *call, const struct tr_host_domain *domain)
{
    struct tr_host_code *code = call->cached->exec_state;
    if (code)
        return code;
    code = malloc(sizeof *code);
    if (!code)
        return NULL;
    const struct tr_program *program = call->program;
    size_t slots = (size_t)program->nslots * program->depth;
    *code = (struct tr_host_code){
        .steps = tr_program_steps(program),
        .waits = tr_program_waits(program),
        .refs = tr_program_refs(program),
        .signals = tr_program_signals(program),
        .pitch = TR_HOST_LINE * tr_host_slot_lines(domain->mailbox_bytes[tr_host_mailbox(call->protocol)], slots),
    };
    call->cached->exec_state = code;
    return code;
}

/* Field by field: an initialiser of the whole would be built elsewhere and copied, which costs a small call 10 ns. */
static void prepare(struct tr_host *host, const struct tr_call *call, const struct tr_host_domain *domain,
                    const struct tr_host_code *code, struct tr_host_run *run)
{
    const struct tr_program *program = call->program;
    run->host = host;
    run->call = call;
    run->code = code;
    run->domain = domain;
    run->kernel = tr_reduce_kernel(call->datatype, call->op);
    run->element = tr_datatype_size(call->datatype);
    run->base = domain->base;
    run->sender = call->domain.sender < 0 ? TR_ANY_RANK : domain->ranks[1 - program->rank];
    run->memory[TR_IN] = host->in;
    run->memory[TR_OUT] = host->out;
    run->memory[TR_BOX] = domain->box[tr_host_mailbox(call->protocol)][domain->calls % 2];
    run->pitch[TR_IN] = run->pitch[TR_OUT] = call->geometry.stride * run->element;
    run->pitch[TR_BOX] = program->depth * code->pitch;
    run->divisor = call->op == TR_AVG ? (unsigned)host->comm->size : 0;
    run->stream = call->protocol == TR_PROTOCOL_DIRECT && call->in != call->out &&
                  call->geometry.total * run->element >= host->stream_bytes;
    run->push = program->remote && !call->out_registration && !call->in_registration;
    find_memory(host, call, run->pitch[TR_IN]);
    if (run->push) {
        struct tr_host_header *header = host->areas.rank[host->comm->rank];
        atomic_store_explicit(&header->out[domain->calls % 2], (uintptr_t)call->out, memory_order_relaxed);
    }
}

static enum tr_status host_run(struct tr_comm *comm, const struct tr_call *call)
{
    struct tr_host *host = comm->exec;
    struct tr_host_domain *domain = tr_host_find_domain(host, &call->domain);
    struct tr_host_header *header = host->areas.rank[comm->rank];
    host->call = call;
    if (call->domain.sender < 0)
        atomic_store_explicit(&header->calls, domain->calls, memory_order_relaxed);

    const struct tr_host_code *code = find_code(call, domain);
    enum tr_status status;
    if (!code) {
        status = tr_error(TR_ERR_MEMORY, "no memory for a program's tables");
        tr_host_abort(host, TR_REASON_FAILED, TR_ANY_RANK);
    } else if (atomic_load_explicit(host->abort, memory_order_relaxed) != 0) {
        status = tr_host_aborted(host);
    } else {
        struct tr_host_run run;
        prepare(host, call, domain, code, &run);
        status = run_program(&run);
    }
    domain->base += 2 + ((uint64_t)call->geometry.npieces + call->program->max_lag) * call->program->stride;
    domain->calls++;
    if (status != TR_OK)
        tr_comm_break(comm, status);
    return status;
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

static size_t slot_capacity(const struct tr_comm *comm, enum tr_protocol protocol, const struct tr_domain *domain,
                            uint32_t channels, size_t slots)
{
    (void)comm;
    (void)channels;
    return tr_host_slot_capacity(protocol, domain, slots);
}

static uint32_t max_channels(const struct tr_comm *comm)
{
    (void)comm;
    return 1;
}

bool tr_host_push_pays(enum tr_collective collective, size_t bytes, int nranks)
{
    size_t longest = collective == TR_ALLGATHER ? bytes / (size_t)nranks : bytes;
    return (collective == TR_ALLGATHER || collective == TR_BROADCAST) && longest >= PUSH_BYTES;
}

/* Ranks that share a CPU do better with mailboxes, which stay in its cache from one rank to the next (8 ranks on 2 cores:
 * by a factor of two). */
static bool reaches_private(const struct tr_comm *comm, enum tr_collective collective, size_t bytes)
{
    const struct tr_host *host = comm->exec;
    return host->reaches_private && !host->oversubscribed && tr_host_push_pays(collective, bytes, comm->size);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static enum tr_status mem_alloc(struct tr_comm *comm, size_t bytes, struct tr_registration *registration)
{
    struct tr_shm *shm = calloc(1, sizeof *shm);
    enum tr_status status = tr_comm_agree(comm, shm ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for a table entry"));
    if (status == TR_OK)
        status = tr_shm_create(comm, bytes, "tr_mem_alloc", shm);
    if (status != TR_OK) {
        free(shm);
        return status;
    }
    registration->base = shm->rank[comm->rank];
    registration->bytes = bytes;
    registration->peer = shm->rank;
    registration->exec_state = shm;
    return TR_OK;
}

static enum tr_status mem_register(struct tr_comm *comm, void *ptr, size_t bytes, struct tr_registration *registration)
{
    (void)comm;
    (void)registration;
    return tr_error(
        TR_ERR_UNSUPPORTED,
        "tr_mem_register of %zu bytes at %p: other processes cannot map private host memory; get the buffer "
        "from tr_mem_alloc instead, or pass it unregistered",
        bytes, ptr);
}

static void mem_release(struct tr_comm *comm, struct tr_registration *registration)
{
    (void)comm;
    tr_shm_destroy(registration->exec_state);
    free(registration->exec_state);
    registration->exec_state = NULL;
}

static void forget(struct tr_comm *comm, struct tr_cached_program *cached)
{
    (void)comm;
    free(cached->exec_state);
    cached->exec_state = NULL;
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static enum tr_status async_error(struct tr_comm *comm)
{
    const struct tr_host *host = comm->exec;
    return atomic_load(host->abort) ? tr_host_aborted(host) : TR_OK;
}

static void host_abort(struct tr_comm *comm)
{
    tr_host_abort(comm->exec, TR_REASON_ASKED, TR_ANY_RANK);
}

const struct tr_executor tr_exec_host = {
    .name = "host",
    .create = host_create,
    .destroy = host_destroy,
    .run = host_run,
    .slot_capacity = slot_capacity,
    .max_channels = max_channels,
    .reaches_private = reaches_private,
    .mem_alloc = mem_alloc,
    .mem_register = mem_register,
    .mem_release = mem_release,
    .forget = forget,
    .async_error = async_error,
    .abort = host_abort,
};

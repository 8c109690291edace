/*
 * cuda_lower.c - from a rank's program and a call's buffers to the kernel's argument (cuda_kernel.h): absolute addresses,
 * one chunk a step, bytes instead of elements. What depends on the program alone is worked out once and kept.
 */
#include "collectives/capacity.h"
#include "collectives/error.h"
#include "collectives/exec_cuda.h"

#include <stdlib.h>
#include <string.h>

static const struct tr_cuda_layout *layout_of(const struct tr_comm *comm, const struct tr_domain *domain)
{
    const struct tr_cuda_exec *ex = comm->exec;
    return domain->sender < 0 ? &ex->collectives : &ex->pair;
}

static size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Bytes of one channel's mailboxes in one half. */
static size_t channel_bytes(const struct tr_cuda_layout *layout, enum tr_protocol protocol, uint32_t channels)
{
    return tr_cuda_channel_bytes(layout->half[protocol], channels);
}

size_t tr_cuda_slot_capacity(const struct tr_comm *comm, enum tr_protocol protocol, const struct tr_domain *domain,
                             uint32_t channels, size_t slots)
{
    return tr_cuda_capacity(protocol, layout_of(comm, domain)->half[protocol], channels, slots);
}

/* ---- What is kept with a program --------------------------------------------------------------------------------- */

/* Which rank writes each slot of `rank`. */
static void find_senders(const struct tr_schedule *schedule, int rank, uint8_t *sender)
{
    for (int r = 0; r < schedule->spec.nranks; r++)
        for (int s = 0; s < schedule->ranks[r].nsteps; s++) {
            const struct tr_step *step = &schedule->ranks[r].steps[s];
            const struct tr_ref *ref = &schedule->refs[step->ref + step->nsrc];
            for (int k = 0; k < step->ndst; k++)
                for (int j = 0; j < step->span && ref[k].buffer == TR_BOX && ref[k].rank == rank; j++)
                    sender[ref[k].index + j] = (uint8_t)r;
        }
}

enum tr_status tr_cuda_keep(struct tr_cached_program *cached, struct tr_cuda_kept **out)
{
    const struct tr_program *program = cached->program;
    struct tr_schedule *schedule;
    enum tr_status status = tr_schedule_build(&cached->spec, &schedule);
    if (status != TR_OK)
        return status;
    struct tr_cuda_kept *kept = calloc(1, sizeof *kept + program->nslots);
    if (!kept) {
        tr_schedule_free(schedule);
        return tr_error(TR_ERR_MEMORY, "no memory to keep a program");
    }
    find_senders(schedule, program->rank, kept->sender);
    tr_schedule_free(schedule);
    const struct tr_program_step *steps = tr_program_steps(program);
    for (int s = 0; s < program->nsteps; s++) {
        kept->nsteps += steps[s].span;
        kept->nrefs += steps[s].span * (size_t)(steps[s].nsrc + steps[s].ndst);
    }
    kept->blob_bytes = round_up(program->nranks * sizeof(uint64_t) + kept->nsteps * sizeof(struct tr_cuda_step) +
                                    kept->nrefs * sizeof(uint64_t) + program->nwaits * sizeof(struct tr_program_wait) +
                                    program->nsignals,
                                8);
    if (kept->blob_bytes > TR_CUDA_LARGE_BLOB) {
        size_t bytes = kept->blob_bytes;
        free(kept);
        return tr_error(TR_ERR_UNSUPPORTED,
                        "the %s program of %s on %d ranks takes %zu bytes of kernel arguments, %d are to be had; use "
                        "another algorithm or fewer ranks",
                        tr_algorithm_name(cached->spec.algorithm), tr_collective_name(cached->spec.collective),
                        cached->spec.nranks, bytes, TR_CUDA_LARGE_BLOB);
    }
    *out = kept;
    return TR_OK;
}

/* ---- Lowering ---------------------------------------------------------------------------------------------------- */

/* What the lowering of one call carries around. */
struct lowering {
    const struct tr_call *call;
    const struct tr_cuda_kept *kept;
    const uint64_t *domain; /* of each rank of the program */
    size_t element_bytes, stride_bytes;
    size_t mailbox, slot_stride; /* first mailbox in a domain; from a slot to the next, all its copies */
    struct tr_cuda_step *step;   /* where the next ones go */
    uint64_t *refs;
    uint16_t nrefs;
};

static uint64_t user_address(const struct tr_call *call, const struct tr_program_ref *ref)
{
    bool in = ref->buffer == TR_IN;
    const struct tr_registration *registration = in ? call->in_registration : call->out_registration;
    if (registration && call->program->remote)
        return (uint64_t)(uintptr_t)registration->peer[ref->rank] + (in ? call->in_offset : call->out_offset);
    return (uint64_t)(uintptr_t)(in ? call->in : call->out);
}

static uint64_t lower_ref(const struct lowering *l, const struct tr_program_ref *ref, size_t j, bool source)
{
    size_t index = ref->index + j;
    if (ref->buffer != TR_BOX)
        return user_address(l->call, ref) + index * l->stride_bytes;
    uint64_t sender = source ? (uint64_t)l->kept->sender[index] << TR_CUDA_SENDER_SHIFT : 0;
    return (l->domain[ref->rank] + l->mailbox + index * l->slot_stride) | TR_CUDA_BOX | sender;
}

static size_t chunk_bytes(const struct lowering *l, size_t chunk)
{
    const struct tr_geometry *g = &l->call->geometry;
    size_t start = chunk * g->stride, left = start < g->total ? g->total - start : 0;
    return (left < g->stride ? left : g->stride) * l->element_bytes;
}

/* A step of the program becomes one a chunk: the first waits, the last announces. */
static void lower_step(struct lowering *l, int number, const struct tr_program_step *step)
{
    const struct tr_program_ref *ref = tr_program_refs(l->call->program) + step->ref;
    for (size_t j = 0; j < step->span; j++) {
        bool first = j == 0, last = j + 1u == step->span;
        *l->step++ = (struct tr_cuda_step){
            .bytes = chunk_bytes(l, step->chunk + j),
            .position = 2 + (uint32_t)number,
            .ref = l->nrefs,
            .wait = step->wait,
            .signal = step->signal,
            .nwait = first ? step->nwait : 0,
            .nsignal = last ? step->nsignal : 0,
            .nsrc = step->nsrc,
            .ndst = step->ndst,
            .lag = (uint8_t)step->lag,
            .final = step->final,
            .copies = 1,
        };
        for (int k = 0; k < step->nsrc + step->ndst; k++)
            l->refs[l->nrefs++] = lower_ref(l, &ref[k], j, k < step->nsrc);
    }
}

/* Under LL a thread takes each step once, in order; the pipeline's lags only decide that order. */
static void lower_steps(struct lowering *l)
{
    const struct tr_program *program = l->call->program;
    const struct tr_program_step *steps = tr_program_steps(program);
    if (l->call->protocol == TR_PROTOCOL_DIRECT || program->max_lag == 0) {
        for (int s = 0; s < program->nsteps; s++)
            lower_step(l, s, &steps[s]);
        return;
    }
    for (int lag = 0; lag <= program->max_lag; lag++)
        for (int s = 0; s < program->nsteps; s++)
            if (steps[s].lag == lag)
                lower_step(l, s, &steps[s]);
}

/* Whether a step only copies, and so that it may be taken together with its neighbours: from IN, or from a mailbox to OUT.
 * Under LL no rank can then be waiting for one of them in order to send what another one needs. */
static enum tr_buffer copies_from(const struct lowering *l, const struct tr_cuda_step *step)
{
    const uint64_t *ref = l->refs + step->ref;
    if (step->nsrc != 1 || step->final)
        return TR_BUFFER_COUNT;
    if (!(ref[0] & TR_CUDA_BOX))
        return TR_IN;
    for (int d = 1; d <= step->ndst; d++)
        if (ref[d] & TR_CUDA_BOX)
            return TR_BUFFER_COUNT;
    return TR_BOX;
}

/* Mark runs of such steps. */
static void find_copies(const struct lowering *l, struct tr_cuda_step *steps, size_t nsteps)
{
    for (size_t s = 0; s < nsteps; s += steps[s].copies) {
        enum tr_buffer from = copies_from(l, &steps[s]);
        while (from != TR_BUFFER_COUNT && steps[s].copies < TR_CUDA_COPIES && s + steps[s].copies < nsteps &&
               copies_from(l, &steps[s + steps[s].copies]) == from)
            steps[s].copies++;
    }
}

static void write_domains(const struct tr_comm *comm, const struct tr_call *call, uint64_t *domain)
{
    for (int r = 0; r < call->program->nranks; r++) {
        int rank = call->domain.sender < 0 ? r : r ? call->domain.receiver : call->domain.sender;
        domain[r] = (uint64_t)(uintptr_t)tr_cuda_domain(comm, &call->domain, rank);
    }
}

/* Everything but the blob and its offsets. */
static void describe(const struct tr_comm *comm, const struct tr_call *call, struct tr_cuda_call *to)
{
    const struct tr_cuda_exec *ex = comm->exec;
    const struct tr_cuda_layout *layout = layout_of(comm, &call->domain);
    const struct tr_program *program = call->program;
    enum tr_protocol protocol = call->protocol;
    size_t tile = call->geometry.tile * tr_datatype_size(call->datatype);
    size_t units = (tile + tr_cuda_units[protocol].payload - 1) / tr_cuda_units[protocol].payload;
    *to = (struct tr_cuda_call){
        .report = ex->device_report,
        .home = ex->arena,
        .timeout_ns = (uint64_t)(comm->timeout_s * 1e9),
        .tile = tile,
        .flags = layout->flags,
        .half_bytes = layout->half[protocol],
        .channel_bytes = channel_bytes(layout, protocol, call->geometry.channels),
        .slot_bytes = (uint32_t)round_up((units ? units : 1) * tr_cuda_units[protocol].bytes, TR_CUDA_LINE),
        .packets = (uint32_t)layout->mailbox[TR_PROTOCOL_LL],
        .ll_bytes = (uint32_t)(layout->mailbox[TR_PROTOCOL_LL128] - layout->mailbox[TR_PROTOCOL_LL]),
        .packet_bytes = (uint32_t)(layout->mailbox[TR_PROTOCOL_DIRECT] - layout->mailbox[TR_PROTOCOL_LL]),
        .depth = program->depth,
        .npieces = call->geometry.npieces,
        .channels = call->geometry.channels,
        .max_channels = layout->channels,
        .op = (uint32_t)call->op,
        .average = call->op == TR_AVG ? (uint32_t)program->nranks : 0,
        .collective = (uint32_t)call->collective,
        .nranks = program->nranks,
        .rank = program->rank,
        .stride = program->stride,
        .max_lag = program->max_lag,
        .entry_signal = program->entry_signal,
        .exit_wait = program->exit_wait,
        .entry_nsignal = program->entry_nsignal,
        .exit_nwait = program->exit_nwait,
    };
}

void tr_cuda_lower(const struct tr_comm *comm, const struct tr_call *call, const struct tr_cuda_kept *kept,
                   struct tr_cuda_call *to, uint64_t *blob)
{
    const struct tr_program *program = call->program;
    describe(comm, call, to);
    write_domains(comm, call, blob);
    size_t refs = program->nranks * sizeof *blob + kept->nsteps * sizeof(struct tr_cuda_step);
    size_t waits = refs + kept->nrefs * sizeof *blob;
    size_t signals = waits + program->nwaits * sizeof(struct tr_program_wait);
    to->nsteps = (uint16_t)kept->nsteps;
    to->refs = (uint16_t)refs;
    to->waits = (uint16_t)waits;
    to->signals = (uint16_t)signals;
    to->blob_bytes = (uint16_t)kept->blob_bytes;
    memcpy((char *)blob + waits, tr_program_waits(program), program->nwaits * sizeof(struct tr_program_wait));
    memcpy((char *)blob + signals, tr_program_signals(program), program->nsignals);

    size_t element_bytes = tr_datatype_size(call->datatype);
    struct lowering l = {
        .call = call,
        .kept = kept,
        .domain = blob,
        .element_bytes = element_bytes,
        .stride_bytes = call->geometry.stride * element_bytes,
        .mailbox = layout_of(comm, &call->domain)->mailbox[call->protocol],
        .slot_stride = (size_t)to->slot_bytes * to->depth,
        .step = (struct tr_cuda_step *)(blob + program->nranks),
        .refs = (uint64_t *)((char *)blob + refs),
    };
    lower_steps(&l);
    if (call->protocol != TR_PROTOCOL_DIRECT)
        find_copies(&l, (struct tr_cuda_step *)(blob + program->nranks), kept->nsteps);
}

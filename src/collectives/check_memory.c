/*
 * check_memory.c - what the chunks and slots hold in a symbolic run, and who may touch them when.
 *
 * One run proves a call in place and out of place. IN is never stored: it holds the rank's own contribution. Where a
 * chunk of IN is the same memory as a chunk of OUT when the call is in place, a read of IN counts as a read of that
 * chunk of OUT too, which no later write may overtake and no earlier write may have spoilt.
 */
#include "collectives/check_run.h"

#include "collectives/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const buffer_names[TR_BUFFER_COUNT] = {"IN", "OUT", "BOX slot"};

enum tr_status tr_check_object(const struct tr_check_run *run, const struct tr_check_event *event, int chunk,
                               const char *format, ...)
{
    char what[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return tr_error(TR_ERR_ARGUMENT, "rank %d, step %d, chunk %d (piece %d of %d): %s", event->rank, event->step, chunk,
                    event->piece, run->npieces, what);
}

/* ---- Locations --------------------------------------------------------------------------------------------------- */

struct tr_location *tr_check_box(const struct tr_check_run *run, const struct tr_check_event *event,
                                 const struct tr_ref *ref, int offset)
{
    int slot = ref->rank * run->s->nslots + ref->index + offset;
    return &run->box[(size_t)slot * (size_t)run->s->depth + (size_t)(event->piece % run->s->depth)];
}

static struct tr_location *out_location(const struct tr_check_run *run, int rank, int index, int piece)
{
    return &run->out[((size_t)rank * (size_t)run->s->nchunks + (size_t)index) * (size_t)run->npieces + (size_t)piece];
}

/* The chunk of OUT that shares memory with chunk `index` of IN when the call is in place, or -1. */
static int shared_out(const struct tr_schedule_spec *spec, int rank, int index)
{
    bool at_root = rank == spec->root;
    const int shared[TR_COLLECTIVE_COUNT] = {
        [TR_ALLREDUCE] = index,
        [TR_REDUCE_SCATTER] = index == rank ? 0 : -1,
        [TR_ALLGATHER] = rank,
        [TR_BROADCAST] = at_root ? index : -1,
        [TR_REDUCE] = at_root ? index : -1,
        [TR_SENDRECV] = -1,
    };
    return shared[spec->collective];
}

static bool has_input(const struct tr_schedule_spec *spec, int rank)
{
    if (spec->collective == TR_BROADCAST)
        return rank == spec->root;
    return spec->collective != TR_SENDRECV || rank == 0;
}

static bool has_output(const struct tr_schedule_spec *spec, int rank)
{
    if (spec->collective == TR_REDUCE)
        return rank == spec->root;
    return spec->collective != TR_SENDRECV || rank == 1;
}

static bool reduces(enum tr_collective collective)
{
    return collective == TR_ALLREDUCE || collective == TR_REDUCE_SCATTER || collective == TR_REDUCE;
}

static uint64_t all_ranks(int nranks)
{
    return nranks == 64 ? UINT64_MAX : (UINT64_C(1) << nranks) - 1;
}

/* ---- Races: two touches, one of them a write, that no wait orders ------------------------------------------------ */

static bool is_known(const struct tr_check_run *run, const struct tr_check_event *event, const struct tr_touch *touch)
{
    return tr_check_clock(run, event->rank, event->place)[touch->rank] > touch->place;
}

static bool in_same_event(const struct tr_check_event *event, const struct tr_touch *touch)
{
    return touch->rank == event->rank && touch->place == event->place;
}

static int step_of(const struct tr_check_run *run, const struct tr_touch *touch)
{
    return run->events[run->first[touch->rank] + touch->place].step;
}

/* `doing`: "reads" or "writes"; `ref` says where. */
static enum tr_status object_to_race(const struct tr_check_run *run, const struct tr_check_event *event, int offset,
                                     const struct tr_ref *ref, const char *doing, const struct tr_touch *touch,
                                     const char *other_doing)
{
    int chunk = tr_check_step(run, event)->chunk + offset;
    return tr_check_object(
        run, event, chunk, "%s %s %d of rank %d while rank %d's step %d may still be %s it: no wait orders them", doing,
        buffer_names[ref->buffer], ref->index + offset, ref->rank, touch->rank, step_of(run, touch), other_doing);
}

static enum tr_status add_read(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                               struct tr_location *at)
{
    if (run->ntouches == run->touches_capacity) {
        int capacity = run->touches_capacity ? 2 * run->touches_capacity : 1024;
        struct tr_touch *touches = realloc(run->touches, (size_t)capacity * sizeof *touches);
        if (!touches)
            return tr_error(TR_ERR_MEMORY, "no host memory to check a schedule; free some and try again");
        run->touches = touches;
        run->touches_capacity = capacity;
    }
    run->touches[run->ntouches] =
        (struct tr_touch){.rank = event->rank, .place = event->place, .offset = offset, .next = at->reads};
    at->reads = run->ntouches++;
    return TR_OK;
}

/* A step reads, then writes, element by element: its write may hit what it read itself at the same offset. */
static enum tr_status write_after_reads(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                                        const struct tr_ref *ref, const struct tr_location *at)
{
    for (int i = at->reads; i >= 0; i = run->touches[i].next) {
        const struct tr_touch *read = &run->touches[i];
        bool elementwise = in_same_event(event, read) && read->offset == offset;
        if (!elementwise && !is_known(run, event, read))
            return object_to_race(run, event, offset, ref, "writes", read, "reading");
    }
    if (at->writer.rank >= 0 && !is_known(run, event, &at->writer))
        return object_to_race(run, event, offset, ref, "writes", &at->writer, "writing");
    return TR_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static enum tr_status read_in(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                              const struct tr_ref *ref, struct tr_value *value)
{
    const struct tr_schedule_spec *spec = &run->s->spec;
    int chunk = tr_check_step(run, event)->chunk + offset, index = ref->index + offset;
    if (!has_input(spec, ref->rank))
        return tr_check_object(run, event, chunk, "reads IN of rank %d, which has no input", ref->rank);
    *value = (struct tr_value){.ranks = UINT64_C(1) << ref->rank,
                               .chunk = tr_collective_in_is_one_chunk(spec->collective) ? ref->rank : index,
                               .piece = event->piece};
    int shared = shared_out(spec, ref->rank, index);
    if (shared < 0)
        return TR_OK;
    struct tr_location *at = out_location(run, ref->rank, shared, event->piece);
    if (at->writer.rank >= 0 && !is_known(run, event, &at->writer))
        return object_to_race(run, event, offset, ref, "reads", &at->writer, "writing (in place)");
    if (at->writer.rank >= 0 && (at->value.ranks != value->ranks || at->value.final))
        return tr_check_object(run, event, chunk,
                               "reads IN %d of rank %d, which in place rank %d's step %d has overwritten", index,
                               ref->rank, at->writer.rank, step_of(run, &at->writer));
    return add_read(run, event, offset, at);
}

static enum tr_status read_out(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                               const struct tr_ref *ref, struct tr_value *value)
{
    int chunk = tr_check_step(run, event)->chunk + offset;
    struct tr_location *at = out_location(run, ref->rank, ref->index + offset, event->piece);
    if (at->writer.rank < 0)
        return tr_check_object(run, event, chunk,
                               "reads OUT %d of rank %d, which no earlier step is sure to have written",
                               ref->index + offset, ref->rank);
    if (!is_known(run, event, &at->writer))
        return object_to_race(run, event, offset, ref, "reads", &at->writer, "writing");
    *value = at->value;
    return add_read(run, event, offset, at);
}

/* Some step that writes the slot, for the sentence. */
static struct tr_touch writer_of_slot(const struct tr_check_run *run, int owner, int slot)
{
    for (int rank = 0; rank < run->nranks; rank++)
        for (int step = 0; step < run->s->ranks[rank].nsteps; step++) {
            const struct tr_step *t = &run->s->ranks[rank].steps[step];
            const struct tr_ref *dst = &run->s->refs[t->ref + t->nsrc];
            for (int i = 0; i < t->ndst; i++)
                if (dst[i].buffer == TR_BOX && dst[i].rank == owner && dst[i].index <= slot &&
                    slot < dst[i].index + t->span)
                    return (struct tr_touch){.rank = rank, .place = step};
        }
    return (struct tr_touch){.rank = -1};
}

static enum tr_status object_to_empty_slot(const struct tr_check_run *run, const struct tr_check_event *event,
                                           int offset, const struct tr_ref *ref)
{
    int chunk = tr_check_step(run, event)->chunk + offset, slot = ref->index + offset;
    struct tr_touch writer = writer_of_slot(run, ref->rank, slot);
    if (writer.rank < 0)
        return tr_check_object(run, event, chunk, "reads BOX slot %d, which nobody writes", slot);
    return tr_check_object(
        run, event, chunk,
        "reads BOX slot %d, where no unread message is: no wait orders it after a write by rank %d's "
        "step %d, or the message was read before",
        slot, writer.rank, writer.place);
}

static enum tr_status read_box(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                               const struct tr_ref *ref, struct tr_value *value)
{
    struct tr_location *at = tr_check_box(run, event, ref, offset);
    int chunk = tr_check_step(run, event)->chunk + offset;
    if (ref->rank != event->rank)
        return tr_check_object(run, event, chunk, "reads BOX slot %d of rank %d, which only its owner may", ref->index,
                               ref->rank);
    if (!at->full)
        return object_to_empty_slot(run, event, offset, ref);
    if (!is_known(run, event, &at->writer))
        return object_to_race(run, event, offset, ref, "reads", &at->writer, "writing");
    at->full = false;
    *value = at->value;
    return add_read(run, event, offset, at);
}

typedef enum tr_status read_fn(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                               const struct tr_ref *ref, struct tr_value *value);
static read_fn *const readers[TR_BUFFER_COUNT] = {read_in, read_out, read_box};

/* ---- Reducing ---------------------------------------------------------------------------------------------------- */

static enum tr_status right_chunk(const struct tr_check_run *run, const struct tr_check_event *event, int chunk,
                                  const struct tr_ref *ref, const struct tr_value *value)
{
    if (value->chunk == chunk && value->piece == event->piece)
        return TR_OK;
    return tr_check_object(run, event, chunk, "finds chunk %d of piece %d in %s %d of rank %d", value->chunk,
                           value->piece, buffer_names[ref->buffer], ref->index, ref->rank);
}

static enum tr_status reduce_into(const struct tr_check_run *run, const struct tr_check_event *event, int chunk,
                                  const struct tr_ref *ref, struct tr_value *sum, const struct tr_value *value)
{
    uint64_t twice = sum->ranks & value->ranks;
    if (twice)
        return tr_check_object(run, event, chunk, "%s %d of rank %d brings the contribution of rank %d a second time",
                               buffer_names[ref->buffer], ref->index, ref->rank, __builtin_ctzll(twice));
    if (sum->ranks && (sum->final || value->final))
        return tr_check_object(run, event, chunk, "reduces what a final step has finished");
    if (sum->ranks && !reduces(run->s->spec.collective))
        return tr_check_object(run, event, chunk, "reduces in a collective that only copies");
    sum->ranks |= value->ranks;
    sum->final = value->final;
    return TR_OK;
}

static enum tr_status finish(const struct tr_check_run *run, const struct tr_check_event *event, int chunk,
                             struct tr_value *sum)
{
    if (!tr_check_step(run, event)->final)
        return TR_OK;
    if (!reduces(run->s->spec.collective) || sum->final)
        return tr_check_object(run, event, chunk, "is final where there is nothing to finish");
    uint64_t missing = all_ranks(run->nranks) & ~sum->ranks;
    if (missing)
        return tr_check_object(run, event, chunk, "is final without the contribution of rank %d",
                               __builtin_ctzll(missing));
    sum->final = true;
    return TR_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static enum tr_status write_box(const struct tr_check_run *run, const struct tr_check_event *event, int offset,
                                const struct tr_ref *ref, struct tr_location *at)
{
    int chunk = tr_check_step(run, event)->chunk + offset, slot = ref->index + offset;
    if (at->full)
        return tr_check_object(run, event, chunk,
                               "overwrites the unread message of rank %d's step %d in BOX slot %d of rank %d: no wait "
                               "orders it after the read",
                               at->writer.rank, step_of(run, &at->writer), slot, ref->rank);
    if (at->writer.rank >= 0 && at->writer.rank != event->rank)
        return tr_check_object(run, event, chunk, "writes BOX slot %d of rank %d, which is rank %d's to write", slot,
                               ref->rank, at->writer.rank);
    if (at->writer.rank >= 0 && run->ll)
        return tr_check_object(run, event, chunk, "writes BOX slot %d of rank %d a second time, which LL forbids", slot,
                               ref->rank);
    at->full = true;
    return TR_OK;
}

static enum tr_status write(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                            const struct tr_ref *ref, const struct tr_value *value)
{
    int chunk = tr_check_step(run, event)->chunk + offset;
    if (ref->buffer == TR_IN)
        return tr_check_object(run, event, chunk, "writes IN of rank %d, which is never written", ref->rank);
    struct tr_location *at = ref->buffer == TR_BOX ? tr_check_box(run, event, ref, offset)
                                                   : out_location(run, ref->rank, ref->index + offset, event->piece);
    enum tr_status status = TR_OK;
    if (ref->buffer == TR_BOX)
        status = write_box(run, event, offset, ref, at);
    else if (!has_output(&run->s->spec, ref->rank))
        status = tr_check_object(run, event, chunk, "writes OUT of rank %d, which has no output", ref->rank);
    if (!status)
        status = write_after_reads(run, event, offset, ref, at);
    at->value = *value;
    at->writer = (struct tr_touch){.rank = event->rank, .place = event->place, .offset = offset, .next = -1};
    at->reads = -1;
    return status;
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */

/* A rank's user memory may be touched by another rank once its entry is known. */
static enum tr_status visit(struct tr_check_run *run, const struct tr_check_event *event, const struct tr_ref *ref)
{
    if (ref->buffer == TR_BOX || ref->rank == event->rank)
        return TR_OK;
    int chunk = tr_check_step(run, event)->chunk;
    if (!run->s->spec.remote)
        return tr_check_object(run, event, chunk, "touches %s of rank %d in a schedule that is not remote",
                               buffer_names[ref->buffer], ref->rank);
    struct tr_touch entry = {.rank = ref->rank, .place = 0};
    if (!is_known(run, event, &entry))
        return tr_check_object(run, event, chunk,
                               "touches %s of rank %d, which may not have entered the call: no wait orders them",
                               buffer_names[ref->buffer], ref->rank);
    run->last_visit[(event->piece * run->nranks + event->rank) * run->nranks + ref->rank] = event->place + 1;
    return TR_OK;
}

static enum tr_status read_all(struct tr_check_run *run, const struct tr_check_event *event, int offset,
                               struct tr_value *sum)
{
    const struct tr_step *t = tr_check_step(run, event);
    const struct tr_ref *src = &run->s->refs[t->ref];
    int chunk = t->chunk + offset;
    *sum = (struct tr_value){.chunk = chunk, .piece = event->piece};
    for (int i = 0; i < t->nsrc; i++) {
        struct tr_value value;
        enum tr_status status = visit(run, event, &src[i]);
        if (!status)
            status = readers[src[i].buffer](run, event, offset, &src[i], &value);
        if (!status)
            status = right_chunk(run, event, chunk, &src[i], &value);
        if (!status)
            status = reduce_into(run, event, chunk, &src[i], sum, &value);
        if (status)
            return status;
    }
    return finish(run, event, chunk, sum);
}

enum tr_status tr_check_memory_step(struct tr_check_run *run, const struct tr_check_event *event)
{
    const struct tr_step *t = tr_check_step(run, event);
    const struct tr_ref *dst = &run->s->refs[t->ref + t->nsrc];
    for (int offset = 0; offset < t->span; offset++) {
        struct tr_value sum;
        enum tr_status status = read_all(run, event, offset, &sum);
        for (int i = 0; i < t->ndst && !status; i++) {
            status = visit(run, event, &dst[i]);
            if (!status)
                status = write(run, event, offset, &dst[i], &sum);
        }
        if (status)
            return status;
    }
    return TR_OK;
}

/* ---- The end ----------------------------------------------------------------------------------------------------- */

/* What chunk `index` of rank's OUT must hold. */
static struct tr_value wanted(const struct tr_check_run *run, int rank, int index, int piece)
{
    const struct tr_schedule_spec *spec = &run->s->spec;
    bool final = reduces(spec->collective);
    int source = spec->collective == TR_ALLGATHER ? index : spec->root;
    return (struct tr_value){.ranks = final ? all_ranks(run->nranks) : UINT64_C(1) << source,
                             .chunk = tr_collective_out_is_one_chunk(spec->collective) ? rank : index,
                             .piece = piece,
                             .final = final};
}

static enum tr_status check_output(const struct tr_check_run *run, int rank, int index, int piece)
{
    const struct tr_location *at = out_location(run, rank, index, piece);
    struct tr_value want = wanted(run, rank, index, piece);
    if (at->writer.rank < 0)
        return tr_error(TR_ERR_ARGUMENT, "rank %d: no step writes chunk %d (piece %d of %d) of its OUT", rank,
                        want.chunk, piece, run->npieces);
    const struct tr_check_event *event = &run->events[run->first[at->writer.rank] + at->writer.place];
    uint64_t wrong = at->value.ranks ^ want.ranks;
    if (wrong)
        return tr_check_object(run, event, want.chunk, "leaves OUT %d of rank %d %s the contribution of rank %d", index,
                               rank, at->value.ranks & wrong ? "with" : "without", __builtin_ctzll(wrong));
    if (at->value.chunk != want.chunk || at->value.piece != piece)
        return tr_check_object(run, event, want.chunk, "leaves chunk %d of piece %d in OUT %d of rank %d",
                               at->value.chunk, at->value.piece, index, rank);
    if (at->value.final != want.final)
        return tr_check_object(run, event, want.chunk, "leaves OUT %d of rank %d without a final step", index, rank);
    return TR_OK;
}

static enum tr_status check_outputs(const struct tr_check_run *run, int rank)
{
    int nchunks = tr_collective_out_is_one_chunk(run->s->spec.collective) ? 1 : run->s->nchunks;
    enum tr_status status = TR_OK;
    for (int index = 0; index < nchunks; index++)
        for (int piece = 0; piece < run->npieces && !status; piece++)
            status = check_output(run, rank, index, piece);
    return status;
}

enum tr_status tr_check_memory_end(const struct tr_check_run *run)
{
    enum tr_status status = TR_OK;
    size_t nboxes = (size_t)run->nranks * (size_t)run->s->nslots * (size_t)run->s->depth;
    for (size_t i = 0; i < nboxes; i++) {
        const struct tr_location *at = &run->box[i];
        if (at->full)
            return tr_check_object(run, &run->events[run->first[at->writer.rank] + at->writer.place], at->value.chunk,
                                   "sends a message that is never read (BOX slot %zu of rank %zu)",
                                   i / (size_t)run->s->depth % (size_t)run->s->nslots,
                                   i / (size_t)run->s->depth / (size_t)run->s->nslots);
    }
    for (int rank = 0; rank < run->nranks && !status; rank++)
        if (has_output(&run->s->spec, rank))
            status = check_outputs(run, rank);
    return status;
}

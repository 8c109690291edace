/*
 * precedence.c - derive the order that a schedule's data movement needs.
 *
 * Four kinds of reasons, a function each: messages in mailbox slots, chunks of user memory that another rank touches
 * (in place included), entry before the first and exit after the last such touch, and every exit after every entry.
 */
#include "collectives/precedence.h"

#include "collectives/error.h"

#include <stdlib.h>
#include <string.h>

/* One use of a mailbox slot. Lists hold a piece's uses in the order in which the rank carries them out. */
struct use {
    int step, chunk;
    int next;
};

struct use_list {
    int rank; /* who writes (reads); -1: nobody yet */
    int head, tail;
};

struct slot {
    struct use_list writes, reads;
};

/* Who writes a chunk of OUT. */
struct out_write {
    int rank, step; /* the first write; rank -1: nobody */
    int offset;     /* of the chunk within the step's span */
    int count;
};

struct derivation {
    struct tr_precedence *to;
    const struct tr_schedule *s;
    struct slot *slots; /* nranks x nslots */
    struct use *uses;
    int nuses, uses_capacity;
    struct out_write *outs; /* nranks x nchunks */
};

/* The visitor of one reference of a step. */
typedef enum tr_status ref_fn(struct derivation *d, int rank, int step, const struct tr_ref *ref);

static const struct tr_step *step_at(const struct derivation *d, int rank, int step)
{
    return &d->s->ranks[rank].steps[step];
}

static enum tr_status out_of_memory(void)
{
    return tr_error(TR_ERR_MEMORY, "no host memory to derive the waits of a schedule; free some and try again");
}

/* ---- Edges ------------------------------------------------------------------------------------------------------- */

static enum tr_status edge_push(struct tr_precedence *to, int node, struct tr_edge edge)
{
    if (to->nedges == to->capacity) {
        int capacity = to->capacity ? 2 * to->capacity : 256;
        struct tr_edge *edges = realloc(to->edges, (size_t)capacity * sizeof *edges);
        if (!edges)
            return out_of_memory();
        to->edges = edges;
        to->capacity = capacity;
    }
    edge.next = to->head[node];
    to->edges[to->nedges] = edge;
    to->head[node] = to->nedges++;
    return TR_OK;
}

/* Piece p - delta of `before` comes before piece p of `after` in one rank's program order. */
static bool in_program_order(const struct tr_step *steps, int before, int delta, int after)
{
    int iterations = steps[after].lag - (steps[before].lag - delta);
    return iterations > 0 || (iterations == 0 && before < after);
}

static enum tr_status edge_add(struct derivation *d, int from_rank, int from_step, int delta, bool carried, int rank,
                               int step, const char *why)
{
    if (from_rank == rank) {
        const struct tr_step *steps = d->s->ranks[rank].steps;
        if (in_program_order(steps, from_step, delta, step))
            return TR_OK;
        return tr_error(TR_ERR_ARGUMENT,
                        "rank %d, step %d (chunk %d) must come after step %d (chunk %d) of the same rank, because %s; "
                        "the schedule lists them the other way round",
                        rank, step, steps[step].chunk, from_step, steps[from_step].chunk, why);
    }
    struct tr_edge edge = {.rank = from_rank, .step = from_step, .delta = delta, .carried = carried};
    return edge_push(d->to, d->to->first[rank] + step, edge);
}

/* ---- Walking the references -------------------------------------------------------------------------------------- */

static enum tr_status bad_ref(const struct derivation *d, int rank, int step, const struct tr_ref *ref,
                              const char *what)
{
    static const char *const names[TR_BUFFER_COUNT] = {"IN", "OUT", "BOX"};
    const char *name = (unsigned)ref->buffer < TR_BUFFER_COUNT ? names[ref->buffer] : "?";
    return tr_error(TR_ERR_ARGUMENT, "rank %d, step %d (chunk %d): %s (%s %d of rank %d)", rank, step,
                    step_at(d, rank, step)->chunk, what, name, ref->index, ref->rank);
}

static int index_limit(const struct tr_schedule *s, enum tr_buffer buffer)
{
    if (buffer == TR_BOX)
        return s->nslots;
    bool one = buffer == TR_IN ? tr_collective_in_is_one_chunk(s->spec.collective)
                               : tr_collective_out_is_one_chunk(s->spec.collective);
    return one ? 1 : s->nchunks;
}

static enum tr_status check_ref(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    const struct tr_schedule *s = d->s;
    if (ref->rank < 0 || ref->rank >= s->spec.nranks)
        return bad_ref(d, rank, step, ref, "it names a rank that does not exist");
    if ((unsigned)ref->buffer >= TR_BUFFER_COUNT)
        return bad_ref(d, rank, step, ref, "it names a buffer that does not exist");
    if (ref->index < 0 || ref->index + step_at(d, rank, step)->span > index_limit(s, ref->buffer))
        return bad_ref(d, rank, step, ref, "it reaches past the end of the buffer");
    if (ref->buffer != TR_BOX && ref->rank != rank && !s->spec.remote)
        return bad_ref(d, rank, step, ref, "it touches another rank's user memory in a schedule that is not remote");
    return TR_OK;
}

static enum tr_status check_step(const struct derivation *d, int rank, int step)
{
    const struct tr_step *t = step_at(d, rank, step);
    bool shape =
        t->span >= 1 && t->chunk >= 0 && t->chunk + t->span <= d->s->nchunks && t->lag >= 0 && t->lag <= d->s->max_lag;
    bool refs = t->nsrc >= 1 && t->ndst >= 1 && t->ref >= 0 && t->ref + t->nsrc + t->ndst <= d->s->nrefs;
    if (shape && refs)
        return TR_OK;
    return tr_error(TR_ERR_ARGUMENT, "rank %d, step %d (chunk %d, span %d, lag %d) is outside the schedule's bounds",
                    rank, step, t->chunk, t->span, t->lag);
}

static enum tr_status walk_step(struct derivation *d, int rank, int step, ref_fn *on_src, ref_fn *on_dst)
{
    const struct tr_step *t = step_at(d, rank, step);
    const struct tr_ref *refs = &d->s->refs[t->ref];
    enum tr_status status = TR_OK;
    for (int i = 0; i < t->nsrc && !status && on_src; i++)
        status = on_src(d, rank, step, &refs[i]);
    for (int i = t->nsrc; i < t->nsrc + t->ndst && !status && on_dst; i++)
        status = on_dst(d, rank, step, &refs[i]);
    return status;
}

/* Visit every reference, each rank's steps in the order of a piece's way through them: by lag, then as listed. */
static enum tr_status walk(struct derivation *d, ref_fn *on_src, ref_fn *on_dst)
{
    for (int rank = 0; rank < d->s->spec.nranks; rank++)
        for (int lag = 0; lag <= d->s->max_lag; lag++)
            for (int step = 0; step < d->s->ranks[rank].nsteps; step++) {
                if (step_at(d, rank, step)->lag != lag)
                    continue;
                enum tr_status status = walk_step(d, rank, step, on_src, on_dst);
                if (status)
                    return status;
            }
    return TR_OK;
}

static enum tr_status check_all(struct derivation *d)
{
    for (int rank = 0; rank < d->s->spec.nranks; rank++)
        for (int step = 0; step < d->s->ranks[rank].nsteps; step++) {
            enum tr_status status = check_step(d, rank, step);
            if (status)
                return status;
        }
    return walk(d, check_ref, check_ref);
}

/* ---- Mailboxes --------------------------------------------------------------------------------------------------- */

static enum tr_status use_append(struct derivation *d, struct use_list *list, int step, int chunk)
{
    if (d->nuses == d->uses_capacity) {
        int capacity = d->uses_capacity ? 2 * d->uses_capacity : 256;
        struct use *uses = realloc(d->uses, (size_t)capacity * sizeof *uses);
        if (!uses)
            return out_of_memory();
        d->uses = uses;
        d->uses_capacity = capacity;
    }
    d->uses[d->nuses] = (struct use){.step = step, .chunk = chunk, .next = -1};
    if (list->head < 0)
        list->head = d->nuses;
    else
        d->uses[list->tail].next = d->nuses;
    list->tail = d->nuses++;
    return TR_OK;
}

static enum tr_status box_write(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    if (ref->buffer != TR_BOX)
        return TR_OK;
    const struct tr_step *t = step_at(d, rank, step);
    enum tr_status status = TR_OK;
    for (int j = 0; j < t->span && !status; j++) {
        struct use_list *writes = &d->slots[ref->rank * d->s->nslots + ref->index + j].writes;
        if (writes->rank >= 0 && writes->rank != rank)
            return bad_ref(d, rank, step, ref, "a mailbox slot has two writers");
        if (writes->rank >= 0 && d->to->ll)
            return bad_ref(d, rank, step, ref,
                           "LL needs a slot of its own for every message (unique), but writes again");
        writes->rank = rank;
        status = use_append(d, writes, step, t->chunk + j);
    }
    return status;
}

static enum tr_status box_read(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    if (ref->buffer != TR_BOX)
        return TR_OK;
    if (ref->rank != rank)
        return bad_ref(d, rank, step, ref, "it reads another rank's mailbox");
    const struct tr_step *t = step_at(d, rank, step);
    enum tr_status status = TR_OK;
    for (int j = 0; j < t->span && !status; j++) {
        struct use_list *reads = &d->slots[ref->rank * d->s->nslots + ref->index + j].reads;
        reads->rank = rank;
        status = use_append(d, reads, step, t->chunk + j);
    }
    return status;
}

static enum tr_status unpaired(const struct derivation *d, int owner, int slot, int rank, int use, const char *what)
{
    const struct use *u = &d->uses[use];
    return tr_error(TR_ERR_ARGUMENT, "rank %d, step %d: chunk %d in BOX slot %d of rank %d %s", rank, u->step, u->chunk,
                    slot, owner, what);
}

/* All uses of one piece come before those of the next piece in the same copy of the slot. */
static bool pieces_in_turn(const struct derivation *d, const struct use_list *list)
{
    int first = d->uses[list->head].step, last = d->uses[list->tail].step;
    return first == last || in_program_order(d->s->ranks[list->rank].steps, last, d->s->depth, first);
}

/* The k-th read follows the k-th write, the next write follows the read; after a piece's last read comes the first
 * write of the piece that takes the same copy of the slot. */
static enum tr_status slot_edges(struct derivation *d, int owner, int slot)
{
    const struct slot *box = &d->slots[owner * d->s->nslots + slot];
    int writer = box->writes.rank, write = box->writes.head, read = box->reads.head;
    enum tr_status status = TR_OK;
    while (write >= 0 && read >= 0 && !status) {
        const struct use *w = &d->uses[write], *r = &d->uses[read];
        status = edge_add(d, writer, w->step, 0, d->to->ll, owner, r->step, "it reads what the other writes");
        bool wrap = w->next < 0;
        const struct use *next = &d->uses[wrap ? box->writes.head : w->next];
        if (!status && !d->to->ll)
            status = edge_add(d, owner, r->step, wrap ? d->s->depth : 0, false, writer, next->step,
                              "it writes into the slot that the other reads");
        write = w->next;
        read = r->next;
    }
    if (status)
        return status;
    if (write >= 0)
        return unpaired(d, owner, slot, writer, write, "is never read");
    if (read >= 0)
        return unpaired(d, owner, slot, owner, read, "is read but never written");
    if (writer >= 0 && !d->to->ll && !(pieces_in_turn(d, &box->writes) && pieces_in_turn(d, &box->reads)))
        return unpaired(d, owner, slot, writer, box->writes.head, "mixes pieces: the lags need more copies (depth)");
    return TR_OK;
}

static enum tr_status derive_boxes(struct derivation *d)
{
    enum tr_status status = walk(d, box_read, box_write);
    for (int owner = 0; owner < d->s->spec.nranks; owner++)
        for (int slot = 0; slot < d->s->nslots && !status; slot++)
            status = slot_edges(d, owner, slot);
    return status;
}

/* ---- User memory ------------------------------------------------------------------------------------------------- */

/* Another rank's user memory is touched only between its entry and its exit. */
static enum tr_status visit_edges(struct derivation *d, int rank, int step, int host)
{
    if (host == rank)
        return TR_OK;
    enum tr_status status = edge_add(d, host, TR_ENTRY, 0, false, rank, step, "");
    if (status)
        return status;
    return edge_add(d, rank, step, 0, false, host, d->s->ranks[host].nsteps, "");
}

static enum tr_status user_write(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    if (ref->buffer == TR_BOX)
        return TR_OK;
    if (ref->buffer == TR_IN)
        return bad_ref(d, rank, step, ref, "IN is never written");
    for (int j = 0; j < step_at(d, rank, step)->span; j++) {
        struct out_write *out = &d->outs[ref->rank * d->s->nchunks + ref->index + j];
        if (out->rank >= 0 && out->rank != rank)
            return bad_ref(d, rank, step, ref, "two ranks write the same chunk of OUT");
        if (out->count++ == 0)
            *out = (struct out_write){.rank = rank, .step = step, .offset = j, .count = 1};
    }
    return visit_edges(d, rank, step, ref->rank);
}

/* The chunk of OUT that is the same memory as chunk `index` of IN when the call is in place; -1: none. */
static int in_place_out(const struct tr_schedule_spec *spec, int rank, int index)
{
    switch (spec->collective) {
    case TR_ALLREDUCE:
        return index;
    case TR_REDUCE_SCATTER:
        return index == rank ? 0 : -1;
    case TR_ALLGATHER:
        return rank;
    case TR_BROADCAST:
    case TR_REDUCE:
        return rank == spec->root ? index : -1;
    default:
        return -1;
    }
}

/* In place, the write to a chunk follows every read of the input that stood there. Within one step the order is read,
 * then write, element by element, so that the chunks must stand at the same offset of the span. */
static enum tr_status in_read(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    enum tr_status status = TR_OK;
    for (int j = 0; j < step_at(d, rank, step)->span && !status; j++) {
        int index = in_place_out(&d->s->spec, ref->rank, ref->index + j);
        if (index < 0)
            continue;
        const struct out_write *out = &d->outs[ref->rank * d->s->nchunks + index];
        bool same_step = out->rank == rank && out->step == step;
        if (out->rank < 0 || (same_step && out->offset == j))
            continue;
        status = edge_add(d, rank, step, 0, false, out->rank, out->step, "in place it overwrites what the other reads");
    }
    return status;
}

static enum tr_status out_read(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    enum tr_status status = TR_OK;
    for (int j = 0; j < step_at(d, rank, step)->span && !status; j++) {
        const struct out_write *out = &d->outs[ref->rank * d->s->nchunks + ref->index + j];
        if (out->rank < 0)
            return bad_ref(d, rank, step, ref, "it reads a chunk of OUT that nobody writes");
        if (out->rank != rank && out->count > 1)
            return bad_ref(d, rank, step, ref, "it reads a chunk of OUT that another rank writes more than once");
        status = edge_add(d, out->rank, out->step, 0, false, rank, step, "it reads what the other writes");
    }
    return status;
}

static enum tr_status user_read(struct derivation *d, int rank, int step, const struct tr_ref *ref)
{
    if (ref->buffer == TR_BOX)
        return TR_OK;
    enum tr_status status = ref->buffer == TR_IN ? in_read(d, rank, step, ref) : out_read(d, rank, step, ref);
    return status ? status : visit_edges(d, rank, step, ref->rank);
}

/* Mailboxes alternate by call, which is safe when nobody leaves a call that somebody has not entered. */
static enum tr_status exit_edges(struct derivation *d)
{
    enum tr_status status = TR_OK;
    for (int rank = 0; rank < d->s->spec.nranks; rank++)
        for (int other = 0; other < d->s->spec.nranks && !status; other++)
            if (other != rank)
                status = edge_add(d, other, TR_ENTRY, 0, false, rank, d->s->ranks[rank].nsteps, "");
    return status;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static enum tr_status number_nodes(struct tr_precedence *to)
{
    int nranks = to->schedule->spec.nranks;
    to->first = malloc(((size_t)nranks + 1) * sizeof *to->first);
    if (!to->first)
        return out_of_memory();
    to->first[0] = 0;
    for (int rank = 0; rank < nranks; rank++)
        to->first[rank + 1] = to->first[rank] + to->schedule->ranks[rank].nsteps + 1;
    to->head = malloc((size_t)to->first[nranks] * sizeof *to->head);
    if (!to->head)
        return out_of_memory();
    memset(to->head, -1, (size_t)to->first[nranks] * sizeof *to->head);
    return TR_OK;
}

static enum tr_status allocate(struct derivation *d)
{
    size_t nranks = (size_t)d->s->spec.nranks, nslots = nranks * (size_t)d->s->nslots;
    size_t nouts = nranks * (size_t)d->s->nchunks;
    d->slots = malloc((nslots + 1) * sizeof *d->slots);
    d->outs = malloc((nouts + 1) * sizeof *d->outs);
    if (!d->slots || !d->outs)
        return out_of_memory();
    struct use_list unused = {.rank = -1, .head = -1, .tail = -1};
    for (size_t i = 0; i < nslots; i++)
        d->slots[i] = (struct slot){unused, unused};
    for (size_t i = 0; i < nouts; i++)
        d->outs[i] = (struct out_write){.rank = -1};
    return TR_OK;
}

enum tr_status tr_precedence_derive(struct tr_precedence *precedence, const struct tr_schedule *schedule, bool ll)
{
    *precedence = (struct tr_precedence){.schedule = schedule, .ll = ll};
    if (schedule->spec.nranks < 1 || schedule->nchunks < 1 || schedule->nslots < 0 || schedule->depth < 1)
        return tr_error(TR_ERR_ARGUMENT, "a schedule needs ranks, chunks and a depth: it has %d, %d and %d",
                        schedule->spec.nranks, schedule->nchunks, schedule->depth);
    struct derivation d = {.to = precedence, .s = schedule};
    enum tr_status status = number_nodes(precedence);
    if (!status)
        status = allocate(&d);
    if (!status)
        status = check_all(&d);
    if (!status)
        status = derive_boxes(&d);
    if (!status)
        status = walk(&d, NULL, user_write);
    if (!status)
        status = walk(&d, user_read, NULL);
    if (!status)
        status = exit_edges(&d);
    free(d.slots);
    free(d.outs);
    free(d.uses);
    return status;
}

void tr_precedence_release(struct tr_precedence *precedence)
{
    free(precedence->first);
    free(precedence->head);
    free(precedence->edges);
    *precedence = (struct tr_precedence){0};
}

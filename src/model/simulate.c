/*
 * simulate.c - discrete events over the steps of a schedule; simulate.h states the model.
 *
 * The events, in order of time and, at one time, of their making:
 *
 *     START  a rank has all inputs of a step that reads other ranks' memory: its first reads are asked for
 *     READ   a read has left its owner: the next one is asked for
 *     WRITE  a rank has reduced: what it read is free, its messages leave, the next step is looked at
 *     HEAD   the first byte of a message is at the receiver: the port in decides when it arrives
 *     LAND   a message to an OUT that somebody reads has arrived
 *
 * A rank whose step lacks something waits for one thing at a time and is woken by it; what it has found is not looked at
 * again, so that a step of n references costs n. Time stands still in between, so 33.5 million steps (a ring of 4,096
 * ranks) cost some 70 million events.
 */
#include "model/simulate.h"

#include "collectives/error.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { START, READ, WRITE, HEAD, LAND };
enum { KIND_BITS = 3, KIND_MASK = (1 << KIND_BITS) - 1 };

struct event {
    double time;
    uint32_t order; /* breaks ties: first made, first served */
    uint32_t what;  /* kind in the low bits; above them a rank (START, WRITE) or a message */
};

struct message {
    double transfer; /* on the port or link in */
    double left;     /* when its first byte left */
    int rank, step, piece;
    int ref; /* the source read, or the destination written; -1: the next free message is `rank` */
};

enum slot_state { FREE, UNDERWAY, FULL };

struct slot {
    double since;
    int writer; /* the rank that waits for it to be free, -1: none */
    uint8_t state;
    bool reader_waits; /* its owner */
};

/* A chunk of an OUT that some step reads. */
struct landing {
    int pieces;  /* written so far: pieces come in order */
    int waiting; /* the first rank that waits for the next ones, -1: none; see `rank.next` */
};

struct rank {
    double ready; /* when all that was found so far of the step's inputs is there, and the step before is over */
    double reads; /* when the reads that came in so far have arrived */
    int iteration, step;
    int ref, offset; /* the reference, and the chunk of its span, that is looked at next */
    int pending;     /* reads that have not come in */
    int first_read;  /* the source that it reads first */
    int next;        /* in the list of those that wait for a landing */
};

struct simulation {
    const struct tr_schedule *s;
    const struct tr_geometry *g;
    size_t element_bytes;
    const struct tr_sim_machine *m;
    tr_sim_observer *observe;
    void *context;
    double end;

    struct rank *ranks;
    double *port_out, *port_in; /* free from then on: nranks ports, then the links of every node */
    struct slot *slots;         /* nranks x nslots x depth */
    struct landing *landings;   /* nranks x nchunks; NULL: no step reads OUT */

    struct event *heap; /* four children a node: flat, and its entries lie together */
    size_t nevents, heap_capacity;
    uint32_t order;
    struct message *messages;
    size_t nmessages, messages_capacity;
    int free_message; /* -1: none */
    bool out_of_memory;
};

/* ---- The queue of events ----------------------------------------------------------------------------------------- */

enum { ARITY = 4 };

static bool before(const struct event *a, const struct event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

/* An array with room for one more. NULL when memory is short; the old one stays. */
static void *with_room(void *array, size_t used, size_t *capacity, size_t size)
{
    if (used < *capacity)
        return array;
    size_t more = *capacity ? *capacity * 2 : 1024;
    void *grown = realloc(array, more * size);
    if (grown)
        *capacity = more;
    return grown;
}

static void push(struct simulation *sim, double time, enum kind kind, int index)
{
    struct event *heap = with_room(sim->heap, sim->nevents, &sim->heap_capacity, sizeof *heap);
    if (!heap) {
        sim->out_of_memory = true;
        return;
    }
    sim->heap = heap;
    struct event event = {time, sim->order++, (uint32_t)index << KIND_BITS | kind};
    size_t at = sim->nevents++;
    while (at > 0 && before(&event, &heap[(at - 1) / ARITY])) {
        heap[at] = heap[(at - 1) / ARITY];
        at = (at - 1) / ARITY;
    }
    heap[at] = event;
}

static struct event pop(struct simulation *sim)
{
    struct event *heap = sim->heap, first = heap[0], last = heap[--sim->nevents];
    size_t at = 0, n = sim->nevents;
    for (size_t child = 1; child < n; child = at * ARITY + 1) {
        size_t end = child + ARITY < n ? child + ARITY : n, least = child;
        for (size_t c = child + 1; c < end; c++)
            if (before(&heap[c], &heap[least]))
                least = c;
        if (!before(&heap[least], &last))
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = last;
    return first;
}

static int new_message(struct simulation *sim, struct message message)
{
    int index = sim->free_message;
    if (index >= 0) {
        sim->free_message = sim->messages[index].rank;
    } else {
        struct message *messages =
            with_room(sim->messages, sim->nmessages, &sim->messages_capacity, sizeof *sim->messages);
        if (!messages || sim->nmessages > UINT32_MAX >> KIND_BITS) {
            sim->out_of_memory = true;
            return -1;
        }
        sim->messages = messages;
        index = (int)sim->nmessages++;
    }
    sim->messages[index] = message;
    return index;
}

static void free_message(struct simulation *sim, int index)
{
    sim->messages[index].rank = sim->free_message;
    sim->free_message = index;
}

/* ---- Bytes, ports, prices ---------------------------------------------------------------------------------------- */

static const struct tr_step *step_of(const struct simulation *sim, int rank)
{
    return &sim->s->ranks[rank].steps[sim->ranks[rank].step];
}

static int piece_of(const struct simulation *sim, int rank)
{
    return sim->ranks[rank].iteration - step_of(sim, rank)->lag;
}

/* Elements of a piece of a chunk of `length` elements. */
static size_t part(const struct tr_geometry *g, size_t length, size_t piece)
{
    size_t widest = g->tile * g->channels, start = piece * widest;
    if (start >= length)
        return 0;
    return length - start < widest ? length - start : widest;
}

/* Bytes of a piece of the chunks that a step works on: whole ones, then perhaps a shorter one, then empty ones. */
static double step_bytes(const struct simulation *sim, const struct tr_step *step, int piece)
{
    const struct tr_geometry *g = sim->g;
    size_t whole = g->stride ? g->total / g->stride : 0, first = (size_t)step->chunk, span = (size_t)step->span;
    size_t nwhole = first >= whole ? 0 : whole - first < span ? whole - first : span;
    size_t elements = nwhole * part(g, g->stride, (size_t)piece);
    if (nwhole < span && first <= whole)
        elements += part(g, g->total - whole * g->stride, (size_t)piece);
    return (double)(elements * sim->element_bytes);
}

static double transfer_us(double bytes, double gbps)
{
    return bytes / (gbps * 1e3);
}

static const struct tr_level *level_between(const struct simulation *sim, int from, int to)
{
    return from / sim->m->ranks_per_node == to / sim->m->ranks_per_node ? &sim->m->inside : &sim->m->between;
}

/* The port, or the link, that `rank` uses towards `peer` or from it. */
static int port_of(const struct simulation *sim, int rank, int peer)
{
    int size = sim->m->ranks_per_node, links = sim->m->links_per_node;
    if (rank / size == peer / size)
        return rank;
    return sim->s->spec.nranks + rank / size * links + rank % size % links;
}

static void observe_step(const struct simulation *sim, int rank, double start, double end)
{
    if (!sim->observe)
        return;
    const struct tr_sim_event event = {TR_SIM_STEP, rank, sim->ranks[rank].step, piece_of(sim, rank), -1, start, end};
    sim->observe(&event, sim->context);
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static struct slot *slot_at(const struct simulation *sim, int owner, int index, int piece)
{
    size_t depth = (size_t)sim->s->depth, row = (size_t)owner * (size_t)sim->s->nslots + (size_t)index;
    return &sim->slots[row * depth + (size_t)piece % depth];
}

static struct landing *landing_at(const struct simulation *sim, int owner, int chunk)
{
    return &sim->landings[(size_t)owner * (size_t)sim->s->nchunks + (size_t)chunk];
}

/* Whether the message in a slot is on its way at least, so that its arrival may be known; else the rank is woken then. */
static bool find_message(struct rank *r, struct slot *slot)
{
    slot->reader_waits = slot->state != FULL;
    if (!slot->reader_waits)
        r->ready = fmax(r->ready, slot->since);
    return !slot->reader_waits;
}

static bool find_room(struct rank *r, struct slot *slot, int rank)
{
    slot->writer = slot->state == FREE ? -1 : rank;
    if (slot->state == FREE)
        r->ready = fmax(r->ready, slot->since);
    return slot->state == FREE;
}

/* What is written has been written before now, so that it holds nothing up. */
static bool find_landing(struct rank *r, struct landing *landing, int rank, int piece)
{
    if (landing->pieces > piece)
        return true;
    r->next = landing->waiting;
    landing->waiting = rank;
    return false;
}

/* Whether the reference that a rank looks at holds its step up no longer than a time that is known. */
static bool find(struct simulation *sim, int rank, const struct tr_step *step, int piece)
{
    struct rank *r = &sim->ranks[rank];
    const struct tr_ref *ref = &sim->s->refs[step->ref + r->ref];
    int index = ref->index + r->offset;
    bool source = r->ref < step->nsrc;
    if (ref->buffer == TR_BOX)
        return source ? find_message(r, slot_at(sim, ref->rank, index, piece))
                      : find_room(r, slot_at(sim, ref->rank, index, piece), rank);
    if (ref->buffer == TR_OUT && source)
        return find_landing(r, landing_at(sim, ref->rank, index), rank, piece);
    r->offset = step->span - 1; /* IN is there from the start, and OUT takes what comes */
    return true;
}

static bool reads_others(const struct simulation *sim, int rank, const struct tr_step *step)
{
    for (int k = 0; k < step->nsrc; k++)
        if (sim->s->refs[step->ref + k].rank != rank)
            return true;
    return false;
}

static double work_us(const struct simulation *sim, const struct tr_step *step, double bytes)
{
    return sim->m->overhead_us * step->span + transfer_us(bytes * (step->nsrc - 1), sim->m->gamma_gbps);
}

/* The step that the rank stands at is one of this call: its piece exists. */
static bool has_piece(const struct simulation *sim, int rank)
{
    int piece = piece_of(sim, rank);
    return piece >= 0 && piece < (int)sim->g->npieces;
}

static bool is_done(const struct simulation *sim, int rank)
{
    return sim->s->ranks[rank].nsteps == 0 || sim->ranks[rank].iteration >= (int)sim->g->npieces + sim->s->max_lag;
}

/* Step over steps that have no piece in this iteration. */
static void settle(struct simulation *sim, int rank)
{
    struct rank *r = &sim->ranks[rank];
    while (!is_done(sim, rank) && (r->step >= sim->s->ranks[rank].nsteps || !has_piece(sim, rank))) {
        if (++r->step >= sim->s->ranks[rank].nsteps) {
            r->step = 0;
            r->iteration++;
        }
    }
}

/* Go on looking for the step's inputs; with all of them found, say when it starts. */
static void look(struct simulation *sim, int rank)
{
    struct rank *r = &sim->ranks[rank];
    if (is_done(sim, rank)) {
        sim->end = fmax(sim->end, r->ready);
        return;
    }
    const struct tr_step *step = step_of(sim, rank);
    int piece = piece_of(sim, rank);
    for (; r->ref < step->nsrc + step->ndst; r->ref++, r->offset = 0)
        for (; r->offset < step->span; r->offset++)
            if (!find(sim, rank, step, piece))
                return;
    if (reads_others(sim, rank, step))
        push(sim, r->ready, START, rank);
    else
        push(sim, r->ready + work_us(sim, step, step_bytes(sim, step, piece)), WRITE, rank);
}

static void wake(struct simulation *sim, int rank, double since)
{
    sim->ranks[rank].ready = fmax(sim->ranks[rank].ready, since);
    look(sim, rank);
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */

/* A message leaves `from` for `to`, at `time` or when the port is free; returns when it has left. */
static double send(struct simulation *sim, double time, int from, int to, double bytes, struct message message)
{
    const struct tr_level *level = level_between(sim, from, to);
    double *port = &sim->port_out[port_of(sim, from, to)];
    message.transfer = transfer_us(bytes, level->beta_gbps);
    message.left = fmax(time, *port);
    *port = message.left + message.transfer;
    int index = new_message(sim, message);
    if (index >= 0)
        push(sim, message.left + level->alpha_us, HEAD, index);
    return message.left + message.transfer;
}

/* Ask for the source at `place`, counted from the first one read, or the next after it, that lies in the rank's own node
 * (or in others); the one after it follows when this one has left. */
static void ask(struct simulation *sim, int rank, int place, bool inside, double now)
{
    struct rank *r = &sim->ranks[rank];
    const struct tr_step *step = step_of(sim, rank);
    const struct tr_ref *sources = &sim->s->refs[step->ref];
    for (; place < step->nsrc; place++) {
        int k = (r->first_read + place) % step->nsrc, from = sources[k].rank;
        if (from == rank || (level_between(sim, from, rank) == &sim->m->inside) != inside)
            continue;
        int piece = piece_of(sim, rank);
        struct message message = {.rank = rank, .step = r->step, .piece = piece, .ref = step->ref + k};
        double left = send(sim, now, from, rank, step_bytes(sim, step, piece), message);
        message.ref = place;
        message.piece = inside;
        int index = new_message(sim, message);
        if (index >= 0)
            push(sim, left, READ, index);
        return;
    }
}

static void read_next(struct simulation *sim, int index, double now)
{
    const struct message message = sim->messages[index];
    free_message(sim, index);
    ask(sim, message.rank, message.ref + 1, message.piece, now);
}

static void start(struct simulation *sim, int rank, double now)
{
    struct rank *r = &sim->ranks[rank];
    const struct tr_step *step = step_of(sim, rank);
    r->pending = 0;
    r->first_read = 0;
    r->reads = now;
    for (int k = step->nsrc - 1; k >= 0; k--) {
        int from = sim->s->refs[step->ref + k].rank;
        r->pending += from != rank;
        r->first_read = from > rank ? k : r->first_read;
    }
    ask(sim, rank, 0, true, now);
    ask(sim, rank, 0, false, now);
}

static void free_sources(struct simulation *sim, int rank, const struct tr_step *step, int piece, double now)
{
    for (int k = 0; k < step->nsrc; k++) {
        const struct tr_ref *ref = &sim->s->refs[step->ref + k];
        for (int j = 0; ref->buffer == TR_BOX && j < step->span; j++) {
            struct slot *slot = slot_at(sim, rank, ref->index + j, piece);
            slot->state = FREE;
            slot->since = now;
            int writer = slot->writer;
            slot->writer = -1;
            if (writer >= 0)
                wake(sim, writer, now);
        }
    }
}

static void land(struct simulation *sim, const struct tr_ref *ref, int span, double now)
{
    for (int j = 0; j < span; j++) {
        struct landing *landing = landing_at(sim, ref->rank, ref->index + j);
        int waiting = landing->waiting;
        landing->pieces++;
        landing->waiting = -1;
        while (waiting >= 0) {
            int next = sim->ranks[waiting].next;
            wake(sim, waiting, now);
            waiting = next;
        }
    }
}

static void write(struct simulation *sim, int rank, double now)
{
    struct rank *r = &sim->ranks[rank];
    const struct tr_step *step = step_of(sim, rank);
    int piece = piece_of(sim, rank);
    double bytes = step_bytes(sim, step, piece), left = now;
    free_sources(sim, rank, step, piece, now);
    for (int k = step->nsrc; k < step->nsrc + step->ndst; k++) {
        const struct tr_ref *ref = &sim->s->refs[step->ref + k];
        for (int j = 0; ref->buffer == TR_BOX && j < step->span; j++)
            slot_at(sim, ref->rank, ref->index + j, piece)->state = UNDERWAY;
        if (ref->rank != rank) {
            struct message message = {.rank = rank, .step = r->step, .piece = piece, .ref = step->ref + k};
            left = fmax(left, send(sim, now, rank, ref->rank, bytes, message));
        } else if (ref->buffer == TR_OUT && sim->landings) {
            land(sim, ref, step->span, now);
        }
    }
    observe_step(sim, rank, r->ready, left);
    r->ready = left;
    r->step++;
    r->ref = r->offset = 0;
    settle(sim, rank);
    look(sim, rank);
}

static void fill(struct simulation *sim, const struct tr_ref *ref, int span, int piece, double since)
{
    for (int j = 0; j < span; j++) {
        struct slot *slot = slot_at(sim, ref->rank, ref->index + j, piece);
        bool waits = slot->reader_waits;
        slot->state = FULL;
        slot->since = since;
        slot->reader_waits = false;
        if (waits)
            wake(sim, ref->rank, since);
    }
}

/* A read has arrived; with the last of a step, its reduction begins. */
static void take(struct simulation *sim, int rank, double arrived)
{
    struct rank *r = &sim->ranks[rank];
    r->reads = fmax(r->reads, arrived);
    if (--r->pending > 0)
        return;
    const struct tr_step *step = step_of(sim, rank);
    push(sim, r->reads + work_us(sim, step, step_bytes(sim, step, piece_of(sim, rank))), WRITE, rank);
}

static void arrive(struct simulation *sim, int index, double now)
{
    const struct message message = sim->messages[index];
    const struct tr_step *step = &sim->s->ranks[message.rank].steps[message.step];
    const struct tr_ref *ref = &sim->s->refs[message.ref];
    bool read = message.ref < step->ref + step->nsrc;
    int to = read ? message.rank : ref->rank, from = read ? ref->rank : message.rank;
    double *port = &sim->port_in[port_of(sim, to, from)];
    double arrived = fmax(now, *port) + message.transfer;
    *port = arrived;
    sim->end = fmax(sim->end, arrived);
    if (sim->observe) {
        const struct tr_sim_event event = {read ? TR_SIM_READ : TR_SIM_SEND,
                                           message.rank,
                                           message.step,
                                           message.piece,
                                           ref->rank,
                                           message.left,
                                           arrived};
        sim->observe(&event, sim->context);
    }
    if (!read && ref->buffer == TR_OUT && sim->landings) {
        push(sim, arrived, LAND, index);
        return;
    }
    free_message(sim, index);
    if (read)
        take(sim, to, arrived);
    else if (ref->buffer == TR_BOX)
        fill(sim, ref, step->span, message.piece, arrived);
}

static void arrive_out(struct simulation *sim, int index, double now)
{
    const struct message message = sim->messages[index];
    free_message(sim, index);
    land(sim, &sim->s->refs[message.ref], sim->s->ranks[message.rank].steps[message.step].span, now);
}

/* ---- A simulation ------------------------------------------------------------------------------------------------ */

typedef void handler(struct simulation *sim, int index, double now);
static handler *const handlers[] = {
    [START] = start, [READ] = read_next, [WRITE] = write, [HEAD] = arrive, [LAND] = arrive_out};

static enum tr_status stuck(const struct simulation *sim)
{
    for (int r = 0; r < sim->s->spec.nranks; r++)
        if (!is_done(sim, r))
            return tr_error(TR_ERR_INTERNAL, "the %s schedule deadlocks: rank %d waits for ever in step %d, piece %d",
                            tr_algorithm_name(sim->s->spec.algorithm), r, sim->ranks[r].step, piece_of(sim, r));
    return TR_OK;
}

static enum tr_status out_of_memory(const struct simulation *sim)
{
    return tr_error(TR_ERR_MEMORY, "no memory to simulate the %s schedule of %d ranks; ask for fewer ranks",
                    tr_algorithm_name(sim->s->spec.algorithm), sim->s->spec.nranks);
}

static bool reads_out(const struct tr_schedule *s)
{
    for (int r = 0; r < s->spec.nranks; r++)
        for (int i = 0; i < s->ranks[r].nsteps; i++)
            for (int k = 0; k < s->ranks[r].steps[i].nsrc; k++)
                if (s->refs[s->ranks[r].steps[i].ref + k].buffer == TR_OUT)
                    return true;
    return false;
}

static bool allocate(struct simulation *sim)
{
    const struct tr_schedule *s = sim->s;
    size_t n = (size_t)s->spec.nranks, nodes = (n - 1) / (size_t)sim->m->ranks_per_node + 1;
    size_t ports = n + nodes * (size_t)(sim->m->links_per_node > 0 ? sim->m->links_per_node : 1);
    size_t nslots = n * (size_t)s->nslots * (size_t)s->depth, nlandings = reads_out(s) ? n * (size_t)s->nchunks : 0;
    sim->ranks = calloc(n, sizeof *sim->ranks);
    sim->port_out = calloc(ports, sizeof *sim->port_out);
    sim->port_in = calloc(ports, sizeof *sim->port_in);
    sim->slots = malloc((nslots ? nslots : 1) * sizeof *sim->slots);
    sim->landings = nlandings ? malloc(nlandings * sizeof *sim->landings) : NULL;
    if (!sim->ranks || !sim->port_out || !sim->port_in || !sim->slots || (nlandings && !sim->landings))
        return false;
    for (size_t i = 0; i < nslots; i++)
        sim->slots[i] = (struct slot){.writer = -1};
    for (size_t i = 0; i < nlandings; i++)
        sim->landings[i] = (struct landing){.waiting = -1};
    return true;
}

static void release(struct simulation *sim)
{
    free(sim->ranks);
    free(sim->port_out);
    free(sim->port_in);
    free(sim->slots);
    free(sim->landings);
    free(sim->heap);
    free(sim->messages);
}

static enum tr_status run(struct simulation *sim)
{
    for (int r = 0; r < sim->s->spec.nranks; r++)
        sim->ranks[r].ready = sim->m->launch_us;
    for (int r = 0; r < sim->s->spec.nranks; r++) {
        settle(sim, r);
        look(sim, r);
    }
    while (sim->nevents > 0 && !sim->out_of_memory) {
        struct event event = pop(sim);
        handlers[event.what & KIND_MASK](sim, (int)(event.what >> KIND_BITS), event.time);
    }
    return sim->out_of_memory ? out_of_memory(sim) : stuck(sim);
}

const char *tr_sim_machine_fault(const struct tr_sim_machine *m, int nranks)
{
    if (m->ranks_per_node < 1)
        return "a node has no rank";
    if (nranks > m->ranks_per_node && m->links_per_node < 1)
        return "several nodes have no link";
    if (!(m->launch_us >= 0) || !(m->overhead_us >= 0) || isinf(m->overhead_us) || !(m->inside.alpha_us >= 0) ||
        !(m->between.alpha_us >= 0) || isinf(m->launch_us) || isinf(m->inside.alpha_us) || isinf(m->between.alpha_us))
        return "a latency is negative or not finite";
    if (!(m->gamma_gbps > 0) || !(m->inside.beta_gbps > 0) ||
        (nranks > m->ranks_per_node && !(m->between.beta_gbps > 0)))
        return "a bandwidth is not above 0";
    return NULL;
}

enum tr_status tr_simulate(const struct tr_schedule *schedule, const struct tr_geometry *geometry, size_t element_bytes,
                           const struct tr_sim_machine *machine, tr_sim_observer *observe, void *context, double *us)
{
    int n = schedule->spec.nranks;
    if (n > TR_SIM_MAX_RANKS)
        return tr_error(TR_ERR_ARGUMENT, "%d ranks are more than the %d that can be simulated; closed forms go further",
                        n, TR_SIM_MAX_RANKS);
    const char *fault = tr_sim_machine_fault(machine, n);
    if (fault)
        return tr_error(TR_ERR_ARGUMENT, "the machine to simulate makes no sense: %s", fault);
    struct simulation sim = {.s = schedule,
                             .g = geometry,
                             .element_bytes = element_bytes,
                             .m = machine,
                             .observe = observe,
                             .context = context,
                             .free_message = -1};
    enum tr_status status = allocate(&sim) ? run(&sim) : out_of_memory(&sim);
    release(&sim);
    if (status == TR_OK)
        *us = sim.end;
    return status;
}

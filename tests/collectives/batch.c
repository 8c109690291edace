/* batch.c - running many calls of collectives back to back and checking every byte that they could have touched. */
#include "batch.h"
#include "memory.h"
#include "tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_CASES = 128,
    GUARD = 256, /* bytes */
    POISON = 0xaa,
    LEAST_ARENA = 2 << 20,
    LL_FLOOR = 2048 /* bytes of a vector that every packet protocol must carry */
};

struct batch {
    MPI_Comm mpi;
    struct tr_comm *comm;
    int rank, nranks;
    size_t arena_bytes, used;
    char *arenas[2]; /* plain, registered */
    char *image, *result, *again;
    struct point point;
    size_t element;
    struct test_case cases[MOST_CASES];
    int ncases;
    bool broken;
    uint64_t delays; /* state of the generator; 0: no delays */
    struct tally tallies[TR_COLLECTIVE_COUNT][TR_ALGORITHM_COUNT];
    struct batch_times times;
};

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static void *allocate(size_t bytes)
{
    void *ptr = malloc(bytes ? bytes : 1);
    if (!ptr)
        tap_bail_out("no %zu bytes of memory", bytes);
    return ptr;
}

struct batch *batch_new(MPI_Comm mpi, struct tr_comm *comm, size_t largest)
{
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        tap_bail_out("no memory for a batch");
    batch->mpi = mpi;
    batch->comm = comm;
    batch->rank = tr_comm_rank(comm);
    batch->nranks = tr_comm_size(comm);
    batch->arena_bytes = 2 * largest + 8 * GUARD;
    if (batch->arena_bytes < LEAST_ARENA)
        batch->arena_bytes = LEAST_ARENA;
    memory_attach(comm);
    void *shared;
    if (tr_mem_alloc(comm, batch->arena_bytes, &shared) != TR_OK)
        tap_bail_out("tr_mem_alloc: %s", tr_last_error());
    batch->arenas[true] = shared;
    batch->arenas[false] = memory_new(batch->arena_bytes);
    batch->image = memory_new_image(batch->arena_bytes);
    batch->result = memory_new_image(batch->arena_bytes);
    batch->again = memory_new_image(batch->arena_bytes);
    return batch;
}

void batch_delete(struct batch *batch)
{
    if (!batch->broken && tr_mem_free(batch->comm, batch->arenas[true]) != TR_OK)
        tap_bail_out("tr_mem_free: %s", tr_last_error());
    memory_delete(batch->arenas[false]);
    memory_delete_image(batch->image);
    memory_delete_image(batch->result);
    memory_delete_image(batch->again);
    free(batch);
}

const struct tally *batch_tally(const struct batch *batch, enum tr_collective collective, enum tr_algorithm algorithm)
{
    return &batch->tallies[collective][algorithm];
}

const struct batch_times *batch_times(const struct batch *batch)
{
    return &batch->times;
}

/* ---- Points ------------------------------------------------------------------------------------------------------ */

static void expect(const struct data *data, size_t first, size_t count, struct expectation *expectation)
{
    expectation->bits = allocate(count * tr_datatype_size(data->datatype));
    double *value = allocate(count * sizeof *value), *bound = allocate(count * sizeof *bound);
    expectation->value = value;
    expectation->bound = bound;
    reference_reduce(data, first, count, expectation);
    if (!expectation->bound) {
        free(value);
        free(bound);
    }
}

static void expectation_free(struct expectation *expectation)
{
    free(expectation->bits);
    free(expectation->value);
    free(expectation->bound);
}

bool batch_begin_point(struct batch *batch, const struct data *data, size_t count, size_t segment)
{
    double start = tap_seconds();
    size_t element = tr_datatype_size(data->datatype), n = (size_t)batch->nranks;
    size_t most = count > n * segment ? count : n * segment, longest = count > segment ? count : segment;
    struct point *point = &batch->point;
    *point = (struct point){.data = *data, .count = count, .segment = segment, .longest = longest};
    batch->element = element;
    point->input = allocate(most * element);
    point->inputs = allocate(n * longest * element);
    reference_fill(data, batch->rank, 0, most, point->input);
    for (int r = 0; r < batch->nranks; r++)
        reference_fill(data, r, 0, longest, point->inputs + (size_t)r * longest * element);
    expect(data, 0, count, &point->whole);
    expect(data, (size_t)batch->rank * segment, segment, &point->own);
    batch->times.reference += tap_seconds() - start;
    return !batch->broken;
}

static void point_free(struct point *point)
{
    free(point->input);
    free(point->inputs);
    expectation_free(&point->whole);
    expectation_free(&point->own);
}

/* ---- Slots ------------------------------------------------------------------------------------------------------- */

static bool is_per_rank(enum tr_collective collective)
{
    return collective == TR_REDUCE_SCATTER || collective == TR_ALLGATHER;
}

static size_t call_count(const struct batch *batch, const struct test_case *c)
{
    return is_per_rank(c->collective) ? batch->point.segment : batch->point.count;
}

static size_t vector_bytes(const struct batch *batch, const struct test_case *c)
{
    size_t bytes = call_count(batch, c) * batch->element;
    return is_per_rank(c->collective) ? bytes * (size_t)batch->nranks : bytes;
}

static bool reads(const struct batch *batch, const struct test_case *c)
{
    return c->collective != TR_BROADCAST || batch->rank == c->root;
}

static bool writes(const struct batch *batch, const struct test_case *c)
{
    return c->collective != TR_REDUCE || batch->rank == c->root;
}

static size_t align(size_t offset)
{
    return (offset + GUARD - 1) / GUARD * GUARD;
}

/* Place the buffers from byte `begin` on: the same on every rank, whether or not it has a use for them. */
static void lay_out(const struct batch *batch, struct test_case *c, size_t begin)
{
    size_t vector = vector_bytes(batch, c), segment = call_count(batch, c) * batch->element;
    size_t in = c->collective == TR_ALLGATHER ? segment : vector;
    size_t out = c->collective == TR_REDUCE_SCATTER ? segment : vector;
    c->begin = begin;
    c->in = begin + GUARD + c->in_shift * batch->element;
    c->out = align(c->in + in) + GUARD + c->out_shift * batch->element;
    if (c->in_place) {
        size_t own = (size_t)batch->rank * segment;
        c->out = c->collective == TR_REDUCE_SCATTER ? c->in + own : c->in;
        c->in = c->collective == TR_ALLGATHER ? c->in + own : c->in;
        c->end = align(begin + GUARD + c->in_shift * batch->element + vector) + GUARD;
    } else {
        c->end = align(c->out + out) + GUARD;
    }
    c->in_bytes = reads(batch, c) ? in : 0;
    c->out_bytes = writes(batch, c) ? out : 0;
}

static void draw(const struct batch *batch, const struct test_case *c)
{
    memset(batch->image + c->begin, POISON, c->end - c->begin);
    memcpy(batch->image + c->in, batch->point.input, c->in_bytes);
}

bool batch_reduces(enum tr_collective collective)
{
    return collective == TR_ALLREDUCE || collective == TR_REDUCE_SCATTER || collective == TR_REDUCE;
}

bool batch_is_rooted(enum tr_collective collective)
{
    return collective == TR_BROADCAST || collective == TR_REDUCE;
}

/* ---- Calling ----------------------------------------------------------------------------------------------------- */

/* Everybody sends to the next rank; even ranks send first. */
static enum tr_status pass_on(const struct batch *batch, const char *in, char *out, size_t count)
{
    int next = (batch->rank + 1) % batch->nranks, previous = (batch->rank + batch->nranks - 1) % batch->nranks;
    enum tr_status status = TR_OK;
    for (int turn = 0; turn < 2 && status == TR_OK; turn++)
        status = turn == batch->rank % 2
                     ? tr_send(in, count, batch->point.data.datatype, next, batch->comm, memory_stream())
                     : tr_recv(out, count, batch->point.data.datatype, previous, batch->comm, memory_stream());
    return status;
}

static enum tr_status call(const struct batch *batch, const struct test_case *c)
{
    char *arena = batch->arenas[c->registered];
    size_t count = call_count(batch, c);
    bool has_buffers = count > 0 || c->in_shift == 0; /* count 0: any pointer will do, NULL too */
    const char *in = reads(batch, c) && has_buffers ? arena + c->in : NULL;
    char *out = (writes(batch, c) || !c->in_place) && has_buffers ? arena + c->out : NULL;
    enum tr_datatype datatype = batch->point.data.datatype;
    enum tr_op op = batch->point.data.op;
    switch (c->collective) {
    case TR_ALLREDUCE:
        return tr_allreduce(in, out, count, datatype, op, batch->comm, memory_stream());
    case TR_REDUCE_SCATTER:
        return tr_reduce_scatter(in, out, count, datatype, op, batch->comm, memory_stream());
    case TR_ALLGATHER:
        return tr_allgather(in, out, count, datatype, batch->comm, memory_stream());
    case TR_BROADCAST:
        return tr_broadcast(in, out, count, datatype, c->root, batch->comm, memory_stream());
    case TR_REDUCE:
        return tr_reduce(in, out, count, datatype, op, c->root, batch->comm, memory_stream());
    default:
        return pass_on(batch, in, out, count);
    }
}

/* ---- Verdicts ---------------------------------------------------------------------------------------------------- */

static void describe(const struct batch *batch, const struct test_case *c, char *text, size_t bytes)
{
    const struct data *data = &batch->point.data;
    snprintf(text, bytes,
             "%s by %s, protocol %s, %d channels, %zu x %s %s, %s values, root %d, %s%s, shifted by %zu and %zu",
             tr_collective_name(c->collective), tr_algorithm_name(c->tuning.algorithm),
             tr_protocol_name(c->tuning.protocol), c->tuning.channels, call_count(batch, c),
             tr_datatype_name(data->datatype), tr_op_name(data->op), reference_values_name(data->values), c->root,
             c->registered ? "registered" : "plain", c->in_place ? ", in place" : "", c->in_shift, c->out_shift);
}

__attribute__((format(printf, 3, 4))) static void fail(struct batch *batch, const struct test_case *c,
                                                       const char *format, ...)
{
    struct tally *tally = &batch->tallies[c->collective][c->tuning.algorithm];
    if (tally->failures++ > 0)
        return;
    char about[300], what[600];
    va_list arguments;
    va_start(arguments, format);
    describe(batch, c, about, sizeof about);
    vsnprintf(what, sizeof what, format, arguments);
    snprintf(tally->why, sizeof tally->why, "%s: %s", about, what);
    va_end(arguments);
}

static bool is_packets(enum tr_protocol protocol)
{
    return protocol == TR_PROTOCOL_LL || protocol == TR_PROTOCOL_LL128;
}

/* A call may fail for one reason: it asked for packets, and the vector is too long for them. */
static void judge_status(struct batch *batch, struct test_case *c)
{
    if (c->status == TR_OK)
        return;
    c->refused = c->status == TR_ERR_UNSUPPORTED && is_packets(c->tuning.protocol) &&
                 vector_bytes(batch, c) > LL_FLOOR && strstr(tr_last_error(), "carries at most");
    if (c->refused)
        return;
    fail(batch, c, "%s: %s", tr_strerror(c->status), tr_last_error());
    if (c->status != TR_ERR_UNSUPPORTED && c->status != TR_ERR_ARGUMENT)
        batch->broken = true;
}

/* Bytes a .. b of the slot must be as they were. */
static void check_untouched(struct batch *batch, const struct test_case *c, size_t a, size_t b)
{
    const char *image = batch->image, *result = batch->result;
    if (memcmp(image + a, result + a, b - a) == 0)
        return;
    while (image[a] == result[a])
        a++;
    fail(batch, c, "byte %td of the slot (sendbuf %td +%zu, recvbuf %td +%zu) was 0x%02x and became 0x%02x",
         a - c->begin, c->in - c->begin, c->in_bytes, c->out - c->begin, c->out_bytes, (unsigned char)image[a],
         (unsigned char)result[a]);
}

static void fail_at(struct batch *batch, const struct test_case *c, const void *expected, const void *result, size_t i)
{
    char want[64], have[64];
    enum tr_datatype datatype = batch->point.data.datatype;
    reference_print(datatype, expected, i, want, sizeof want);
    reference_print(datatype, result, i, have, sizeof have);
    fail(batch, c, "element %zu is %s, should be %s", i, have, want);
}

static void check_reduced(struct batch *batch, const struct test_case *c, const struct expectation *expected)
{
    const char *result = batch->result + c->out;
    size_t count = c->out_bytes / batch->element;
    size_t wrong = reference_compare(&batch->point.data, expected, result, count);
    if (wrong < count)
        fail_at(batch, c, expected->bits, result, wrong);
}

/* The first `count` elements of `source`'s input must stand in recvbuf from element `at` on. */
static void check_copied(struct batch *batch, const struct test_case *c, int source, size_t at, size_t count)
{
    const char *expected = batch->point.inputs + (size_t)source * batch->point.longest * batch->element;
    const char *result = batch->result + c->out + at * batch->element;
    size_t i = 0;
    if (memcmp(expected, result, count * batch->element) == 0)
        return;
    while (memcmp(expected + i * batch->element, result + i * batch->element, batch->element) == 0)
        i++;
    fail_at(batch, c, expected, result, i);
}

static void check_recvbuf(struct batch *batch, const struct test_case *c)
{
    size_t count = call_count(batch, c);
    switch (c->collective) {
    case TR_ALLREDUCE:
    case TR_REDUCE:
        check_reduced(batch, c, &batch->point.whole);
        break;
    case TR_REDUCE_SCATTER:
        check_reduced(batch, c, &batch->point.own);
        break;
    case TR_BROADCAST:
        check_copied(batch, c, c->root, 0, count);
        break;
    case TR_ALLGATHER:
        for (int r = 0; r < batch->nranks; r++)
            check_copied(batch, c, r, (size_t)r * count, count);
        break;
    default:
        check_copied(batch, c, (batch->rank + batch->nranks - 1) % batch->nranks, 0, count);
    }
}

static void check(struct batch *batch, const struct test_case *c)
{
    if (c->refused || c->out_bytes == 0) {
        check_untouched(batch, c, c->begin, c->end);
        return;
    }
    check_untouched(batch, c, c->begin, c->out);
    check_untouched(batch, c, c->out + c->out_bytes, c->end);
    check_recvbuf(batch, c);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

void batch_set_delays(struct batch *batch, unsigned seed)
{
    batch->delays = seed ? seed * 64 + (unsigned)batch->rank + 1 : 0;
}

/* Before one call in 16 on the average: up to half a millisecond. */
static void delay(struct batch *batch)
{
    if (!batch->delays)
        return;
    batch->delays = batch->delays * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    unsigned random = (unsigned)(batch->delays >> 33);
    if (random % 16 == 0)
        usleep(random / 16 % 500);
}

static void call_all(struct batch *batch)
{
    for (int i = 0; i < batch->ncases && !batch->broken; i++) {
        struct test_case *c = &batch->cases[i];
        delay(batch);
        c->refused = false;
        c->status = tr_comm_set_tuning(batch->comm, &c->tuning);
        if (c->status == TR_OK)
            c->status = call(batch, c);
        judge_status(batch, c);
        batch->tallies[c->collective][c->tuning.algorithm].calls++;
    }
}

/* Copy the image to the arena, call (launch the graph), and copy the arena to `to`. */
static void run_once(struct batch *batch, char *to, const struct capture *capture)
{
    char *arena = batch->arenas[batch->cases[0].registered];
    double start = tap_seconds();
    memory_put(arena, batch->image, batch->used);
    double put = tap_seconds();
    if (capture)
        capture->launch();
    else
        call_all(batch);
    double called = tap_seconds();
    memory_get(to, arena, batch->used);
    double got = tap_seconds();
    if (!batch->broken && tr_comm_async_error(batch->comm) != TR_OK) {
        batch->broken = true;
        fail(batch, &batch->cases[batch->ncases - 1], "in this or one of the %d calls before: %s", batch->ncases - 1,
             tr_last_error());
    }
    batch->times.copy += put - start + got - called;
    batch->times.call += called - put;
}

/* All-reduce: the result must be the same on every rank. Also finds out whether any rank is broken. */
static void agree(struct batch *batch)
{
    /* x and ~x: if the largest of the one is the complement of the largest of the other, all are equal */
    uint64_t mine[2 * MOST_CASES + 1] = {0}, most[2 * MOST_CASES + 1];
    for (int i = 0; i < batch->ncases; i++) {
        const struct test_case *c = &batch->cases[i];
        if (c->collective == TR_ALLREDUCE && c->status == TR_OK)
            mine[2 * i] = reference_hash(batch->result + c->out, c->out_bytes);
        mine[2 * i + 1] = ~mine[2 * i];
    }
    mine[2 * batch->ncases] = batch->broken;
    MPI_Allreduce(mine, most, 2 * batch->ncases + 1, MPI_UINT64_T, MPI_MAX, batch->mpi);
    batch->broken = most[2 * batch->ncases] != 0;
    for (int i = 0; i < batch->ncases && !batch->broken; i++)
        if (most[2 * i] != ~most[2 * i + 1])
            fail(batch, &batch->cases[i], "the result is not the same on every rank");
}

static void check_all(struct batch *batch, bool twice)
{
    for (int i = 0; i < batch->ncases; i++) {
        const struct test_case *c = &batch->cases[i];
        check(batch, c);
        if (twice && memcmp(batch->result + c->begin, batch->again + c->begin, c->end - c->begin))
            fail(batch, c, "a second run gave other bytes");
    }
}

/* Values that are rounded are reduced twice: the result must be the same from run to run. */
static void flush(struct batch *batch)
{
    if (batch->ncases == 0 || batch->broken)
        return;
    bool twice = batch->point.data.values == VALUES_REAL;
    run_once(batch, batch->result, NULL);
    if (twice)
        run_once(batch, batch->again, NULL);
    double start = tap_seconds();
    if (!batch->broken)
        check_all(batch, twice);
    double checked = tap_seconds();
    agree(batch);
    batch->times.check += checked - start;
    batch->times.agree += tap_seconds() - checked;
    batch->ncases = 0;
    batch->used = 0;
}

void batch_add(struct batch *batch, const struct test_case *added)
{
    if (batch->ncases == MOST_CASES || (batch->ncases > 0 && batch->cases[0].registered != added->registered))
        flush(batch);
    struct test_case *c = &batch->cases[batch->ncases];
    *c = *added;
    lay_out(batch, c, batch->used);
    if (c->end > batch->arena_bytes) {
        flush(batch);
        batch->cases[0] = *added;
        c = &batch->cases[0];
        lay_out(batch, c, 0);
    }
    if (c->end > batch->arena_bytes)
        tap_bail_out("a slot of %zu bytes in an arena of %zu", c->end, batch->arena_bytes);
    draw(batch, c);
    batch->used = c->end;
    batch->ncases++;
}

bool batch_replay_point(struct batch *batch, int times, const struct capture *capture)
{
    capture->begin();
    call_all(batch);
    capture->end();
    for (int i = 0; i < times && !batch->broken; i++) {
        struct data data = batch->point.data;
        size_t count = batch->point.count, segment = batch->point.segment;
        point_free(&batch->point);
        data.seed++;
        batch_begin_point(batch, &data, count, segment);
        for (int k = 0; k < batch->ncases; k++)
            draw(batch, &batch->cases[k]);
        run_once(batch, batch->result, capture);
        if (!batch->broken)
            check_all(batch, false);
        agree(batch);
    }
    batch->ncases = 0;
    batch->used = 0;
    return batch_end_point(batch);
}

bool batch_end_point(struct batch *batch)
{
    flush(batch);
    point_free(&batch->point);
    return !batch->broken;
}

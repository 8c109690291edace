/* schedule.c - building, copying and asking about schedules; the table of algorithms. */
#include "collectives/schedule.h"

#include "collectives/error.h"

#include <stdlib.h>
#include <string.h>

/* Which algorithm serves which collective: adding one is adding an entry. */
static tr_emit_fn *const emitters[TR_ALGORITHM_COUNT][TR_COLLECTIVE_COUNT] = {
    [TR_ALGORITHM_RING] =
        {
            [TR_ALLREDUCE] = tr_ring_allreduce,
            [TR_REDUCE_SCATTER] = tr_ring_reduce_scatter,
            [TR_ALLGATHER] = tr_ring_allgather,
            [TR_BROADCAST] = tr_ring_broadcast,
            [TR_REDUCE] = tr_ring_reduce,
        },
    [TR_ALGORITHM_TREE] =
        {
            [TR_ALLREDUCE] = tr_tree_allreduce,
            [TR_BROADCAST] = tr_tree_broadcast,
            [TR_REDUCE] = tr_tree_reduce,
        },
    [TR_ALGORITHM_DTREE] =
        {
            [TR_ALLREDUCE] = tr_dtree_allreduce,
            [TR_BROADCAST] = tr_dtree_broadcast,
            [TR_REDUCE] = tr_dtree_reduce,
        },
    [TR_ALGORITHM_ONESHOT] =
        {
            [TR_ALLREDUCE] = tr_oneshot_allreduce,
            [TR_REDUCE_SCATTER] = tr_oneshot_reduce_scatter,
            [TR_ALLGATHER] = tr_oneshot_allgather,
            [TR_BROADCAST] = tr_oneshot_broadcast,
            [TR_REDUCE] = tr_oneshot_reduce,
            [TR_SENDRECV] = tr_sendrecv,
        },
    [TR_ALGORITHM_TWOSHOT] =
        {
            [TR_ALLREDUCE] = tr_twoshot_allreduce,
            [TR_BROADCAST] = tr_twoshot_broadcast,
            [TR_REDUCE] = tr_twoshot_reduce,
        },
    [TR_ALGORITHM_RECURSIVE] =
        {
            [TR_ALLREDUCE] = tr_recursive_allreduce,
            [TR_REDUCE_SCATTER] = tr_recursive_reduce_scatter,
            [TR_ALLGATHER] = tr_recursive_allgather,
        },
};

bool tr_schedule_exists(enum tr_collective collective, enum tr_algorithm algorithm)
{
    return (unsigned)algorithm < TR_ALGORITHM_COUNT && (unsigned)collective < TR_COLLECTIVE_COUNT &&
           emitters[algorithm][collective];
}

bool tr_collective_in_is_one_chunk(enum tr_collective collective)
{
    return collective == TR_ALLGATHER;
}

bool tr_collective_out_is_one_chunk(enum tr_collective collective)
{
    return collective == TR_REDUCE_SCATTER;
}

static bool reduces(enum tr_collective collective)
{
    return collective == TR_ALLREDUCE || collective == TR_REDUCE_SCATTER || collective == TR_REDUCE;
}

int tr_in_index(const struct tr_schedule *s, int c)
{
    return tr_collective_in_is_one_chunk(s->spec.collective) ? 0 : c;
}

int tr_out_index(const struct tr_schedule *s, int c)
{
    return tr_collective_out_is_one_chunk(s->spec.collective) ? 0 : c;
}

int tr_rank_after(const struct tr_schedule *s, int rank, int distance)
{
    int n = s->spec.nranks;
    return (rank + distance % n + n) % n;
}

int tr_peer_slot(int sender, int owner)
{
    return sender < owner ? sender : sender - 1;
}

/* ---- Emitting ---------------------------------------------------------------------------------------------------- */

void tr_emit_step(struct tr_schedule *s, int rank, int chunk, int span, int lag)
{
    struct tr_rank_steps *r = &s->ranks[rank];
    if (r->nsteps == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 8;
        struct tr_step *steps = realloc(r->steps, (size_t)capacity * sizeof *steps);
        if (!steps) {
            s->out_of_memory = true;
            return;
        }
        r->steps = steps;
        r->capacity = capacity;
    }
    r->steps[r->nsteps++] = (struct tr_step){.chunk = chunk, .span = span, .lag = lag, .ref = s->nrefs};
    if (lag > s->max_lag)
        s->max_lag = lag;
    s->emitting = rank;
}

static struct tr_step *current_step(struct tr_schedule *s)
{
    struct tr_rank_steps *r = &s->ranks[s->emitting];
    return &r->steps[r->nsteps - 1];
}

static void add_ref(struct tr_schedule *s, struct tr_ref ref)
{
    if (s->nrefs == s->refs_capacity) {
        int capacity = s->refs_capacity ? 2 * s->refs_capacity : 64;
        struct tr_ref *refs = realloc(s->refs, (size_t)capacity * sizeof *refs);
        if (!refs) {
            s->out_of_memory = true;
            return;
        }
        s->refs = refs;
        s->refs_capacity = capacity;
    }
    s->refs[s->nrefs++] = ref;
    if (ref.buffer == TR_BOX && ref.index + current_step(s)->span > s->nslots)
        s->nslots = ref.index + current_step(s)->span;
}

void tr_emit_src(struct tr_schedule *s, int rank, enum tr_buffer buffer, int index)
{
    if (s->out_of_memory)
        return;
    add_ref(s, (struct tr_ref){rank, buffer, index});
    current_step(s)->nsrc++;
}

void tr_emit_dst(struct tr_schedule *s, int rank, enum tr_buffer buffer, int index)
{
    if (s->out_of_memory)
        return;
    add_ref(s, (struct tr_ref){rank, buffer, index});
    current_step(s)->ndst++;
}

void tr_emit_final(struct tr_schedule *s)
{
    if (!s->out_of_memory)
        current_step(s)->final = true;
}

void tr_emit_copy(struct tr_schedule *s, int rank, int chunk, struct tr_ref src, struct tr_ref dst)
{
    tr_emit_step(s, rank, chunk, 1, 0);
    tr_emit_src(s, src.rank, src.buffer, src.index);
    tr_emit_dst(s, dst.rank, dst.buffer, dst.index);
}

void tr_emit_sources_in_rank_order(struct tr_schedule *s, int rank, int chunk, int first_slot)
{
    for (int q = 0; q < s->spec.nranks; q++) {
        if (q == rank)
            tr_emit_src(s, rank, TR_IN, chunk);
        else
            tr_emit_src(s, rank, TR_BOX, first_slot + tr_peer_slot(q, rank));
    }
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

/* With one rank every collective is a copy. */
static void emit_alone(struct tr_schedule *s)
{
    s->nchunks = 1;
    tr_emit_step(s, 0, 0, 1, 0);
    tr_emit_src(s, 0, TR_IN, 0);
    tr_emit_dst(s, 0, TR_OUT, 0);
    if (reduces(s->spec.collective))
        tr_emit_final(s);
}

static enum tr_status check_spec(const struct tr_schedule_spec *spec)
{
    if (spec->nranks < 1)
        return tr_error(TR_ERR_ARGUMENT, "a schedule needs at least 1 rank, not %d", spec->nranks);
    if (spec->root < 0 || spec->root >= spec->nranks)
        return tr_error(TR_ERR_ARGUMENT, "root %d is not in 0..%d", spec->root, spec->nranks - 1);
    if (!tr_schedule_exists(spec->collective, spec->algorithm))
        return tr_error(TR_ERR_UNSUPPORTED, "algorithm %s does not serve %s", tr_algorithm_name(spec->algorithm),
                        tr_collective_name(spec->collective));
    if (spec->collective == TR_SENDRECV && spec->nranks != 2)
        return tr_error(TR_ERR_ARGUMENT, "send/receive is a schedule of 2 ranks, not %d", spec->nranks);
    return TR_OK;
}

enum tr_status tr_schedule_build(const struct tr_schedule_spec *spec, struct tr_schedule **schedule)
{
    enum tr_status status = check_spec(spec);
    if (status != TR_OK)
        return status;
    struct tr_schedule *s = calloc(1, sizeof *s);
    if (!s)
        return tr_error(TR_ERR_MEMORY, "no memory for a schedule");
    s->spec = *spec;
    s->depth = 1;
    s->ranks = calloc((size_t)spec->nranks, sizeof *s->ranks);
    if (!s->ranks)
        s->out_of_memory = true;
    else if (spec->nranks == 1)
        emit_alone(s);
    else
        emitters[spec->algorithm][spec->collective](s);
    if (s->out_of_memory) {
        tr_schedule_free(s);
        return tr_error(TR_ERR_MEMORY, "no memory for the %s schedule of %d ranks", tr_algorithm_name(spec->algorithm),
                        spec->nranks);
    }
    *schedule = s;
    return TR_OK;
}

void tr_schedule_free(struct tr_schedule *schedule)
{
    if (!schedule)
        return;
    for (int r = 0; schedule->ranks && r < schedule->spec.nranks; r++)
        free(schedule->ranks[r].steps);
    free(schedule->ranks);
    free(schedule->refs);
    free(schedule);
}

static void *copy_array(const void *from, int count, size_t element_bytes)
{
    void *to = malloc(count ? (size_t)count * element_bytes : 1);
    if (to && count)
        memcpy(to, from, (size_t)count * element_bytes);
    return to;
}

struct tr_schedule *tr_schedule_copy(const struct tr_schedule *schedule)
{
    struct tr_schedule *s = copy_array(schedule, 1, sizeof *schedule);
    if (!s)
        return NULL;
    int n = schedule->spec.nranks;
    s->ranks = calloc((size_t)n, sizeof *s->ranks);
    s->refs = copy_array(schedule->refs, schedule->nrefs, sizeof *s->refs);
    s->refs_capacity = s->nrefs;
    bool whole = s->ranks && s->refs;
    for (int r = 0; whole && r < n; r++) {
        s->ranks[r] = schedule->ranks[r];
        s->ranks[r].capacity = s->ranks[r].nsteps;
        s->ranks[r].steps = copy_array(schedule->ranks[r].steps, s->ranks[r].nsteps, sizeof *s->ranks[r].steps);
        whole = s->ranks[r].steps;
    }
    if (!whole) {
        tr_schedule_free(s);
        return NULL;
    }
    return s;
}

bool tr_schedule_is_remote(const struct tr_schedule *schedule)
{
    for (int r = 0; r < schedule->spec.nranks; r++)
        for (int i = 0; i < schedule->ranks[r].nsteps; i++) {
            const struct tr_step *step = &schedule->ranks[r].steps[i];
            const struct tr_ref *ref = &schedule->refs[step->ref];
            for (int k = 0; k < step->nsrc + step->ndst; k++)
                if (ref[k].rank != r && ref[k].buffer != TR_BOX)
                    return true;
        }
    return false;
}

/*
 * cache.c - the programs that a communicator has built, most recently used first.
 *
 * A program's shape does not depend on the vector's size, so there are few: the list is bounded by the specs that a
 * communicator can be asked for. The usual look-up is one comparison with the head.
 */
#include "collectives/check.h"
#include "collectives/comm.h"
#include "collectives/error.h"

#include <stdlib.h>

static bool matches(const struct tr_cached_program *cached, const struct tr_schedule_spec *spec,
                    enum tr_protocol protocol, int rank)
{
    const struct tr_schedule_spec *have = &cached->spec;
    return have->collective == spec->collective && have->algorithm == spec->algorithm && have->root == spec->root &&
           have->remote == spec->remote && have->unique == spec->unique && have->nranks == spec->nranks &&
           cached->protocol == protocol && cached->program->rank == rank;
}

bool tr_collective_shares(enum tr_collective collective, enum tr_buffer buffer)
{
    static const bool shares[TR_COLLECTIVE_COUNT][TR_BUFFER_COUNT] = {
        [TR_ALLREDUCE] = {[TR_IN] = true, [TR_OUT] = true},
        [TR_REDUCE_SCATTER] = {[TR_IN] = true},
        [TR_ALLGATHER] = {[TR_OUT] = true},
        [TR_BROADCAST] = {[TR_OUT] = true},
        [TR_REDUCE] = {[TR_IN] = true},
    };
    return shares[collective][buffer];
}

static bool step_respects_owners(const struct tr_schedule *schedule, int rank, const struct tr_step *step)
{
    const struct tr_ref *ref = &schedule->refs[step->ref];
    for (int k = 0; k < step->nsrc + step->ndst; k++)
        if (ref[k].rank != rank && ref[k].buffer != TR_BOX &&
            !tr_collective_shares(schedule->spec.collective, ref[k].buffer))
            return false;
    return true;
}

/* Whether the steps touch only shared buffers of other ranks. */
static bool respects_owners(const struct tr_schedule *schedule)
{
    for (int r = 0; r < schedule->spec.nranks; r++)
        for (int i = 0; i < schedule->ranks[r].nsteps; i++)
            if (!step_respects_owners(schedule, r, &schedule->ranks[r].steps[i]))
                return false;
    return true;
}

enum tr_status tr_call_schedule(const struct tr_schedule_spec *spec, struct tr_schedule **schedule)
{
    enum tr_status status = tr_schedule_build(spec, schedule);
    if (status != TR_OK || !spec->remote || respects_owners(*schedule))
        return status;
    tr_schedule_free(*schedule);
    struct tr_schedule_spec staged = *spec;
    staged.remote = false;
    return tr_schedule_build(&staged, schedule);
}

#ifdef TR_DEBUG
enum { LARGEST_CHECKED = 64 }; /* ranks; the proof of more takes too long for a call */
#endif

static enum tr_status build_from(const struct tr_schedule *schedule, enum tr_protocol protocol, int rank,
                                 struct tr_program **program)
{
    struct tr_plan *plan;
    enum tr_status status = tr_plan_build(schedule, protocol, &plan);
    if (status != TR_OK)
        return status;
#ifdef TR_DEBUG
    if (schedule->spec.nranks <= LARGEST_CHECKED)
        status = tr_check_plan(plan);
#endif
    if (status == TR_OK)
        status = tr_program_build(plan, rank, program);
    tr_plan_free(plan);
    return status;
}

static enum tr_status build(const struct tr_schedule_spec *spec, enum tr_protocol protocol, int rank,
                            struct tr_program **program)
{
    struct tr_schedule *schedule;
    enum tr_status status = tr_call_schedule(spec, &schedule);
    if (status != TR_OK)
        return status;
    status = build_from(schedule, protocol, rank, program);
    tr_schedule_free(schedule);
    return status;
}

static enum tr_status add(struct tr_comm *comm, const struct tr_schedule_spec *spec, enum tr_protocol protocol,
                          int rank)
{
    struct tr_cached_program *cached = calloc(1, sizeof *cached);
    if (!cached)
        return tr_error(TR_ERR_MEMORY, "no memory for a program");
    enum tr_status status = build(spec, protocol, rank, &cached->program);
    if (status != TR_OK) {
        free(cached);
        return status;
    }
    cached->spec = *spec;
    cached->protocol = protocol;
    cached->next = comm->programs;
    comm->programs = cached;
    comm->info.host_bytes += sizeof *cached + cached->program->bytes;
    return TR_OK;
}

enum tr_status tr_cache_get(struct tr_comm *comm, const struct tr_schedule_spec *spec, enum tr_protocol protocol,
                            int rank, struct tr_cached_program **cached)
{
    struct tr_cached_program **link = &comm->programs;
    while (*link && !matches(*link, spec, protocol, rank))
        link = &(*link)->next;
    struct tr_cached_program *found = *link;
    if (!found) {
        enum tr_status status = add(comm, spec, protocol, rank);
        if (status != TR_OK)
            return status;
    } else if (found != comm->programs) {
        *link = found->next;
        found->next = comm->programs;
        comm->programs = found;
    }
    *cached = comm->programs;
    return TR_OK;
}

void tr_cache_clear(struct tr_comm *comm)
{
    while (comm->programs) {
        struct tr_cached_program *cached = comm->programs;
        comm->programs = cached->next;
        if (comm->executor)
            comm->executor->forget(comm, cached);
        free(cached->program);
        free(cached);
    }
}

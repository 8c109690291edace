/*
 * check.c - the proof of a plan: its shape here, its behaviour in check_run.c.
 *
 * It takes nothing from the derivation in plan.c: waits and signals are read as an executor would.
 */
#include "collectives/check.h"

#include "collectives/check_run.h"
#include "collectives/error.h"

#include <limits.h>

static enum tr_status object(int rank, int step, int chunk, const char *what)
{
    return tr_error(TR_ERR_ARGUMENT, "rank %d, step %d, chunk %d: %s", rank, step, chunk, what);
}

/* ---- The schedule's shape ---------------------------------------------------------------------------------------- */

static int index_end(const struct tr_schedule *s, enum tr_buffer buffer)
{
    const int ends[TR_BUFFER_COUNT] = {
        [TR_IN] = tr_collective_in_is_one_chunk(s->spec.collective) ? 1 : s->nchunks,
        [TR_OUT] = tr_collective_out_is_one_chunk(s->spec.collective) ? 1 : s->nchunks,
        [TR_BOX] = s->nslots,
    };
    return ends[buffer];
}

static const char *ref_fault(const struct tr_schedule *s, const struct tr_step *step, const struct tr_ref *ref)
{
    if (ref->rank < 0 || ref->rank >= s->spec.nranks)
        return "names a rank that does not exist";
    if ((unsigned)ref->buffer >= TR_BUFFER_COUNT)
        return "names a buffer that does not exist";
    if (ref->index < 0 || ref->index > index_end(s, ref->buffer) - step->span)
        return ref->buffer == TR_BOX ? "touches a BOX slot past the last one" : "touches a chunk past the buffer's end";
    return NULL;
}

static const char *step_fault(const struct tr_schedule *s, const struct tr_step *step)
{
    if (step->span < 1 || step->chunk < 0 || step->chunk > s->nchunks - step->span)
        return "works on chunks outside the vector";
    if (step->lag < 0 || step->lag > s->max_lag)
        return "has a lag outside 0 .. max_lag";
    if (step->nsrc < 1 || step->ndst < 1)
        return "has no source or no destination";
    if (step->ref < 0 || step->ref > s->nrefs - step->nsrc - step->ndst)
        return "has references past the end of the table";
    const char *fault = NULL;
    for (int i = 0; i < step->nsrc + step->ndst && !fault; i++)
        fault = ref_fault(s, step, &s->refs[step->ref + i]);
    return fault;
}

static enum tr_status check_steps(const struct tr_schedule *s, int rank)
{
    for (int step = 0; step < s->ranks[rank].nsteps; step++) {
        const char *fault = step_fault(s, &s->ranks[rank].steps[step]);
        if (fault)
            return object(rank, step, s->ranks[rank].steps[step].chunk, fault);
    }
    return TR_OK;
}

/* ---- The plan's shape -------------------------------------------------------------------------------------------- */

static bool has_signal(const struct tr_sync *sync, int rank)
{
    for (int i = 0; i < sync->nsignals; i++)
        if (sync->signals[i] == rank)
            return true;
    return false;
}

static const char *wait_fault(const struct tr_plan *plan, int rank, int step, const struct tr_wait *wait)
{
    if (wait->rank < 0 || wait->rank >= plan->schedule->spec.nranks || wait->rank == rank)
        return "waits for a rank that does not exist, or for itself";
    const struct tr_rank_sync *source = &plan->ranks[wait->rank];
    if (wait->step == TR_ENTRY)
        return has_signal(&source->entry, rank) ? NULL : "waits for an entry that is not signalled to it";
    if (wait->step < 0 || wait->step >= plan->schedule->ranks[wait->rank].nsteps)
        return "waits for a step that does not exist";
    if (wait->delta < 0 || (step == TR_EXIT && wait->delta != 0))
        return "waits for a piece that does not come";
    return has_signal(&source->steps[wait->step], rank) ? NULL : "waits for a step that does not signal it";
}

/* `step` may be TR_EXIT; the sentence then names the rank's last step. */
static enum tr_status check_sync(const struct tr_plan *plan, int rank, int step, const struct tr_sync *sync)
{
    const struct tr_rank_steps *steps = &plan->schedule->ranks[rank];
    int last = steps->nsteps - 1, named = step == TR_EXIT ? last : step;
    for (int i = 0; i < sync->nwaits; i++) {
        const struct tr_wait *wait = &sync->waits[i];
        const char *fault = wait_fault(plan, rank, step, wait);
        if (fault)
            return tr_error(TR_ERR_ARGUMENT, "rank %d, step %d, chunk %d%s: %s (rank %d, step %d, %d pieces back)",
                            rank, named, named < 0 ? -1 : steps->steps[named].chunk,
                            step == TR_EXIT ? ", exit after it" : "", fault, wait->rank, wait->step, wait->delta);
    }
    return TR_OK;
}

static enum tr_status check_syncs(const struct tr_plan *plan, int rank)
{
    enum tr_status status = check_sync(plan, rank, TR_EXIT, &plan->ranks[rank].exit);
    for (int step = 0; step < plan->schedule->ranks[rank].nsteps && !status; step++)
        status = check_sync(plan, rank, step, &plan->ranks[rank].steps[step]);
    return status;
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

/* Enough pieces for every pattern of overlap: conflicts span `depth` pieces and what orders them passes through pieces
 * at most max_lag away on either side, so that from here on a further piece repeats the one before. The first use of a
 * slot copy, the first reuse and the reuse of a reused one all occur. LL is one piece. */
static int most_pieces(const struct tr_plan *plan)
{
    const struct tr_schedule *s = plan->schedule;
    return plan->protocol == TR_PROTOCOL_LL ? 1 : 2 * s->max_lag + 2 * s->depth + 1;
}

static enum tr_status check_limits(const struct tr_plan *plan)
{
    const struct tr_schedule *s = plan->schedule;
    if (s->spec.nranks > TR_CHECK_MAX_RANKS)
        return tr_error(TR_ERR_UNSUPPORTED, "a schedule of %d ranks cannot be checked: the limit is %d", s->spec.nranks,
                        TR_CHECK_MAX_RANKS);
    if (s->spec.nranks < 1 || s->nchunks < 1 || s->nslots < 0 || s->depth < 1 || s->max_lag < 0)
        return tr_error(TR_ERR_ARGUMENT, "a schedule of %d ranks, %d chunks, %d slots and depth %d makes no sense",
                        s->spec.nranks, s->nchunks, s->nslots, s->depth);
    for (int rank = 0; rank < s->spec.nranks; rank++) {
        int nsteps = s->ranks[rank].nsteps;
        if (nsteps > plan->stride)
            return object(rank, nsteps - 1, s->ranks[rank].steps[nsteps - 1].chunk,
                          "lies past the plan's stride: two steps would share a position");
        if ((long long)nsteps * most_pieces(plan) > INT16_MAX - 2)
            return tr_error(TR_ERR_UNSUPPORTED, "rank %d has %d steps, too many to check over %d pieces", rank, nsteps,
                            most_pieces(plan));
    }
    return TR_OK;
}

enum tr_status tr_check_plan(const struct tr_plan *plan)
{
    enum tr_status status = check_limits(plan);
    for (int rank = 0; rank < plan->schedule->spec.nranks && !status; rank++)
        status = check_steps(plan->schedule, rank);
    for (int rank = 0; rank < plan->schedule->spec.nranks && !status; rank++)
        status = check_syncs(plan, rank);
    int most = most_pieces(plan);
    for (int npieces = plan->schedule->max_lag ? 1 : most; npieces <= most && !status; npieces++)
        status = tr_check_run(plan, npieces);
    return status;
}

enum tr_status tr_check_spec(const struct tr_schedule_spec *spec, enum tr_protocol protocol)
{
    struct tr_schedule *schedule;
    struct tr_plan *plan;
    enum tr_status status = tr_schedule_build(spec, &schedule);
    if (status)
        return status;
    status = tr_plan_build(schedule, protocol, &plan);
    if (status)
        goto free_schedule;
    status = tr_check_plan(plan);
    tr_plan_free(plan);
free_schedule:
    tr_schedule_free(schedule);
    return status;
}

/*
 * workload.c - the schedule and the geometry of a call, as collectives.c arrives at them: under LL every message has a
 * slot of its own and the vector is one piece; otherwise registered buffers are read and written in place, and what goes
 * through mailboxes is cut to fit.
 */
#include "model/workload.h"
#include "collectives/capacity.h"
#include "collectives/error.h"
#include "collectives/exec_host.h"

static bool is_low_latency(enum tr_protocol protocol)
{
    return protocol == TR_PROTOCOL_LL || protocol == TR_PROTOCOL_LL128;
}

static struct tr_schedule_spec spec_of(const struct tr_workload *w)
{
    bool pushes =
        w->memory == TR_MEMORY_HOST && !w->oversubscribed && tr_host_push_pays(w->collective, w->bytes, w->nranks);
    return (struct tr_schedule_spec){.collective = w->collective,
                                     .algorithm = w->algorithm,
                                     .nranks = w->nranks,
                                     .remote = !is_low_latency(w->protocol) && (w->registered || pushes),
                                     .unique = is_low_latency(w->protocol)};
}

/* Payload bytes of a slot. */
static size_t capacity_of(const struct tr_workload *w, const struct tr_layout *layout)
{
    const struct tr_domain collectives = {-1, -1};
    size_t slots = layout->nslots * layout->depth;
    if (w->memory == TR_MEMORY_HOST)
        return tr_host_slot_capacity(w->protocol, &collectives, slots ? slots : 1);
    return tr_cuda_capacity(w->protocol, tr_cuda_collective_half[w->protocol], (uint32_t)w->channels, slots);
}

static bool has_segments(enum tr_collective collective)
{
    return tr_collective_in_is_one_chunk(collective) || tr_collective_out_is_one_chunk(collective);
}

static enum tr_status cut(const struct tr_workload *w, const struct tr_schedule *schedule, struct tr_geometry *geometry)
{
    struct tr_layout layout = tr_schedule_layout(schedule);
    size_t capacity = capacity_of(w, &layout);
    size_t count = w->bytes / w->element_bytes / (has_segments(w->collective) ? (size_t)w->nranks : 1);
    if (!is_low_latency(w->protocol)) {
        *geometry = tr_layout_cut(&layout, w->collective, count, w->element_bytes, (uint32_t)w->channels, capacity);
        return TR_OK;
    }
    struct tr_geometry g = tr_layout_whole(&layout, w->collective, count, w->element_bytes, (uint32_t)w->channels);
    size_t longest = g.tile < g.stride ? g.tile : g.stride;
    if (!capacity || (layout.nslots && longest * w->element_bytes > capacity))
        return tr_error(TR_ERR_UNSUPPORTED,
                        "protocol %s does not carry %zu bytes of %s with %s on %d ranks: use direct",
                        tr_protocol_name(w->protocol), w->bytes, tr_collective_name(w->collective),
                        tr_algorithm_name(w->algorithm), w->nranks);
    *geometry = g;
    return TR_OK;
}

static enum tr_status check(const struct tr_workload *w)
{
    if (w->memory != TR_MEMORY_HOST && w->memory != TR_MEMORY_CUDA)
        return tr_error(TR_ERR_ARGUMENT, "a workload is in host or cuda memory, not in %s", tr_memory_name(w->memory));
    if (w->protocol <= TR_PROTOCOL_AUTO || w->protocol >= TR_PROTOCOL_COUNT)
        return tr_error(TR_ERR_ARGUMENT, "a workload has protocol LL, LL128 or direct, not %s",
                        tr_protocol_name(w->protocol));
    if (w->channels < 1 || w->channels > 65535 || w->element_bytes < 1)
        return tr_error(TR_ERR_ARGUMENT, "a workload of %d channels and elements of %zu bytes is out of range",
                        w->channels, w->element_bytes);
    return TR_OK;
}

enum tr_status tr_workload_build(const struct tr_workload *workload, struct tr_schedule **schedule,
                                 struct tr_geometry *geometry)
{
    enum tr_status status = check(workload);
    if (status != TR_OK)
        return status;
    struct tr_schedule_spec spec = spec_of(workload);
    struct tr_schedule *made;
    status = tr_call_schedule(&spec, &made);
    if (status != TR_OK)
        return status;
    status = cut(workload, made, geometry);
    if (status == TR_OK)
        *schedule = made;
    else
        tr_schedule_free(made);
    return status;
}

enum tr_status tr_workload_cost(const struct tr_workload *workload, struct tr_cost *cost)
{
    struct tr_schedule *schedule;
    struct tr_geometry geometry;
    enum tr_status status = tr_workload_build(workload, &schedule, &geometry);
    if (status != TR_OK)
        return status;
    status = tr_cost_of(schedule, &geometry, workload->element_bytes, cost);
    tr_schedule_free(schedule);
    return status;
}

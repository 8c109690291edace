/*
 * cost.c - what a schedule costs, in units of the machine's alpha, beta and gamma.
 *
 * Messages on the critical path: the time that the simulator (simulate.h) gives on a machine whose messages take 1 us of
 * latency and nothing else takes time. It so counts what depends on what, the lags, and slots that are used again.
 */
#include "model/cost.h"
#include "collectives/error.h"
#include "model/simulate.h"

#include <math.h>
#include <stdlib.h>

/* Bytes by rank. */
struct traffic {
    double sent, received, reduced;
};

static double chunk_bytes(const struct tr_geometry *g, size_t chunk, size_t element_bytes)
{
    size_t start = chunk * g->stride;
    size_t length = start < g->total ? g->total - start : 0;
    return (double)(length < g->stride ? length : g->stride) * (double)element_bytes;
}

static double step_bytes(const struct tr_geometry *g, const struct tr_step *step, size_t element_bytes)
{
    double bytes = 0;
    for (int j = 0; j < step->span; j++)
        bytes += chunk_bytes(g, (size_t)(step->chunk + j), element_bytes);
    return bytes;
}

/* A source on another rank is read, a destination on another rank is written: either way bytes cross both ranks' ports. */
static void add_step(const struct tr_schedule *s, int rank, const struct tr_step *step, double bytes,
                     struct traffic *traffic)
{
    const struct tr_ref *src = &s->refs[step->ref], *dst = src + step->nsrc;
    for (int k = 0; k < step->nsrc; k++)
        if (src[k].rank != rank) {
            traffic[src[k].rank].sent += bytes;
            traffic[rank].received += bytes;
        }
    for (int k = 0; k < step->ndst; k++)
        if (dst[k].rank != rank) {
            traffic[rank].sent += bytes;
            traffic[dst[k].rank].received += bytes;
        }
    traffic[rank].reduced += (step->nsrc - 1) * bytes;
}

static void add_all(const struct tr_schedule *s, const struct tr_geometry *g, size_t element_bytes,
                    struct traffic *traffic)
{
    for (int r = 0; r < s->spec.nranks; r++)
        for (int i = 0; i < s->ranks[r].nsteps; i++) {
            const struct tr_step *step = &s->ranks[r].steps[i];
            add_step(s, r, step, step_bytes(g, step, element_bytes), traffic);
        }
}

static enum tr_status count_messages(const struct tr_schedule *schedule, const struct tr_geometry *geometry,
                                     size_t element_bytes, double *messages)
{
    const struct tr_sim_machine latency_alone = {.ranks_per_node = schedule->spec.nranks,
                                                 .inside = {1, INFINITY},
                                                 .between = {1, INFINITY},
                                                 .links_per_node = 1,
                                                 .gamma_gbps = INFINITY};
    return tr_simulate(schedule, geometry, element_bytes, &latency_alone, NULL, NULL, messages);
}

static double count_steps(const struct tr_schedule *schedule, const struct tr_geometry *geometry)
{
    double most = 0;
    for (int r = 0; r < schedule->spec.nranks; r++) {
        double steps = 0;
        for (int i = 0; i < schedule->ranks[r].nsteps; i++)
            steps += schedule->ranks[r].steps[i].span;
        most = fmax(most, steps);
    }
    return most * geometry->npieces;
}

enum tr_status tr_cost_of(const struct tr_schedule *schedule, const struct tr_geometry *geometry, size_t element_bytes,
                          struct tr_cost *cost)
{
    struct tr_cost made = {.steps = count_steps(schedule, geometry)};
    enum tr_status status = count_messages(schedule, geometry, element_bytes, &made.messages);
    if (status != TR_OK)
        return status;
    struct traffic *traffic = calloc((size_t)schedule->spec.nranks, sizeof *traffic);
    if (!traffic)
        return tr_error(TR_ERR_MEMORY, "no memory for the traffic of %d ranks: free some", schedule->spec.nranks);
    add_all(schedule, geometry, element_bytes, traffic);
    for (int r = 0; r < schedule->spec.nranks; r++) {
        made.link_bytes = fmax(made.link_bytes, fmax(traffic[r].sent, traffic[r].received));
        made.reduced_bytes = fmax(made.reduced_bytes, traffic[r].reduced);
    }
    free(traffic);
    *cost = made;
    return TR_OK;
}

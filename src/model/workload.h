/* workload.h - a call as what predicts it sees it: the schedule and the geometry that the executor would run. */
#ifndef TR_WORKLOAD_H
#define TR_WORKLOAD_H

#include "model/cost.h"

struct tr_workload {
    enum tr_memory memory; /* HOST or CUDA */
    enum tr_collective collective;
    enum tr_algorithm algorithm; /* of ours */
    enum tr_protocol protocol;   /* not AUTO */
    int channels, nranks;
    bool registered;
    bool oversubscribed; /* more CPU ranks than CPUs */
    size_t bytes;        /* of the whole vector; cut down to whole elements on every rank */
    size_t element_bytes;
};

/* Build the schedule, which the caller frees, and cut the vector. Errors: ARGUMENT, UNSUPPORTED (the algorithm does not
 * serve the collective, or the vector does not fit the protocol), MEMORY. */
enum tr_status tr_workload_build(const struct tr_workload *workload, struct tr_schedule **schedule,
                                 struct tr_geometry *geometry);

/* What it costs. Errors: those, and INTERNAL. */
enum tr_status tr_workload_cost(const struct tr_workload *workload, struct tr_cost *cost);

#endif

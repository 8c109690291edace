/* timing.h - one batch of calls, timed. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include "bench/bench.h"
#include "bench/pattern.h"

/* What a batch calls. */
struct timing_call {
    const struct bench_contender *contender;
    const struct bench_shape *shape;
    enum tr_datatype datatype;
    enum tr_op op;
};

/* Call once and wait. */
enum tr_status timing_call_once(struct bench *bench, const struct timing_call *call);

/*
 * Time a batch of `iterations` calls (captured in a graph under -G). Collective. Every rank has left the same call just
 * before its clock starts, so the order in which ranks arrive is not counted. `seconds` is an iteration's, on this rank.
 *
 * With a pattern the output is verified: it is poisoned before the batch (in place: the input is written anew, and the
 * batch is a single call where calls consume their input), and `wrong` counts the elements that the batch's last call
 * left different from the reference.
 */
enum tr_status timing_batch(struct bench *bench, const struct timing_call *call, int iterations,
                            const struct pattern *check, double *seconds, size_t *wrong);

#endif

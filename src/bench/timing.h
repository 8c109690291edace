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

/* What a batch gave on this rank. */
struct timing_sample {
    double seconds; /* an iteration's */
    size_t wrong;   /* elements */
    int64_t entry_ns,
        entry_uncertainty_ns; /* when it entered, on the clock that the ranks share (bench_common_clock()) */
};

/*
 * Time a batch of `iterations` calls (captured in a graph under -G). Collective. Every rank has left the same call just
 * before its clock starts, so the order in which ranks arrive is not counted.
 *
 * With a pattern the output is verified: it is poisoned before the batch (in place: the input is written anew, and the
 * batch is a single call where calls consume their input), and `wrong` counts the elements that the batch's last call
 * left different from the reference.
 */
enum tr_status timing_batch(struct bench *bench, const struct timing_call *call, int iterations,
                            const struct pattern *check, struct timing_sample *sample);

/* Whether verified batches are single calls, unlike the others. */
bool timing_verifies_singly(const struct bench *bench);

/* The calls of a batch that is to last `batch_s`, of `seconds` each; in a graph not more than it can hold. */
int timing_fit(const struct bench *bench, double batch_s, double seconds);
/* As many as -n says, or as last a millisecond, or several turns of ranks that share CPUs. */
int timing_iterations(const struct bench *bench, double seconds);

#endif

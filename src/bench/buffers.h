/* buffers.h - the buffers that contenders work in. */
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include "bench/bench.h"
#include "bench/pattern.h"

/* Allocate the sets that are in use, for sizes up to the sweep's last. Collective; ends the run if memory lacks. */
void buffers_open(struct bench *bench);
void buffers_close(struct bench *bench);

/* The pointers of a call: out of place, or in place in `send`, or (checked) in `recv`. */
struct buffers_pointers {
    void *send, *recv;
};
struct buffers_pointers buffers_of(const struct bench *bench, const struct bench_contender *contender,
                                   const struct bench_shape *shape, size_t element_bytes, bool checked);

/* Write this rank's input into every set of buffers in use (in place: where unchecked calls work). */
void buffers_fill(struct bench *bench, const struct bench_shape *shape, enum tr_datatype datatype,
                  const struct pattern *pattern);

#endif

/* limits.h - the sizes of a sweep, and whether their buffers fit the memory that is free. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "bench/bench.h"

/* Bytes of each buffer of a set for sizes up to `last`. */
void limits_buffer_bytes(const struct bench *bench, size_t last, size_t *send, size_t *recv);

/* Fill in what -b and -e left open and check that the buffers of all ranks fit: a default -e is lowered until they do, a
 * given one that does not fit ends the run with a sentence that names the largest that does. Collective; after the
 * communicator and the contenders are known. */
void limits_settle(struct bench *bench);

#endif

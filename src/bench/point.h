/* point.h - one size, datatype and operation: all contenders, interleaved. */
#ifndef BENCH_POINT_H
#define BENCH_POINT_H

#include "bench/bench.h"

/* Measure. Collective; the results are the same on every rank. Ends the run if a call fails. */
void point_measure(struct bench *bench, size_t requested, enum tr_datatype datatype, enum tr_op op,
                   struct bench_point *point);

/* Free a point that malloc() gave, and what it holds; NULL is allowed. */
void point_free(struct bench_point *point, int ncontenders);

#endif

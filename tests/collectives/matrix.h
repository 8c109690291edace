/*
 * matrix.h - every algorithm, protocol, collective, datatype, operation, in place and not, registered and plain,
 * aligned and not, over sub-communicators of 1 .. N ranks in one launch: the body of tests/mpi/collectives_test.c
 * and of tests/gpu/collectives_test.c.
 */
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

#include "treering.h"

#include <stdbool.h>

/* Our own algorithms, AUTO included: 0 .. MATRIX_ALGORITHMS - 1. */
enum { MATRIX_ALGORITHMS = TR_ALGORITHM_RECURSIVE + 1 };

/* Whether an algorithm must serve a collective. */
bool matrix_serves(enum tr_algorithm algorithm, enum tr_collective collective);

/* Run it and print a TAP line for each number of ranks, collective and algorithm. Collective over MPI_COMM_WORLD. */
void matrix_run(void);

#endif

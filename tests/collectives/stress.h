/*
 * stress.h - random calls of all kinds in a row, from one seed, on a communicator whose call counter wraps on the
 * way, with ranks that come late at random: the body of tests/mpi/stress_test.c and of tests/gpu/stress_test.c.
 */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

/* Make about `calls` calls (TREERING_TEST_CALLS overrides it; TREERING_TEST_SEED the seed) and print TAP. Collective
 * over MPI_COMM_WORLD. */
void stress_run(unsigned long calls);

#endif

/*
 * soak.h - what a communicator holds, and that many calls and many communicators take no more: the body of
 * tests/mpi/soak_test.c and of tests/gpu/soak_test.c.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

/* Make `calls` tiny calls (TREERING_TEST_CALLS overrides it) and print TAP. Collective over MPI_COMM_WORLD. */
void soak_run(unsigned long calls);

#endif

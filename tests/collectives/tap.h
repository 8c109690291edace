/*
 * tap.h - TAP (testanything.org) from a program of several MPI ranks: a test passes if it passes on every rank, and
 * rank 0 alone prints. All functions are collective over MPI_COMM_WORLD unless they say otherwise.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdbool.h>

/* One test. `why` is this rank's reason if it failed here (rank 0 prints that of the lowest rank); NULL: none. */
void tap_test(bool passed, const char *why, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* One test that was not run; `why` counts on rank 0. */
void tap_skip(const char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A comment. Not collective: rank 0 prints, the others do nothing. */
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print the plan. The exit status of the program: 0 if all tests passed. */
int tap_end(void);

/* In place of all tests: the plan that says why. */
int tap_skip_all(const char *why);

/* Wait for all ranks without using a CPU meanwhile. */
void tap_meet(void);

/* Seconds since some moment, CLOCK_MONOTONIC. Not collective. */
double tap_seconds(void);

/* End all ranks at once: the test itself cannot go on (no memory, say). Not collective. */
_Noreturn void tap_bail_out(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* launcher.h - what the launcher says about this process, before and beside MPI. */
#ifndef BENCH_LAUNCHER_H
#define BENCH_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

/* This process's rank as the launcher counts it; 0 when none does. */
int launcher_rank(void);

/* False when a launcher started another number of ranks than MPI has; `why` then says what to run instead. */
bool launcher_agrees(const char *program, int mpi_size, char *why, size_t size);

#endif

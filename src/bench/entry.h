/* entry.h - how late each rank enters a batch, after the first rank that does. */
#ifndef BENCH_ENTRY_H
#define BENCH_ENTRY_H

#include "bench/bench.h"

/* Of one rank, over all its batches. */
struct bench_entry {
    struct bench_stats late;
    double uncertainty_us; /* of its clock against the others', median; 0: it is the same clock */
};

/* Keep this rank's lateness in one batch, and how well its clock is known. */
void entry_keep(struct bench *bench, double late_us, double uncertainty_us);

/* Fill in bench->entries on rank 0 from what was kept, if anything was. Collective. */
void entry_gather(struct bench *bench);

#endif

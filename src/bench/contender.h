/* contender.h - who takes part: our algorithms, each in each protocol asked for, and the libraries to compare with. */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include "bench/bench.h"

/* List the contenders asked for that this communicator can serve and mark the buffers they use; the others are noted.
 * Collective; ends the run when none is left. */
void contenders_select(struct bench *bench);

/* Make later calls run as a contender. */
enum tr_status contender_choose(struct bench *bench, const struct bench_contender *contender);

#endif

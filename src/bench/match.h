/* match.h - whether all ranks were started with the same program and options: a launcher can give each its own. */
#ifndef BENCH_MATCH_H
#define BENCH_MATCH_H

#include "bench/bench.h"

/* End the run if some rank's options are bad; the first such rank says what is wrong. Collective. */
void match_refuse_bad(struct bench *bench, bool bad, int argc, char **argv);

/* End the run if a rank was given another option than rank 0, or another program, with a sentence that names it.
 * Collective. */
void match_options(struct bench *bench);

#endif

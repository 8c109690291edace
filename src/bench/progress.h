/* progress.h - one line on the terminal while a long sweep runs, rewritten in place; nothing where stderr is no terminal. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include "bench/bench.h"

/* Find out where standard output and error go. */
void progress_open(const struct bench *bench);

/* Say what is being measured; a few times a second at most. */
void progress_show(const struct bench *bench, const struct bench_point *point, int samples);

/* Take the line away, before anything else is written. */
void progress_clear(void);

#endif

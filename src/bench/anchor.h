/*
 * anchor.h - two fixed calls, measured when the sweep starts, every few seconds, and when it ends: where their time
 * changes, the machine did (a clock, heat, another user), and the sizes measured meanwhile are marked.
 */
#ifndef BENCH_ANCHOR_H
#define BENCH_ANCHOR_H

#include "bench/bench.h"

/* Choose the calls: the first contender on f32, a sum where it reduces, of the least size and of 1 MiB (less if the sweep
 * ends before). Collective. */
void anchors_open(struct bench *bench);

/* Measure them, if `now` or if the last time is long enough ago; true: it was measured. Collective. */
bool anchors_measure(struct bench *bench, bool now);

/* Note how many sizes drift struck, and what held the GPUs down. After the last measurement. */
void anchors_note(struct bench *bench);

void anchors_close(struct bench *bench);

#endif

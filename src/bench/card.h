/* card.h - measures of the GPU itself, to stand beside the collectives': its copy rate, and what a launch costs. */
#ifndef BENCH_CARD_H
#define BENCH_CARD_H

#include "bench/bench.h"

/* Fill in bench->card, as far as the options ask for it. Collective; nothing on host memory. */
void card_measure(struct bench *bench);

#endif

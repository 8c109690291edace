/* place.h - where each rank runs: its CPUs and NUMA nodes, as the kernel counts them. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include "bench/bench.h"

struct bench_place {
    char cpus[96];   /* that it may run on, as a list "0-3,8"; "": not known */
    char memory[32]; /* NUMA nodes that it may take memory from, likewise */
    int node;        /* NUMA node that it ran on when the bench started; -1: not known */
    int pid;
};

/* Fill in bench->places on every rank. Collective. */
void places_gather(struct bench *bench);

#endif

/* environment.h - where results were measured: what makes a difference to them, from an allow-list. */
#ifndef BENCH_ENVIRONMENT_H
#define BENCH_ENVIRONMENT_H

#include "bench/bench.h"

struct environment_fact {
    const char *key;
    bool is_number;
    double number;
    char text[512]; /* "": not known */
};

enum { ENVIRONMENT_MAX = 48 };

/* Facts about this host, its GPU, the libraries and this build; returns how many. */
int environment_facts(const struct bench *bench, struct environment_fact facts[static ENVIRONMENT_MAX]);

/* The name and value of the i-th environment variable on the allow-list that is set; false past the last. */
bool environment_variable(int i, char *name, size_t size, const char **value);

/* Whether NVIDIA MPS serves this process's GPUs, as far as its control pipe tells. */
bool environment_has_mps(void);

#endif

/* verify_host.h - filling, poisoning and verifying buffers in host memory. */
#ifndef BENCH_VERIFY_HOST_H
#define BENCH_VERIFY_HOST_H

#include "bench/pattern.h"

/* Write elements 0 .. count of `rank`'s input. */
void verify_host_fill(const struct pattern *pattern, int rank, void *data, size_t count);

/* Compare `count` output elements with their references; returns how many differ. */
size_t verify_host_count_wrong(const struct pattern *pattern, const void *data, size_t count);

#endif

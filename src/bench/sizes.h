/* sizes.h - sizes in bytes as people write them (8, 64K, 1M, 2G; powers of 1024), and the sizes of a sweep. */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include <stdbool.h>
#include <stddef.h>

enum { SIZE_TEXT = 32 };

/* Parse a whole number with an optional K, M, G or T. False when `text` is anything else or overflows size_t. */
bool size_parse(const char *text, size_t *bytes);

/* Write `bytes` exactly, with the largest unit that divides it ("64K", "65537"); returns `text`. */
const char *size_format(size_t bytes, char text[static SIZE_TEXT]);

/* Round down to three binary digits at most, so that size_format() gives a short text; 0 stays 0. */
size_t size_round_down(size_t bytes);

/* The sizes first, next(first), ... while <= last. Either step > 0 (added) or factor > 1 (multiplied). */
struct size_range {
    size_t first, last, step, factor;
};

/* The size after `bytes`; false at the end of the range. */
bool size_next(const struct size_range *range, size_t bytes, size_t *next);

#endif

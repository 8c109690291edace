/*
 * reduce_host.h - the n-ary reduce-copy on the CPU: what one step of a schedule does to one tile.
 */
#ifndef TR_REDUCE_HOST_H
#define TR_REDUCE_HOST_H

#include "treering.h"

#include <stdbool.h>
#include <stddef.h>

struct tr_reduce_kernel; /* the inner loops of one datatype and operation */

/* The kernel of a valid datatype and operation; never NULL. TR_AVG is the kernel of the sum. */
const struct tr_reduce_kernel *tr_reduce_kernel(enum tr_datatype datatype, enum tr_op op);

struct tr_reduce_dst {
    void *address;
    bool stream; /* write around the caches: for memory that nobody reads before it would be evicted anyway */
};

/*
 * dst[k][i] = (src[0][i] op src[1][i] op ... ) / divisor, for every k and i < count, from the left to the right.
 *
 * `divisor` 0 stands for 1. f16 and bf16 accumulate in f32 and are rounded (to nearest even) once, at the end; a NaN
 * stays a NaN, and comes out quiet. Minimum and maximum give NaN if any source is one, and order -0 below +0. Integers
 * wrap. Addresses need the element's alignment only. A destination may be exactly one of the sources; otherwise no
 * overlap.
 */
void tr_reduce_host(const struct tr_reduce_kernel *kernel, unsigned divisor, const struct tr_reduce_dst *dst, int ndst,
                    const void *const *src, int nsrc, size_t count);

#endif

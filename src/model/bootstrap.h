/* bootstrap.h - 95% intervals of a line's coefficients, from what the points of all pieces deviate. */
#ifndef TR_BOOTSTRAP_H
#define TR_BOOTSTRAP_H

#include "model/breakpoints.h"

/* Write alpha_us, beta_gbps and half_bytes of each segment; `seed` fixes the drawing. Errors: MEMORY. */
enum tr_status tr_bootstrap(const struct tr_fit_point *points, int n, const struct tr_piece *pieces, int npieces,
                            unsigned seed, struct tr_segment *segments);

#endif

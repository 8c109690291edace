/* softmax_host.h - the maximum of a row and the sum of its exponentials, on the host, in one pass over the row. */
#ifndef KERNELS_SOFTMAX_HOST_H
#define KERNELS_SOFTMAX_HOST_H

#include "kernels/kernels.h"

#include <math.h>

struct tk_softmax_row {
    float max;  /* of the values seen; NaN is not among them, it is in the sum */
    double sum; /* of exp(x - tk_softmax_base()) */
};

/* What is subtracted before exp: max, but for a row of -inf. */
static inline float tk_softmax_base(const struct tk_softmax_row *row)
{
    return row->max == -INFINITY ? 0 : row->max;
}

/* Of `width` values from element `offset` on. */
struct tk_softmax_row tk_softmax_row(const void *values, size_t offset, size_t width, enum tk_datatype type);

#endif

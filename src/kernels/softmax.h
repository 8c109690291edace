/*
 * softmax.h - the softmax of every row of a matrix, forward and backward:
 *
 *     output = exp(input - max input) / sum exp(input - max input)
 *     input_gradient = output (output_gradient - sum output output_gradient)
 *
 * A row may hold -inf (its share is 0); one of -inf alone, or with a NaN or +inf, gives NaN.
 */
#ifndef KERNELS_SOFTMAX_H
#define KERNELS_SOFTMAX_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tk_softmax_forward {
    enum tk_datatype type;
    size_t rows, width; /* width > 0 */
    const void *input;  /* [rows][width] */
    void *output;       /* [rows][width]; may be input itself */
};

enum tk_status tk_softmax_forward(const struct tk_softmax_forward *softmax, void *stream);
enum tk_status tk_softmax_forward_host(const struct tk_softmax_forward *softmax);

struct tk_softmax_backward {
    enum tk_datatype type;
    size_t rows, width;
    const void *output;          /* [rows][width], of the forward pass */
    const void *output_gradient; /* [rows][width] */
    void *input_gradient;        /* [rows][width]; may be either of the two above */
};

enum tk_status tk_softmax_backward(const struct tk_softmax_backward *softmax, void *stream);
enum tk_status tk_softmax_backward_host(const struct tk_softmax_backward *softmax);

#ifdef __cplusplus
}
#endif

#endif

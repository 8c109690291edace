/*
 * swiglu.h - the gate of SwiGLU (Shazeer 2020), forward and backward:
 *
 *     output = silu(gate) up                    silu(x) = x s(x),  s(x) = 1 / (1 + exp(-x))
 *     gate_gradient = output_gradient up s(gate) (1 + gate (1 - s(gate)))
 *     up_gradient = output_gradient silu(gate)
 *
 * gate and up may be the halves of one matrix, [rows][2 width]: input_stride is then 2 width.
 */
#ifndef KERNELS_SWIGLU_H
#define KERNELS_SWIGLU_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tk_swiglu_forward {
    enum tk_datatype type;
    size_t rows, width;                 /* width > 0 */
    size_t input_stride, output_stride; /* >= width: between rows, in elements */
    const void *gate, *up;              /* [rows][input_stride] */
    void *output;                       /* [rows][output_stride]; may be gate or up where the strides are one */
};

enum tk_status tk_swiglu_forward(const struct tk_swiglu_forward *swiglu, void *stream);
enum tk_status tk_swiglu_forward_host(const struct tk_swiglu_forward *swiglu);

struct tk_swiglu_backward {
    enum tk_datatype type;
    size_t rows, width;
    size_t input_stride, output_stride;
    const void *gate, *up;             /* [rows][input_stride] */
    const void *output_gradient;       /* [rows][output_stride] */
    void *gate_gradient, *up_gradient; /* [rows][input_stride]; may be gate and up */
};

enum tk_status tk_swiglu_backward(const struct tk_swiglu_backward *swiglu, void *stream);
enum tk_status tk_swiglu_backward_host(const struct tk_swiglu_backward *swiglu);

#ifdef __cplusplus
}
#endif

#endif

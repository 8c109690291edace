/*
 * norm.h - RMSNorm and LayerNorm over the rows of a matrix, forward and backward, fused with the residual addition.
 *
 *     x = input + residual                           (rounded to `type`; x = input without a residual)
 *     LayerNorm:  mean = sum x / width               RMSNorm:  mean = 0
 *     rstd = 1 / sqrt(sum (x - mean)^2 / width + epsilon)
 *     output = (x - mean) rstd weight + bias
 *
 * Statistics are in f32, from two passes over the row (the variance of large means stays right).
 */
#ifndef KERNELS_NORM_H
#define KERNELS_NORM_H

#include "kernels/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tk_norm_forward {
    enum tk_datatype type; /* of input, residual, weight, bias, sum and output */
    size_t rows, width;    /* width > 0 */
    float epsilon;         /* >= 0 */
    bool centred;          /* LayerNorm; else RMSNorm */
    const void *input;     /* [rows][width] */
    const void *residual;  /* [rows][width], or NULL */
    const void *weight;    /* [width] */
    const void *bias;      /* [width], or NULL */
    void *sum;             /* [rows][width]: x, where there is a residual; may be input or residual itself */
    void *output;          /* [rows][width]; may be input itself */
    float *mean;           /* [rows], LayerNorm only */
    float *rstd;           /* [rows] */
};

enum tk_status tk_norm_forward(const struct tk_norm_forward *norm, void *stream);
enum tk_status tk_norm_forward_host(const struct tk_norm_forward *norm);

struct tk_norm_backward {
    enum tk_datatype type;
    size_t rows, width;
    bool centred;
    const void *input;             /* [rows][width]: x of the forward pass */
    const void *output_gradient;   /* [rows][width] */
    const void *residual_gradient; /* [rows][width], or NULL: what reaches x by other ways; added to input_gradient */
    const void *weight;            /* [width] */
    const float *mean;             /* [rows], LayerNorm only */
    const float *rstd;             /* [rows] */
    void *input_gradient;          /* [rows][width]; may be any of the three above */
    enum tk_datatype weight_type;  /* of the two below */
    bool accumulate;               /* add to the two below; else overwrite them */
    void *weight_gradient;         /* [width] */
    void *bias_gradient;           /* [width], or NULL */
    void *workspace;               /* tk_norm_backward_workspace() bytes, at a multiple of 16; the host needs none */
    size_t workspace_bytes;
};

/* Bytes of workspace on the current device. */
enum tk_status tk_norm_backward_workspace(const struct tk_norm_backward *norm, size_t *bytes);

enum tk_status tk_norm_backward(const struct tk_norm_backward *norm, void *stream);
enum tk_status tk_norm_backward_host(const struct tk_norm_backward *norm);

#ifdef __cplusplus
}
#endif

#endif

/*
 * cross_entropy.h - the softmax cross-entropy of rows of logits against target classes, with its gradient in the same pass.
 *
 *     lse = log sum exp(logits)
 *     loss = lse - logits[target]
 *     gradient = scale (exp(logits - lse) - [column = target])        scale: 1 / targets counted, for a mean
 *
 * A row whose target is `ignore` has loss 0 and gradient 0. A target outside 0..width-1 that is not `ignore` gives NaN.
 */
#ifndef KERNELS_CROSS_ENTROPY_H
#define KERNELS_CROSS_ENTROPY_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tk_cross_entropy {
    enum tk_datatype type;  /* of logits and gradient */
    size_t rows, width;     /* width > 0: the classes */
    size_t stride;          /* >= width: between rows of logits and of gradient, in elements */
    const void *logits;     /* [rows][stride] */
    const int32_t *targets; /* [rows] */
    int32_t ignore;         /* such as -100 */
    float *loss;            /* [rows] */
    float *lse;             /* [rows]; NULL: not wanted */
    void *gradient;         /* [rows][stride]; may be logits itself; NULL: not wanted */
    float scale;            /* of the gradient */
};

/* Forward, and backward too where `gradient` is given. */
enum tk_status tk_cross_entropy(const struct tk_cross_entropy *entropy, void *stream);
enum tk_status tk_cross_entropy_host(const struct tk_cross_entropy *entropy);

/* The gradient alone, from the lse of an earlier forward pass; loss_gradient is what reaches each row's loss. */
struct tk_cross_entropy_backward {
    enum tk_datatype type;
    size_t rows, width, stride;
    const void *logits;     /* [rows][stride] */
    const int32_t *targets; /* [rows] */
    int32_t ignore;
    const float *lse;           /* [rows] */
    const float *loss_gradient; /* [rows], times `scale`; NULL: 1 */
    float scale;
    void *gradient; /* [rows][stride]; may be logits itself */
};

enum tk_status tk_cross_entropy_backward(const struct tk_cross_entropy_backward *entropy, void *stream);
enum tk_status tk_cross_entropy_backward_host(const struct tk_cross_entropy_backward *entropy);

#ifdef __cplusplus
}
#endif

#endif

/*
 * adamw.h - one AdamW step (Loshchilov and Hutter 2019) of many parameter tensors, with f32 master weights, in the order of
 * operations of PyTorch's:
 *
 *     g = gradient scale
 *     w = master (1 - rate decay)
 *     m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
 *     master = w - rate / (1 - beta1^step) m / (sqrt(v / (1 - beta2^step)) + epsilon)
 *     parameter = master, rounded
 */
#ifndef KERNELS_ADAMW_H
#define KERNELS_ADAMW_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of `count` values. Tensors at multiples of 16 bytes take the fast path. */
struct tk_adamw_tensor {
    size_t count;
    void *parameter; /* of parameter_type; NULL: none but the master */
    float *master, *m, *v;
    const void *gradient; /* of gradient_type */
    float decay;          /* weight decay; 0 for biases and norms */
};

struct tk_adamw {
    enum tk_datatype parameter_type, gradient_type;
    const struct tk_adamw_tensor *tensors; /* [count], in host memory, read during the call */
    size_t count;
    float rate, beta1, beta2, epsilon;
    uint64_t step; /* from 1 */
    float scale;   /* of the gradients */
    const float
        *more_scale; /* one value, times `scale`, where the kernel runs (tk_gradient_norm() makes it); or NULL */
};

enum tk_status tk_adamw(const struct tk_adamw *adamw, void *stream);
enum tk_status tk_adamw_host(const struct tk_adamw *adamw);

#ifdef __cplusplus
}
#endif

#endif

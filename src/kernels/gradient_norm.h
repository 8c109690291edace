/*
 * gradient_norm.h - the L2 norm over many tensors, and the factor that clips it:
 *
 *     result[0] = norm = scale sqrt(sum of squares)
 *     result[1] = min(1, max_norm / (norm + 1e-6)), or 1 where max_norm is 0; NaN where the norm is NaN
 *
 * Squares are summed in f32 within a thread's few values and in f64 beyond; the order depends on the counts alone.
 */
#ifndef KERNELS_GRADIENT_NORM_H
#define KERNELS_GRADIENT_NORM_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tk_gradient {
    const void *values;
    size_t count;
};

struct tk_gradient_norm {
    enum tk_datatype type;
    const struct tk_gradient *tensors; /* [count], in host memory, read during the call */
    size_t count;
    float scale;
    float max_norm;  /* >= 0 */
    float *result;   /* [2] */
    void *workspace; /* tk_gradient_norm_workspace() bytes, at a multiple of 8; the host needs none */
    size_t workspace_bytes;
};

enum tk_status tk_gradient_norm_workspace(const struct tk_gradient_norm *norm, size_t *bytes);
enum tk_status tk_gradient_norm(const struct tk_gradient_norm *norm, void *stream);
enum tk_status tk_gradient_norm_host(const struct tk_gradient_norm *norm);

#ifdef __cplusplus
}
#endif

#endif

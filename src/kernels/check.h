/* check.h - the checks of arguments that a kernel's launcher and its host reference share; X_host.c has those of X. */
#ifndef KERNELS_CHECK_H
#define KERNELS_CHECK_H

#include "kernels/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tk_operand {
    const char *name;
    const void *address;
    size_t alignment; /* bytes */
    bool optional;    /* may be NULL */
};

/* `count` operands of `kernel`: none missing, all aligned. */
enum tk_status tk_check_operands(const char *kernel, const struct tk_operand *operands, size_t count);

/* A known datatype; `name` is the argument's. */
enum tk_status tk_check_type(const char *kernel, const char *name, enum tk_datatype type);

/* width > 0, and rows * stride elements of `type` can be addressed. */
enum tk_status tk_check_rows(const char *kernel, size_t rows, size_t width, size_t stride, enum tk_datatype type);

struct tk_norm_forward;
struct tk_norm_backward;
struct tk_softmax_forward;
struct tk_softmax_backward;
struct tk_cross_entropy;
struct tk_cross_entropy_backward;
struct tk_embedding_forward;
struct tk_embedding_backward;
struct tk_rotary;
struct tk_swiglu_forward;
struct tk_swiglu_backward;
struct tk_adamw;
struct tk_gradient_norm;

enum tk_status tk_norm_forward_check(const struct tk_norm_forward *norm);
enum tk_status tk_norm_backward_check(const struct tk_norm_backward *norm);
enum tk_status tk_softmax_forward_check(const struct tk_softmax_forward *softmax);
enum tk_status tk_softmax_backward_check(const struct tk_softmax_backward *softmax);
enum tk_status tk_cross_entropy_check(const struct tk_cross_entropy *entropy);
enum tk_status tk_cross_entropy_backward_check(const struct tk_cross_entropy_backward *entropy);
enum tk_status tk_embedding_forward_check(const struct tk_embedding_forward *embedding);
enum tk_status tk_embedding_backward_check(const struct tk_embedding_backward *embedding);
enum tk_status tk_rotary_check(const struct tk_rotary *rotary);
enum tk_status tk_swiglu_forward_check(const struct tk_swiglu_forward *swiglu);
enum tk_status tk_swiglu_backward_check(const struct tk_swiglu_backward *swiglu);
enum tk_status tk_adamw_check(const struct tk_adamw *adamw);
enum tk_status tk_gradient_norm_check(const struct tk_gradient_norm *norm);

#ifdef __cplusplus
}
#endif

#endif

/* rows_none.c - the memory-bound kernels on a GPU, in a build without CUDA: each call says so. */
#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/error.h"
#include "kernels/gradient_norm.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/softmax.h"
#include "kernels/swiglu.h"

#define UNUSED __attribute__((unused))

static enum tk_status no_cuda(const char *kernel)
{
    return tk_error(TK_ERR_UNSUPPORTED, "%s: this build has no CUDA: configure it --with-cuda", kernel);
}

enum tk_status tk_norm_forward(const struct tk_norm_forward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("norm_forward");
}

enum tk_status tk_norm_backward(const struct tk_norm_backward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("norm_backward");
}

enum tk_status tk_norm_backward_workspace(const struct tk_norm_backward *arguments UNUSED, size_t *bytes UNUSED)
{
    return no_cuda("norm_backward");
}

enum tk_status tk_softmax_forward(const struct tk_softmax_forward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("softmax_forward");
}

enum tk_status tk_softmax_backward(const struct tk_softmax_backward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("softmax_backward");
}

enum tk_status tk_cross_entropy(const struct tk_cross_entropy *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("cross_entropy");
}

enum tk_status tk_cross_entropy_backward(const struct tk_cross_entropy_backward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("cross_entropy_backward");
}

enum tk_status tk_embedding_forward(const struct tk_embedding_forward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("embedding_forward");
}

enum tk_status tk_embedding_backward(const struct tk_embedding_backward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("embedding_backward");
}

enum tk_status tk_embedding_backward_workspace(const struct tk_embedding_backward *arguments UNUSED,
                                               size_t *bytes UNUSED)
{
    return no_cuda("embedding_backward");
}

enum tk_status tk_rotary_forward(const struct tk_rotary *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("rotary_forward");
}

enum tk_status tk_rotary_backward(const struct tk_rotary *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("rotary_backward");
}

enum tk_status tk_swiglu_forward(const struct tk_swiglu_forward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("swiglu_forward");
}

enum tk_status tk_swiglu_backward(const struct tk_swiglu_backward *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("swiglu_backward");
}

enum tk_status tk_adamw(const struct tk_adamw *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("adamw");
}

enum tk_status tk_gradient_norm(const struct tk_gradient_norm *arguments UNUSED, void *stream UNUSED)
{
    return no_cuda("gradient_norm");
}

enum tk_status tk_gradient_norm_workspace(const struct tk_gradient_norm *arguments UNUSED, size_t *bytes UNUSED)
{
    return no_cuda("gradient_norm");
}

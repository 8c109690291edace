/* cuda_none.c - the kernels on a GPU, in a build without CUDA: each call says so. */
#include "kernels/attention.h"
#include "kernels/error.h"
#include "kernels/ladder/ladder.h"
#include "kernels/matmul.h"
#include "kernels/matmul_paths.h"

#define UNUSED __attribute__((unused))

static enum tk_status no_cuda(const char *kernel)
{
    return tk_error(TK_ERR_UNSUPPORTED, "%s: this build has no CUDA: configure it --with-cuda", kernel);
}

enum tk_status tk_matmul(const struct tk_matmul *matmul UNUSED, void *stream UNUSED)
{
    return no_cuda("matmul");
}

enum tk_status tk_matmul_workspace(const struct tk_matmul *matmul UNUSED, size_t *bytes UNUSED)
{
    return no_cuda("matmul");
}

enum tk_status tk_matmul_describe(const struct tk_matmul *matmul UNUSED, char *text UNUSED, size_t size UNUSED)
{
    return no_cuda("matmul");
}

enum tk_status tk_attention_forward(const struct tk_attention *attention UNUSED, void *stream UNUSED)
{
    return no_cuda("attention");
}

enum tk_status tk_attention_backward_workspace(const struct tk_attention_backward *backward UNUSED,
                                               size_t *bytes UNUSED)
{
    return no_cuda("attention");
}

enum tk_status tk_attention_backward(const struct tk_attention_backward *backward UNUSED, void *stream UNUSED)
{
    return no_cuda("attention");
}

enum tk_status tk_attention_describe(const struct tk_attention *attention UNUSED, char *text UNUSED, size_t size UNUSED)
{
    return no_cuda("attention");
}

enum tk_status tk_matmul_plain(const struct tk_matmul *matmul UNUSED, void *stream UNUSED)
{
    return no_cuda("matmul");
}

enum tk_status tk_matmul_with_tile(const struct tk_matmul *matmul UNUSED, int tile UNUSED, void *stream UNUSED)
{
    return no_cuda("matmul");
}

const struct tk_ladder_step *tk_ladder_step(int i UNUSED)
{
    return NULL;
}

enum tk_status tk_ladder_run(const struct tk_ladder_step *step UNUSED, const void *a UNUSED, const void *b UNUSED,
                             void *c UNUSED, size_t m UNUSED, size_t n UNUSED, size_t k UNUSED, void *stream UNUSED)
{
    return no_cuda("ladder");
}

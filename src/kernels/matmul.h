/*
 * matmul.h - C = epilogue(A B): the three products of a linear layer, on tensor cores.
 *
 *     layout    A stored as   B stored as      of a layer Y = X W^T, W: out x in
 *     TK_NN     M x K         K x N            dX = dY W      M rows, N in, K out
 *     TK_NT     M x K         N x K            Y = X W^T      M rows, N out, K in
 *     TK_TN     K x M         K x N            dW = dY^T X    M out, N in, K rows
 *
 * C is M x N. All are row-major; lda, ldb, ldc and ldz are the distances between rows as stored, in elements. Any
 * M, N and K, 0 included (K = 0: the sum is 0). Products are summed in f32 and rounded once, to C's type. For each
 * element
 *
 *     x = sum over k of a b, + beta c, + bias[n]
 *     c = x                             TK_EPILOGUE_NONE
 *         x Phi(x), in the form with tanh of Hendrycks and Gimpel 2016     TK_EPILOGUE_GELU
 *         silu(z) x                     TK_EPILOGUE_SILU_GATE: SwiGLU (Shazeer 2020), z the gate's product
 *         x + z                         TK_EPILOGUE_RESIDUAL
 *
 * beta = 0 does not read C, which may hold NaN. Where beta is not 0, C is read before it is written, each element
 * by the thread that writes it. z may be C itself. A and B must not overlap C.
 */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tk_layout { TK_NN, TK_NT, TK_TN, TK_LAYOUT_COUNT };

enum tk_epilogue { TK_EPILOGUE_NONE, TK_EPILOGUE_GELU, TK_EPILOGUE_SILU_GATE, TK_EPILOGUE_RESIDUAL, TK_EPILOGUE_COUNT };

/* Zero-initialise and set what is there. */
struct tk_matmul {
    size_t m, n, k;
    const void *a, *b;
    void *c;
    const void *bias; /* n elements of `in`; NULL: none */
    const void *z;    /* m x n of `in`, for the epilogues that have it; else NULL */
    size_t lda, ldb, ldc, ldz;
    enum tk_datatype in;  /* of a, b, bias and z: bf16, or f32 (for reference: no tensor cores) */
    enum tk_datatype out; /* of c: bf16 or f32 */
    enum tk_layout layout;
    enum tk_epilogue epilogue;
    float beta;
    /* Device memory for partial sums where K is long and C small; without it the product is right, and slower there.
     * 16-byte aligned; one matmul at a time may use it. */
    void *workspace;
    size_t workspace_bytes;
};

/* Multiply on the current device. Aligned operands (bases and row strides of A and B multiples of 16 bytes) on a device
 * of compute capability 9.0 take the fast path. */
enum tk_status tk_matmul(const struct tk_matmul *matmul, void *stream);

/* The bytes of workspace that this product can use on the current device; 0 where it needs none. */
enum tk_status tk_matmul_workspace(const struct tk_matmul *matmul, size_t *bytes);

/* How tk_matmul() would carry the product out on the current device, as text ("sm90 128x192, 2 slices of K"); for the
 * bench. */
enum tk_status tk_matmul_describe(const struct tk_matmul *matmul, char *text, size_t size);

/* On host memory, all cores of OpenMP's; the workspace is not used. */
enum tk_status tk_matmul_host(const struct tk_matmul *matmul);

const char *tk_layout_name(enum tk_layout layout);       /* "NN" */
const char *tk_epilogue_name(enum tk_epilogue epilogue); /* "gelu" */

#ifdef __cplusplus
}
#endif

#endif

/* kernel_blas.h - the matmuls of others, found when the bench runs: cuBLAS on a GPU, OpenBLAS on the host. */
#ifndef BENCH_KERNEL_BLAS_H
#define BENCH_KERNEL_BLAS_H

#include "kernels/matmul.h"

/* As tk_matmul(), for dense row-major operands without epilogue. TK_ERR_UNSUPPORTED where the library is not there. */
enum tk_status kernel_cublas(const struct tk_matmul *matmul, void *stream);

/* As tk_matmul_host(), f32. */
enum tk_status kernel_openblas(const struct tk_matmul *matmul);

#endif

/* matmul_paths.h - the paths of tk_matmul(), each by itself: what it chooses from, and what the bench compares. */
#ifndef KERNELS_MATMUL_PATHS_H
#define KERNELS_MATMUL_PATHS_H

#include "kernels/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

/* bf16 operands, any alignment, compute capability 8.0 and up. */
enum tk_status tk_matmul_plain(const struct tk_matmul *matmul, void *stream);

/* f32 operands: each product and each sum in f32, k in order. */
enum tk_status tk_matmul_f32(const struct tk_matmul *matmul, void *stream);

/* As tk_matmul(), by the fast path with the tile of that number (matmul_sm90.cu), K not cut. */
enum tk_status tk_matmul_with_tile(const struct tk_matmul *matmul, int tile, void *stream);

#ifdef __cplusplus
}
#endif

#endif

/* kernel_table.c - the kernels that kernel_bench times. */
#include "bench/kernel_bench.h"

const struct kernel_row *const kernel_rows[] = {
    &kernel_matmul,
    &kernel_matmul_tiles,
    &kernel_matmul_ladder,
    &kernel_attention,
    &kernel_attention_backward,
    &kernel_rmsnorm,
    &kernel_rmsnorm_backward,
    &kernel_layernorm,
    &kernel_layernorm_backward,
    &kernel_residual,
    &kernel_softmax,
    &kernel_softmax_backward,
    &kernel_cross_entropy,
    &kernel_swiglu,
    &kernel_swiglu_backward,
    &kernel_rotary,
    &kernel_embedding,
    &kernel_embedding_backward,
    &kernel_adamw,
    &kernel_gradient_norm,
    NULL,
};

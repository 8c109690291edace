/*
 * attention.h - softmax(scale Q K^T) V without the matrix in between, forward and backward (Dao et al. 2022, 2023; Shah
 * et al. 2024): memory grows with the length, not with its square.
 *
 * Per batch and head: Q, O, dO, dQ are sq x d; K, V, dK, dV are sk x d; d is 64 or 128. Heads of Q share heads of K and
 * V in groups of heads / kv_heads: head h reads kv head h / group. Causal: row i sees the keys j <= i + sk - sq, so
 * that the last row sees all. A row that sees no key gives 0, and its LSE is -inf. Any sq and sk, 0 included.
 *
 * Sums are in f32; probabilities and dS are rounded to bf16 before they meet V, K, Q and dO (device, bf16). What lies
 * outside the tensors is never read, nor does it matter; but an infinity or a NaN in V may reach rows that do not see
 * its key (0 x NaN), though none that see no key at all.
 */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "kernels/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where element [batch][row][head][i] stands: at batch x batch_stride + ... + i, in elements; i < d is contiguous. A
 * packed [batch][row][heads][d] tensor, or a slice of the output of a QKV product, or [batch][heads][row][d]. */
struct tk_attention_strides {
    size_t batch, row, head;
};

/* Zero-initialise and set what is there. */
struct tk_attention {
    size_t batch, heads, kv_heads, sq, sk, d;
    bool causal;
    float scale;               /* not negative; 0: 1 / sqrt(d) */
    enum tk_datatype datatype; /* of all tensors; bf16 has the fast path */
    const void *q, *k, *v;
    void *o;
    float *lse; /* [batch][heads][sq]: natural logarithm of the sum of exp(scale score) */
    struct tk_attention_strides q_strides, k_strides, v_strides, o_strides;
};

/* The backward pass of `forward`, whose o and lse are read, not written. dQ, dK and dV are overwritten. */
struct tk_attention_backward {
    struct tk_attention forward;
    const void *d_o;
    void *dq, *dk, *dv;
    struct tk_attention_strides d_o_strides, dq_strides, dk_strides, dv_strides;
    /* The sums of dQ have a fixed order; dK's and dV's always do. Slower by up to a quarter. */
    bool deterministic;
    void *workspace; /* device memory, 16-byte aligned; what is in it does not matter */
    size_t workspace_bytes;
};

/* The fast path is taken on a device of compute capability 9.0 for bf16 where all bases, and the strides of dimensions
 * longer than 1, are multiples of 16 bytes and not 0; the plain path, elsewhere, is right and slow. */
enum tk_status tk_attention_forward(const struct tk_attention *attention, void *stream);

/* The workspace that tk_attention_backward() needs: O(batch x heads x sq x d). */
enum tk_status tk_attention_backward_workspace(const struct tk_attention_backward *backward, size_t *bytes);
enum tk_status tk_attention_backward(const struct tk_attention_backward *backward, void *stream);

/* How tk_attention_forward() would run on the current device, as text; for the bench. */
enum tk_status tk_attention_describe(const struct tk_attention *attention, char *text, size_t size);

/* On host memory, on OpenMP's cores; always deterministic, without workspace. */
enum tk_status tk_attention_forward_host(const struct tk_attention *attention);
enum tk_status tk_attention_backward_host(const struct tk_attention_backward *backward);

#ifdef __cplusplus
}
#endif

#endif

/*
 * rotary.h - rotary position embedding (Su et al. 2021) of the heads of every token; backward is the rotation back.
 *
 *     angle(p, i) = p base^(-2i / width)                      p: the token's position, i = 0..width/2 - 1
 *     (a, b) -> (a cos - b sin, a sin + b cos)                a, b: values i and i + width/2 of a head
 *                                                             interleaved: values 2i and 2i + 1
 *
 * The heads may lie inside rows that hold more (query, key and value of a token side by side): `stride` is from token to
 * token.
 */
#ifndef KERNELS_ROTARY_H
#define KERNELS_ROTARY_H

#include "kernels/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tk_rotary {
    enum tk_datatype type;
    size_t tokens, heads, width;        /* width: of a head; even, > 0 */
    size_t input_stride, output_stride; /* >= heads * width: between tokens, in elements */
    bool interleaved;
    const void *input;        /* [tokens][input_stride] */
    void *output;             /* [tokens][output_stride]; may be input itself where the strides are one */
    const int32_t *positions; /* [tokens]; NULL: token t is at position t % sequence */
    size_t sequence;          /* > 0 where positions is NULL */
    const float *table;       /* [table_positions][2][width / 2]: cos and sin, as tk_rotary_table_host() makes it */
    size_t table_positions;   /* tokens at other positions become NaN */
};

/* cos and sin of the angles of positions 0..positions-1, computed in f64; for GPUs, copy it there. */
enum tk_status tk_rotary_table_host(float *table, size_t positions, size_t width, double base);

enum tk_status tk_rotary_forward(const struct tk_rotary *rotary, void *stream);
enum tk_status tk_rotary_forward_host(const struct tk_rotary *rotary);

/* input is the output's gradient, output the input's. */
enum tk_status tk_rotary_backward(const struct tk_rotary *rotary, void *stream);
enum tk_status tk_rotary_backward_host(const struct tk_rotary *rotary);

#ifdef __cplusplus
}
#endif

#endif

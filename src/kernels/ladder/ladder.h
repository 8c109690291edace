/*
 * ladder.h - one matmul, six times: what each idea is worth on the way from three loops to the fast path.
 *
 * C = A B, layout NN, bf16 in, f32 sums, bf16 out, dense rows. Read the files in the table's order (ladder.c): each
 * differs from the one before by one idea, said at its top. They are for reading and timing: M and N must be
 * multiples of 128, K of 64. The seventh step is src/kernels/matmul_sm90.cuh, the fast path of tk_matmul().
 */
#ifndef KERNELS_LADDER_H
#define KERNELS_LADDER_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tk_ladder_step {
    const char *name; /* "naive" */
    const char *idea;
    int least_capability; /* 80 for 8.0; `only`: no other */
    int only;
    enum tk_status (*run)(const void *a, const void *b, void *c, int m, int n, int k, void *stream);
};

/* The i-th step, from 0; NULL past the last. */
const struct tk_ladder_step *tk_ladder_step(int i);

/* Check the sizes and the device, then run the step. */
enum tk_status tk_ladder_run(const struct tk_ladder_step *step, const void *a, const void *b, void *c, size_t m,
                             size_t n, size_t k, void *stream);

enum tk_status tk_ladder_naive(const void *a, const void *b, void *c, int m, int n, int k, void *stream);
enum tk_status tk_ladder_tiles(const void *a, const void *b, void *c, int m, int n, int k, void *stream);
enum tk_status tk_ladder_registers(const void *a, const void *b, void *c, int m, int n, int k, void *stream);
enum tk_status tk_ladder_tensor_cores(const void *a, const void *b, void *c, int m, int n, int k, void *stream);
enum tk_status tk_ladder_wgmma(const void *a, const void *b, void *c, int m, int n, int k, void *stream);

#ifdef __cplusplus
}
#endif

#endif

/* matmul_sm90.h - the fast path of tk_matmul(): which tile, and the launch. matmul_sm90.cu, or matmul_sm90_none.c. */
#ifndef KERNELS_MATMUL_SM90_H
#define KERNELS_MATMUL_SM90_H

#include "kernels/launch.h"
#include "kernels/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a product is cut: a row of the table of tiles, and slices of K (1: none). */
struct tk_matmul_plan {
    int tile;
    int splits;
};

/* Tiles, by number; NULL past the last. */
const char *tk_matmul_sm90_tile_name(int tile);

/* Whether the fast path can carry this (checked, not empty) product out on this device. */
int tk_matmul_sm90_serves(const struct tk_matmul *matmul, const struct tk_device *device);

/* The plan that should take least time, with no more workspace than given; a tile may be demanded, -1: any. */
struct tk_matmul_plan tk_matmul_sm90_plan(const struct tk_matmul *matmul, const struct tk_device *device,
                                          size_t workspace_bytes, int tile);

/* Launch. With splits > 1 the slices' f32 sums are left in the workspace, splits x m x n, and C is not touched. */
enum tk_status tk_matmul_sm90(const struct tk_matmul *matmul, const struct tk_device *device,
                              const struct tk_matmul_plan *plan, void *stream);

#ifdef __cplusplus
}
#endif

#endif

/* matmul_sm90_tn.cu - the fast path's kernels for layout TN. */
#include "kernels/matmul_sm90_tiles.cuh"

const matmul::Kernels matmul::kernels_tn[TILE_COUNT] = MATMUL_TILES(1, 1);

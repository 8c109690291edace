/* matmul_sm90_nn.cu - the fast path's kernels for layout NN. */
#include "kernels/matmul_sm90_tiles.cuh"

const matmul::Kernels matmul::kernels_nn[TILE_COUNT] = MATMUL_TILES(0, 1);

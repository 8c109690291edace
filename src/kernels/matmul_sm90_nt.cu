/* matmul_sm90_nt.cu - the fast path's kernels for layout NT. */
#include "kernels/matmul_sm90_tiles.cuh"

const matmul::Kernels matmul::kernels_nt[TILE_COUNT] = MATMUL_TILES(0, 0);

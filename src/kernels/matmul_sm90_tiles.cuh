/* matmul_sm90_tiles.cuh - the tiles that the fast path is compiled for; matmul_sm90_nn.cu, _nt and _tn have a layout
 * each. */
#ifndef KERNELS_MATMUL_SM90_TILES_CUH
#define KERNELS_MATMUL_SM90_TILES_CUH

#include "kernels/matmul_sm90.cuh"

namespace matmul
{

enum { TILE_COUNT = 4 };

struct Kernels {
    const void *plain, *fused;
    int shared_bytes;
};

template <int WM, int BN, int A_MN, int B_MN, int STAGES> constexpr Kernels kernels_of()
{
    using Plain = Config<WM, BN, A_MN, B_MN, STAGES, false>;
    using Fused = Config<WM, BN, A_MN, B_MN, STAGES, true>;
    return {(const void *)kernel<Plain>, (const void *)kernel<Fused>, Plain::SHARED_BYTES};
}

/* In the order of the table in matmul_sm90.cu. */
#define MATMUL_TILES(A_MN, B_MN)                                                                                       \
    {                                                                                                                  \
        kernels_of<1, 256, A_MN, B_MN, 4>(), kernels_of<1, 192, A_MN, B_MN, 4>(), kernels_of<1, 128, A_MN, B_MN, 6>(), \
            kernels_of<2, 128, A_MN, B_MN, 4>(),                                                                       \
    }

extern const Kernels kernels_nn[TILE_COUNT], kernels_nt[TILE_COUNT], kernels_tn[TILE_COUNT];

} // namespace matmul

#endif

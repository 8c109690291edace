/*
 * matmul_sm90.cu - the fast path of tk_matmul(): choose a tile, describe the operands to TMA, launch.
 *
 * The choice is a model of waves, in cycles of a multiprocessor: clusters of two take tiles in turns, so
 *
 *     time = ceil(tiles / clusters) (stages stage_cycles + tile_cycles) + what adding up the slices of K costs
 *
 * A stage of 64 k costs at least 2 bm bn 64 / 4096 cycles: the tensor cores' rate. What is above that, and the cost
 * of a tile, are fitted to times on one H200 (docs/kernels.md).
 */
#include "kernels/error.h"
#include "kernels/matmul_sm90.h"
#include "kernels/matmul_sm90_tiles.cuh"
#include "kernels/tensor_map.h"

namespace matmul
{

struct Tile {
    const char *name;
    int bm, bn;
    int stage_cycles[TK_LAYOUT_COUNT];
    int tile_cycles; /* the pipeline's filling, the epilogue */
};

static const Tile tile_table[TILE_COUNT] = {
    {"128x256", 128, 256, {1024, 1024, 1024}, 1800},
    {"128x192", 128, 192, {790, 790, 790}, 1500},
    {"128x128", 128, 128, {563, 530, 563}, 1200},
    {"256x128", 256, 128, {1035, 1035, 1035}, 1800},
};

static const Kernels *const kernel_table[TK_LAYOUT_COUNT] = {kernels_nn, kernels_nt, kernels_tn};

enum { MAX_SPLITS = 16, LEAST_STAGES = 8, REDUCE_CYCLES = 5000, REDUCE_BYTES_A_CYCLE = 1700 };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static Tiles tiles_of(const struct tk_matmul *mm, const struct tk_matmul_plan &plan)
{
    const Tile &tile = tile_table[plan.tile];
    return {(int)ceil_div((int64_t)mm->m, CLUSTER * tile.bm), (int)ceil_div((int64_t)mm->n, tile.bn),
            (int)ceil_div((int64_t)mm->k, BK), plan.splits};
}

static int64_t cost(const struct tk_matmul *mm, const struct tk_device *device, const struct tk_matmul_plan &plan)
{
    const Tile &tile = tile_table[plan.tile];
    Tiles tiles = tiles_of(mm, plan);
    int64_t waves = ceil_div((int64_t)tiles.m * tiles.n * plan.splits, device->multiprocessors / CLUSTER);
    int64_t cycles = waves * (ceil_div(tiles.nk, plan.splits) * tile.stage_cycles[mm->layout] + tile.tile_cycles);
    if (plan.splits > 1)
        cycles += REDUCE_CYCLES + 8 * (int64_t)plan.splits * (int64_t)(mm->m * mm->n) / REDUCE_BYTES_A_CYCLE;
    return cycles;
}

/* ---- TMA's description of an operand ----------------------------------------------------------------------------- */

static bool is_aligned(const void *base, size_t stride)
{
    return (uintptr_t)base % 16 == 0 && stride % 8 == 0;
}

/* A matrix of rows x columns, in boxes of 64 columns. */
static enum tk_status describe(const char *name, const void *base, size_t rows, size_t columns, size_t stride,
                               int box_rows, CUtensorMap *map)
{
    struct tk_tensor tensor = {name, base, 2, {columns, rows}, {1, stride}};
    return tk_tensor_map(&tensor, (unsigned)box_rows, map);
}

struct Maps {
    CUtensorMap a, b, c;
};

static enum tk_status describe_operands(const struct tk_matmul *mm, const Tile &tile, bool fused, Maps *maps)
{
    bool a_mn = mm->layout == TK_TN, b_mn = mm->layout != TK_NT;
    enum tk_status status = a_mn ? describe("matmul: a", mm->a, mm->k, mm->m, mm->lda, 64, &maps->a)
                                 : describe("matmul: a", mm->a, mm->m, mm->k, mm->lda, tile.bm, &maps->a);
    if (status == TK_OK)
        status = b_mn ? describe("matmul: b", mm->b, mm->k, mm->n, mm->ldb, 64, &maps->b)
                      : describe("matmul: b", mm->b, mm->n, mm->k, mm->ldb, tile.bn / CLUSTER, &maps->b);
    if (status == TK_OK && !fused)
        status = describe("matmul: c", mm->c, mm->m, mm->n, mm->ldc, 64, &maps->c);
    return status;
}

/* ---- Launch ------------------------------------------------------------------------------------------------------ */

static bool needs_epilogue(const struct tk_matmul *mm)
{
    return mm->out != TK_BF16 || mm->beta != 0 || mm->bias || mm->epilogue != TK_EPILOGUE_NONE ||
           !is_aligned(mm->c, mm->ldc);
}

/* Allow a kernel its shared memory, once a device: `devices` has a bit for each that was done. */
static enum tk_status prepare(const void *kernel, int shared_bytes, int device, uint64_t *devices)
{
    uint64_t bit = device < 64 ? (uint64_t)1 << device : 0;
    if (__atomic_load_n(devices, __ATOMIC_RELAXED) & bit)
        return TK_OK;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error == cudaSuccess)
        __atomic_fetch_or(devices, bit, __ATOMIC_RELAXED);
    return tk_cuda_status(error, "matmul: shared memory");
}

static enum tk_status launch(const void *kernel, int shared_bytes, int grid, void **arguments, void *stream)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)grid);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = (size_t)shared_bytes;
    config.stream = (cudaStream_t)stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return tk_cuda_status(cudaLaunchKernelExC(&config, kernel, arguments), "matmul: launch");
}

} // namespace matmul

const char *tk_matmul_sm90_tile_name(int tile)
{
    return tile >= 0 && tile < matmul::TILE_COUNT ? matmul::tile_table[tile].name : nullptr;
}

int tk_matmul_sm90_serves(const struct tk_matmul *mm, const struct tk_device *device)
{
    /* coordinates are ints, and a tile may overhang; strides of TMA have 40 bits */
    const size_t most = (size_t)1 << 30, most_stride = ((size_t)1 << 39) - 16;
    return device->capability == 90 && mm->in == TK_BF16 && mm->k > 0 && mm->m < most && mm->n < most && mm->k < most &&
           matmul::ceil_div((int64_t)mm->m, 256) * matmul::ceil_div((int64_t)mm->n, 128) < 1 << 26 &&
           mm->lda < most_stride && mm->ldb < most_stride && mm->ldc < most_stride &&
           matmul::is_aligned(mm->a, mm->lda) && matmul::is_aligned(mm->b, mm->ldb);
}

struct tk_matmul_plan tk_matmul_sm90_plan(const struct tk_matmul *mm, const struct tk_device *device,
                                          size_t workspace_bytes, int tile)
{
    struct tk_matmul_plan best = {tile < 0 ? 0 : tile, 1};
    int64_t least = INT64_MAX;
    for (int t = 0; t < matmul::TILE_COUNT; t++)
        for (int splits = 1; splits <= matmul::MAX_SPLITS; splits++) {
            struct tk_matmul_plan plan = {t, splits};
            bool fits = splits == 1 || ((size_t)splits * mm->m * mm->n * sizeof(float) <= workspace_bytes &&
                                        mm->k / matmul::BK / (size_t)splits >= matmul::LEAST_STAGES);
            if (!fits || (tile >= 0 && t != tile))
                continue;
            int64_t cycles = matmul::cost(mm, device, plan);
            if (cycles < least) {
                least = cycles;
                best = plan;
            }
        }
    return best;
}

enum tk_status tk_matmul_sm90(const struct tk_matmul *mm, const struct tk_device *device,
                              const struct tk_matmul_plan *plan, void *stream)
{
    const matmul::Kernels &kernels = matmul::kernel_table[mm->layout][plan->tile];
    bool fused = plan->splits > 1 || matmul::needs_epilogue(mm);
    const void *kernel = fused ? kernels.fused : kernels.plain;
    static uint64_t prepared[TK_LAYOUT_COUNT][matmul::TILE_COUNT][2];
    matmul::Maps maps = {};
    enum tk_status status = matmul::describe_operands(mm, matmul::tile_table[plan->tile], fused, &maps);
    if (status == TK_OK)
        status = matmul::prepare(kernel, kernels.shared_bytes, device->id, &prepared[mm->layout][plan->tile][fused]);
    if (status != TK_OK)
        return status;
    struct tk_matmul to = *mm;
    if (plan->splits > 1)
        to = {mm->m, mm->n, mm->k,  mm->a,  mm->b,      mm->workspace,    nullptr, nullptr, mm->lda, mm->ldb,
              mm->n, 0,     mm->in, TK_F32, mm->layout, TK_EPILOGUE_NONE, 0,       nullptr, 0};
    matmul::Epilogue epilogue = matmul::epilogue_of(&to);
    matmul::Tiles tiles = matmul::tiles_of(mm, *plan);
    int64_t clusters = (int64_t)tiles.m * tiles.n * plan->splits, most = device->multiprocessors / matmul::CLUSTER;
    void *arguments[] = {&maps.a, &maps.b, &maps.c, &epilogue, &tiles};
    return matmul::launch(kernel, kernels.shared_bytes, (int)(clusters < most ? clusters : most) * matmul::CLUSTER,
                          arguments, stream);
}

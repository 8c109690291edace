/*
 * matmul.cu - tk_matmul() on a GPU: which path, and the sum over slices of K.
 *
 *     f32 operands                            CUDA cores            matmul_f32.cu
 *     9.0, aligned, K > 0                     TMA and wgmma         matmul_sm90.cu
 *     else, 8.0 and up                        cp.async and mma      matmul_plain.cu
 */
#include "kernels/error.h"
#include "kernels/launch.h"
#include "kernels/matmul_check.h"
#include "kernels/matmul_epilogue.cuh"
#include "kernels/matmul_paths.h"
#include "kernels/matmul_sm90.h"

#include <stdio.h>

namespace matmul
{

static bool rows_are_vectors(const void *base, size_t stride, enum tk_datatype datatype)
{
    return (uintptr_t)base % 16 == 0 && stride * tk_datatype_size(datatype) % 16 == 0;
}

Epilogue epilogue_of(const struct tk_matmul *mm)
{
    const void *z = tk_matmul_has_z(mm) ? mm->z : nullptr;
    Epilogue e = {};
    e.c = mm->c;
    e.bias = mm->bias;
    e.z = z;
    e.ldc = mm->ldc;
    e.ldz = mm->ldz;
    e.m = (int)mm->m;
    e.n = (int)mm->n;
    e.beta = mm->beta;
    e.kind = mm->epilogue;
    e.out_f32 = mm->out == TK_F32;
    e.vectors = rows_are_vectors(mm->c, mm->ldc, mm->out) && (uintptr_t)mm->bias % 16 == 0 &&
                (!z || rows_are_vectors(z, mm->ldz, mm->in));
    return e;
}

/* ---- The sum over slices ----------------------------------------------------------------------------------------- */

enum { REDUCE_THREADS = 256 };

/* C from `slices` sums of m x n, in the slices' order; a thread has 8 columns of a row. */
__global__ void __launch_bounds__(REDUCE_THREADS)
    reduce_kernel(const float *sums, int slices, const __grid_constant__ Epilogue e)
{
    int pieces = (e.n + 7) / 8;
    size_t index = blockIdx.x * (size_t)REDUCE_THREADS + threadIdx.x;
    int row = (int)(index / pieces), column = (int)(index % pieces) * 8;
    if (row >= e.m)
        return;
    const float *from = sums + (size_t)row * e.n + column;
    size_t slice = (size_t)e.m * e.n;
    if (e.vectors && e.n % 8 == 0) {
        float x[8] = {};
        for (int s = 0; s < slices; s++, from += slice)
            for (int i = 0; i < 8; i += 4) {
                float4 part = *(const float4 *)(from + i);
                x[i] += part.x;
                x[i + 1] += part.y;
                x[i + 2] += part.z;
                x[i + 3] += part.w;
            }
        finish_8(e, load_extras(e, row, column), row, column, x);
        return;
    }
    for (int i = 0; i < 8 && column + i < e.n; i++) {
        float x = 0;
        for (int s = 0; s < slices; s++)
            x += from[s * slice + i];
        finish_element<__nv_bfloat16>(e, row, column + i, x);
    }
}

static enum tk_status reduce(const struct tk_matmul *mm, int slices, void *stream)
{
    size_t threads = mm->m * ((mm->n + 7) / 8);
    reduce_kernel<<<(unsigned)((threads + REDUCE_THREADS - 1) / REDUCE_THREADS), REDUCE_THREADS, 0,
                    (cudaStream_t)stream>>>((const float *)mm->workspace, slices, epilogue_of(mm));
    return tk_launched("matmul: launch of the sum over slices");
}

/* ---- Which path -------------------------------------------------------------------------------------------------- */

enum Path { NOTHING, F32, SM90, PLAIN };

static const size_t most = (size_t)1 << 30; /* of M, N and K: coordinates are ints */

static enum tk_status choose(const struct tk_matmul *mm, struct tk_device *device, Path *path)
{
    enum tk_status status = tk_matmul_check(mm);
    if (status == TK_OK)
        status = tk_device_get(device);
    if (status != TK_OK)
        return status;
    if (mm->m == 0 || mm->n == 0) {
        *path = NOTHING;
        return TK_OK;
    }
    if (device->capability < 80)
        return tk_error(TK_ERR_UNSUPPORTED, "matmul: GPU %d has compute capability %d.%d, and 8.0 is needed",
                        device->id, device->capability / 10, device->capability % 10);
    if (mm->m >= most || mm->n >= most || mm->k >= most || (mm->m + 63) / 64 * ((mm->n + 63) / 64) > 0x7fffffff)
        return tk_error(TK_ERR_UNSUPPORTED,
                        "matmul: m %zu, n %zu, k %zu: each must be less than 2^30, and m n less "
                        "than 2^43",
                        mm->m, mm->n, mm->k);
    if (mm->workspace && (uintptr_t)mm->workspace % 16 != 0)
        return tk_error(TK_ERR_ARGUMENT, "matmul: workspace at %p is not 16-byte aligned", mm->workspace);
    *path = mm->in == TK_F32 ? F32 : tk_matmul_sm90_serves(mm, device) ? SM90 : PLAIN;
    return TK_OK;
}

static size_t workspace_of(const struct tk_matmul *mm)
{
    return mm->workspace ? mm->workspace_bytes : 0;
}

static enum tk_status run_sm90(const struct tk_matmul *mm, const struct tk_device *device,
                               const struct tk_matmul_plan *plan, void *stream)
{
    enum tk_status status = tk_matmul_sm90(mm, device, plan, stream);
    return status == TK_OK && plan->splits > 1 ? reduce(mm, plan->splits, stream) : status;
}

} // namespace matmul

enum tk_status tk_matmul(const struct tk_matmul *mm, void *stream)
{
    struct tk_device device;
    matmul::Path path;
    enum tk_status status = matmul::choose(mm, &device, &path);
    if (status != TK_OK || path == matmul::NOTHING)
        return status;
    if (path == matmul::F32)
        return tk_matmul_f32(mm, stream);
    if (path == matmul::PLAIN)
        return tk_matmul_plain(mm, stream);
    struct tk_matmul_plan plan = tk_matmul_sm90_plan(mm, &device, matmul::workspace_of(mm), -1);
    return matmul::run_sm90(mm, &device, &plan, stream);
}

enum tk_status tk_matmul_with_tile(const struct tk_matmul *mm, int tile, void *stream)
{
    struct tk_device device;
    matmul::Path path;
    enum tk_status status = matmul::choose(mm, &device, &path);
    if (status != TK_OK || path == matmul::NOTHING)
        return status;
    if (path != matmul::SM90 || !tk_matmul_sm90_tile_name(tile))
        return tk_error(TK_ERR_UNSUPPORTED, "matmul: tile %d of the fast path cannot carry this product out here",
                        tile);
    struct tk_matmul_plan plan = {tile, 1};
    return matmul::run_sm90(mm, &device, &plan, stream);
}

enum tk_status tk_matmul_workspace(const struct tk_matmul *mm, size_t *bytes)
{
    struct tk_device device;
    matmul::Path path;
    enum tk_status status = matmul::choose(mm, &device, &path);
    if (status != TK_OK)
        return status;
    struct tk_matmul_plan plan = {0, 1};
    if (path == matmul::SM90)
        plan = tk_matmul_sm90_plan(mm, &device, SIZE_MAX, -1);
    *bytes = plan.splits > 1 ? (size_t)plan.splits * mm->m * mm->n * sizeof(float) : 0;
    return TK_OK;
}

enum tk_status tk_matmul_describe(const struct tk_matmul *mm, char *text, size_t size)
{
    static const char *const names[] = {"nothing to do", "f32 on CUDA cores 64x64", "", "plain 128x128, mma.sync"};
    struct tk_device device;
    matmul::Path path;
    enum tk_status status = matmul::choose(mm, &device, &path);
    if (status != TK_OK)
        return status;
    struct tk_matmul_plan plan = {0, 1};
    if (path == matmul::SM90)
        plan = tk_matmul_sm90_plan(mm, &device, matmul::workspace_of(mm), -1);
    if (path == matmul::SM90)
        snprintf(text, size, "sm90 %s, %d slice%s of K", tk_matmul_sm90_tile_name(plan.tile), plan.splits,
                 plan.splits == 1 ? "" : "s");
    else
        snprintf(text, size, "%s", names[path]);
    return TK_OK;
}

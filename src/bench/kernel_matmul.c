/*
 * kernel_matmul.c - kernel_bench's rows of matmuls: against cuBLAS or OpenBLAS, the fast path's tiles, and the ladder.
 *
 * Checked by Freivalds' method (1979): for a vector r of random signs, C r = A (B r), which takes time like reading
 * the three. A wrong element shows in its row's sum, unless it is wrong by less than the whole row's rounding
 * allows; so some elements are computed as well, in double, and compared one by one.
 */
#include "bench/kernel_bench.h"
#include "bench/kernel_blas.h"
#include "kernels/bf16.h"
#include "kernels/error.h"
#include "kernels/ladder/ladder.h"
#include "kernels/matmul.h"
#include "kernels/matmul_paths.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { ELEMENTS = 256 }; /* compared one by one */

/* The operands; all dense. */
struct state {
    const struct bench_backend *backend;
    struct tk_matmul mm;
    unsigned seed_a, seed_b;
    void *a, *b, *c, *workspace;
};

static const char *const variants[] = {"NN", "NT", "TN", NULL}, *const ladder_variants[] = {"NN", NULL};

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static enum tk_datatype datatype_on(const struct bench_backend *backend)
{
    return backend->memory == TR_MEMORY_HOST ? TK_F32 : TK_BF16; /* OpenBLAS has no bf16 to compare with */
}

static struct kernel_cost cost(const struct bench_backend *backend, const struct kernel_shape *shape, int variant)
{
    (void)variant;
    double size = (double)tk_datatype_size(datatype_on(backend));
    double m = (double)shape->size[0], n = (double)shape->size[1], k = (double)shape->size[2];
    return (struct kernel_cost){2 * m * n * k, size * (m * k + k * n + m * n)};
}

static void release(void *opaque)
{
    struct state *state = opaque;
    void *const owned[] = {state->a, state->b, state->c, state->workspace};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        if (owned[i])
            state->backend->release(owned[i]);
    free(state);
}

static enum tk_status fill(struct state *state)
{
    struct tk_matmul *mm = &state->mm;
    size_t size = tk_datatype_size(mm->in);
    enum tk_status status = kernel_alloc(state->backend, "A", mm->m * mm->k * size, &state->a);
    if (status == TK_OK)
        status = kernel_alloc(state->backend, "B", mm->k * mm->n * size, &state->b);
    if (status == TK_OK)
        status = kernel_alloc(state->backend, "C", mm->m * mm->n * tk_datatype_size(mm->out), &state->c);
    if (status == TK_OK)
        status = kernel_fill(state->backend, state->a, mm->in, mm->m * mm->k, state->seed_a);
    if (status == TK_OK)
        status = kernel_fill(state->backend, state->b, mm->in, mm->k * mm->n, state->seed_b);
    mm->a = state->a, mm->b = state->b, mm->c = state->c;
    if (status == TK_OK && state->backend->memory == TR_MEMORY_CUDA)
        status = tk_matmul_workspace(mm, &mm->workspace_bytes);
    if (status == TK_OK && mm->workspace_bytes > 0)
        status = kernel_alloc(state->backend, "the workspace", mm->workspace_bytes, &state->workspace);
    mm->workspace = state->workspace;
    return status;
}

static enum tk_status prepare(const struct bench_backend *backend, const struct kernel_shape *shape, int variant,
                              unsigned seed, void **opaque)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory", sizeof *state);
    size_t m = shape->size[0], n = shape->size[1], k = shape->size[2];
    enum tk_layout layout = (enum tk_layout)variant;
    *state = (struct state){.backend = backend, .seed_a = 2 * seed, .seed_b = 2 * seed + 1};
    state->mm = (struct tk_matmul){.m = m,
                                   .n = n,
                                   .k = k,
                                   .lda = layout == TK_TN ? m : k,
                                   .ldb = layout == TK_NT ? k : n,
                                   .ldc = n,
                                   .in = datatype_on(backend),
                                   .out = datatype_on(backend),
                                   .layout = layout};
    enum tk_status status = fill(state);
    if (status == TK_OK)
        *opaque = state;
    else
        release(state);
    return status;
}

static enum tk_status poison(void *opaque)
{
    struct state *state = opaque;
    return kernel_poison(state->backend, state->c, state->mm.m * state->mm.n * tk_datatype_size(state->mm.out));
}

/* ---- Check ------------------------------------------------------------------------------------------------------- */

static double a_at(const struct state *state, size_t i, size_t k)
{
    const struct tk_matmul *mm = &state->mm;
    return kernel_value(mm->in, mm->layout == TK_TN ? k * mm->m + i : i * mm->k + k, state->seed_a);
}

static double b_at(const struct state *state, size_t k, size_t j)
{
    const struct tk_matmul *mm = &state->mm;
    return kernel_value(mm->in, mm->layout == TK_NT ? j * mm->k + k : k * mm->n + j, state->seed_b);
}

static double c_at(const struct state *state, const void *c, size_t at)
{
    return state->mm.out == TK_F32 ? ((const float *)c)[at] : tk_bf16_to_f32(((const uint16_t *)c)[at]);
}

static double sign_of(size_t j)
{
    return (j * 0x9e3779b97f4a7c15u >> 40 & 1) ? 1 : -1;
}

/* Half a unit in the last place, relative. */
static double unit_of(const struct state *state)
{
    return state->mm.out == TK_F32 ? FLT_EPSILON / 2 : 1.0 / 512;
}

/* What rounding may add up to for a sum of k products of normal values, rounded once to C's type: values of deviation
 * sqrt(k), f32 sums whose error grows like a random walk. */
static double deviation_of(const struct state *state)
{
    double k = (double)state->mm.k;
    return sqrt(k) * (unit_of(state) + sqrt(k) * FLT_EPSILON);
}

/* A rounding error is about 0.4 of its bound: seven deviations of a sum of n such errors. */
static double check_rows(const struct state *state, const void *c, const double *br)
{
    const struct tk_matmul *mm = &state->mm;
    double worst = 0, bound = 3 * sqrt((double)mm->n) * deviation_of(state) + FLT_MIN;
#pragma omp parallel for reduction(max : worst)
    for (size_t i = 0; i < mm->m; i++) {
        double is = 0, wanted = 0;
        for (size_t j = 0; j < mm->n; j++)
            is += c_at(state, c, i * mm->n + j) * sign_of(j);
        for (size_t k = 0; k < mm->k; k++)
            wanted += a_at(state, i, k) * br[k];
        double error = fabs(is - wanted) / bound;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

static double check_elements(const struct state *state, const void *c)
{
    const struct tk_matmul *mm = &state->mm;
    double worst = 0;
    for (size_t e = 0; e < ELEMENTS && mm->m * mm->n > 0; e++) {
        /* the corners, then anywhere */
        size_t draw = e * 0x9e3779b97f4a7c15u, i = e < 4 ? e % 2 * (mm->m - 1) : (draw >> 33) % mm->m;
        size_t j = e < 4 ? e / 2 * (mm->n - 1) : (draw >> 13 & 0xfffff) % mm->n;
        double wanted = 0;
        for (size_t k = 0; k < mm->k; k++)
            wanted += a_at(state, i, k) * b_at(state, k, j);
        double bound = unit_of(state) * fabs(wanted) + 16 * (double)mm->k * FLT_EPSILON + FLT_MIN;
        double error = fabs(c_at(state, c, i * mm->n + j) - wanted) / bound;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

static void multiply_signs(const struct state *state, double *br)
{
#pragma omp parallel for
    for (size_t k = 0; k < state->mm.k; k++) {
        br[k] = 0;
        for (size_t j = 0; j < state->mm.n; j++)
            br[k] += b_at(state, k, j) * sign_of(j);
    }
}

static enum tk_status check(void *opaque, double *error)
{
    const struct state *state = opaque;
    size_t bytes = state->mm.m * state->mm.n * tk_datatype_size(state->mm.out);
    void *c = malloc(bytes + 1);
    double *br = malloc(state->mm.k * sizeof *br + 1);
    enum tk_status status = c && br ? kernel_move(state->backend, c, state->c, bytes)
                                    : tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory to check C in", bytes);
    if (status == TK_OK) {
        multiply_signs(state, br);
        double rows = check_rows(state, c, br), elements = check_elements(state, c);
        *error = rows > elements ? rows : elements;
    }
    free(br);
    free(c);
    return status;
}

/* ---- Contenders -------------------------------------------------------------------------------------------------- */

static enum tk_status run_ours(void *opaque, int which, void *stream)
{
    const struct state *state = opaque;
    (void)which;
    return state->backend->memory == TR_MEMORY_HOST ? tk_matmul_host(&state->mm) : tk_matmul(&state->mm, stream);
}

static enum tk_status run_cublas(void *opaque, int which, void *stream)
{
    const struct state *state = opaque;
    (void)which;
    if (state->backend->memory == TR_MEMORY_HOST)
        return tk_error(TK_ERR_UNSUPPORTED, "cuBLAS works on GPU memory");
    return kernel_cublas(&state->mm, stream);
}

static enum tk_status run_openblas(void *opaque, int which, void *stream)
{
    const struct state *state = opaque;
    (void)which, (void)stream;
    if (state->backend->memory == TR_MEMORY_CUDA)
        return tk_error(TK_ERR_UNSUPPORTED, "OpenBLAS works on host memory");
    return kernel_openblas(&state->mm);
}

static enum tk_status run_plain(void *opaque, int which, void *stream)
{
    (void)which;
    return tk_matmul_plain(&((const struct state *)opaque)->mm, stream);
}

static enum tk_status run_tile(void *opaque, int which, void *stream)
{
    return tk_matmul_with_tile(&((const struct state *)opaque)->mm, which, stream);
}

static enum tk_status run_step(void *opaque, int which, void *stream)
{
    const struct tk_matmul *mm = &((const struct state *)opaque)->mm;
    return tk_ladder_run(tk_ladder_step(which), mm->a, mm->b, mm->c, mm->m, mm->n, mm->k, stream);
}

static const struct kernel_contender contenders[] = {
    {"ours", false, 0, run_ours},
    {"cublas", true, 0, run_cublas},
    {"openblas", true, 0, run_openblas},
    {NULL, false, 0, NULL},
};

/* In the order of matmul_sm90.cu. */
static const struct kernel_contender tiles[] = {
    {"auto", false, 0, run_ours},    {"128x256", false, 0, run_tile}, {"128x192", false, 1, run_tile},
    {"128x128", false, 2, run_tile}, {"256x128", false, 3, run_tile}, {"plain", false, 0, run_plain},
    {"cublas", true, 0, run_cublas}, {NULL, false, 0, NULL},
};

static const struct kernel_contender steps[] = {
    {"naive", false, 0, run_step},   {"tiles", false, 1, run_step}, {"registers", false, 2, run_step},
    {"mma", false, 3, run_step},     {"wgmma", false, 4, run_step}, {"persistent", false, 0, run_ours},
    {"cublas", true, 0, run_cublas}, {NULL, false, 0, NULL},
};

const struct kernel_row kernel_matmul = {
    .name = "matmul",
    .text = "C = A B: bf16 on a GPU beside cuBLAS, f32 on the host beside OpenBLAS",
    .dimensions = "MxNxK",
    .shapes = "4096x4096x4096,8192x8192x8192,16384x16384x16384,4096x768x768,4096x3072x768,4096x768x3072,"
              "8192x2304x768,8192x2048x2048,16384x8192x2048,16384x1024x4096,32768x4096x1024,32768x768x8192",
    .variants = variants,
    .cuda = true,
    .host = true,
    .cost = cost,
    .open = prepare,
    .close = release,
    .poison = poison,
    .check = check,
    .contenders = contenders,
};

const struct kernel_row kernel_matmul_tiles = {
    .name = "matmul_tiles",
    .text = "each tile of the matmul's fast path, and the plain path",
    .dimensions = "MxNxK",
    .shapes = "4096x4096x4096,4096x768x768,8192x2304x768,768x768x32768",
    .variants = variants,
    .cuda = true,
    .cost = cost,
    .open = prepare,
    .close = release,
    .poison = poison,
    .check = check,
    .contenders = tiles,
};

const struct kernel_row kernel_matmul_ladder = {
    .name = "matmul_ladder",
    .text = "the matmul from three loops to the fast path, an idea a step",
    .dimensions = "MxNxK",
    .shapes = "4096x4096x4096",
    .variants = ladder_variants,
    .cuda = true,
    .cost = cost,
    .open = prepare,
    .close = release,
    .poison = poison,
    .check = check,
    .contenders = steps,
};

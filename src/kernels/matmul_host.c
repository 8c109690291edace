/*
 * matmul_host.c - the matmul on host memory: the reference, and what CPU ranks train with.
 *
 * Blocks of A and B are copied, as f32, into panels that the inner loop reads from end to end (Goto and van de
 * Geijn 2008):
 *
 *     for each block of C, BLOCK_ROWS x BLOCK_N
 *         for each BLOCK_K of k:   B packed into panels of TILE_N columns, by all threads
 *             for each piece of C, BLOCK_M x PIECE_N, a thread each:   A packed into panels of TILE_M rows
 *                 TILE_M x TILE_N of C at a time in registers, over BLOCK_K of k
 *
 * A block's sums stand in f32 until the epilogue has read them. A sum has the same order whatever the number of
 * threads.
 */
#include "kernels/bf16.h"
#include "kernels/error.h"
#include "kernels/matmul_check.h"

#include <math.h>
#include <stdlib.h>

enum { TILE_M = 6, TILE_N = 16, BLOCK_M = 96, PIECE_N = 512, BLOCK_N = 1024, BLOCK_K = 256, BLOCK_ROWS = 32 * BLOCK_M };

/* The sanitizers' own start-up runs after the resolvers of clones. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

typedef float vector __attribute__((vector_size(32), aligned(4)));
enum { LANES = 8, VECTORS = TILE_N / LANES };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t count, size_t step)
{
    return (count + step - 1) / step * step;
}

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static float element(const void *base, enum tk_datatype datatype, size_t at)
{
    return datatype == TK_F32 ? ((const float *)base)[at] : tk_bf16_to_f32(((const uint16_t *)base)[at]);
}

static void put(void *base, enum tk_datatype datatype, size_t at, float value)
{
    if (datatype == TK_F32)
        ((float *)base)[at] = value;
    else
        ((uint16_t *)base)[at] = tk_bf16_from_f32(value);
}

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static float silu(float x)
{
    return x / (1 + expf(-x));
}

static float finish(const struct tk_matmul *mm, size_t row, size_t column, float x)
{
    if (mm->beta != 0)
        x += mm->beta * element(mm->c, mm->out, row * mm->ldc + column);
    if (mm->bias)
        x += element(mm->bias, mm->in, column);
    float z = tk_matmul_has_z(mm) ? element(mm->z, mm->in, row * mm->ldz + column) : 0;
    switch (mm->epilogue) {
    case TK_EPILOGUE_GELU:
        return gelu(x);
    case TK_EPILOGUE_SILU_GATE:
        return silu(z) * x;
    case TK_EPILOGUE_RESIDUAL:
        return x + z;
    default:
        return x;
    }
}

/* ---- Packing ----------------------------------------------------------------------------------------------------- */

/*
 * A panel of `tile` rows of an operand, from `row`, k from `first_k`: to[k][i], rows past `rows` as zeros. k_step
 * and row_step say how the operand lies: an element stands at row * row_step + k * k_step.
 */
struct source {
    const void *base;
    enum tk_datatype datatype;
    size_t rows, row_step, k_step;
};

CLONES static void pack_across(const struct source *s, size_t row, size_t tile, size_t first_k, size_t nk, float *to)
{
    size_t here = least(tile, s->rows - row);
    for (size_t k = 0; k < nk; k++) {
        size_t at = row * s->row_step + (first_k + k) * s->k_step;
        for (size_t i = 0; i < here; i++)
            to[k * tile + i] = element(s->base, s->datatype, at + i);
        for (size_t i = here; i < tile; i++)
            to[k * tile + i] = 0;
    }
}

CLONES static void pack_along(const struct source *s, size_t row, size_t tile, size_t first_k, size_t nk, float *to)
{
    size_t here = least(tile, s->rows - row);
    for (size_t i = 0; i < here; i++) {
        size_t at = (row + i) * s->row_step + first_k;
        for (size_t k = 0; k < nk; k++)
            to[k * tile + i] = element(s->base, s->datatype, at + k);
    }
    for (size_t i = here; i < tile; i++)
        for (size_t k = 0; k < nk; k++)
            to[k * tile + i] = 0;
}

static void pack(const struct source *s, size_t row, size_t tile, size_t first_k, size_t nk, float *to)
{
    if (s->k_step == 1)
        pack_along(s, row, tile, first_k, nk, to);
    else
        pack_across(s, row, tile, first_k, nk, to);
}

static struct source source_a(const struct tk_matmul *mm)
{
    int across = mm->layout == TK_TN;
    return (struct source){mm->a, mm->in, mm->m, across ? 1 : mm->lda, across ? mm->lda : 1};
}

static struct source source_b(const struct tk_matmul *mm)
{
    int across = mm->layout != TK_NT;
    return (struct source){mm->b, mm->in, mm->n, across ? 1 : mm->ldb, across ? mm->ldb : 1};
}

/* ---- The inner loop ---------------------------------------------------------------------------------------------- */

/* sums[TILE_M][TILE_N], rows `stride` apart, += a panel of A times a panel of B. */
CLONES static void multiply_tile(const float *a, const float *b, size_t nk, float *sums, size_t stride)
{
    vector acc[TILE_M][VECTORS];
    for (int i = 0; i < TILE_M; i++)
        for (int v = 0; v < VECTORS; v++)
            acc[i][v] = *(const vector *)(sums + (size_t)i * stride + v * LANES);
    for (size_t k = 0; k < nk; k++, a += TILE_M, b += TILE_N)
        for (int i = 0; i < TILE_M; i++)
            for (int v = 0; v < VECTORS; v++)
                acc[i][v] += a[i] * *(const vector *)(b + v * LANES);
    for (int i = 0; i < TILE_M; i++)
        for (int v = 0; v < VECTORS; v++)
            *(vector *)(sums + (size_t)i * stride + v * LANES) = acc[i][v];
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* A block of C, and what the threads share of it. */
struct block {
    const struct tk_matmul *mm;
    size_t first_row, rows, first_column, columns;
    size_t stride;   /* of sums: columns rounded up to TILE_N, at most BLOCK_N */
    float *sums;     /* round_up(rows, TILE_M) x stride */
    float *packed_b; /* stride / TILE_N panels, nk x TILE_N each */
};

static void pack_b(const struct block *block, size_t first_k, size_t nk)
{
    const struct source b = source_b(block->mm);
#pragma omp for
    for (size_t j = 0; j < block->columns; j += TILE_N)
        pack(&b, block->first_column + j, TILE_N, first_k, nk, block->packed_b + j * nk);
}

/* A piece of the block, from its `row` and `column`. */
static void multiply_piece(const struct block *block, size_t row, size_t column, size_t first_k, size_t nk)
{
    _Alignas(64) float packed_a[BLOCK_M * BLOCK_K];
    const struct source a = source_a(block->mm);
    size_t end_row = least(row + BLOCK_M, block->rows), end_column = least(column + PIECE_N, block->columns);
    for (size_t i = row; i < end_row; i += TILE_M)
        pack(&a, block->first_row + i, TILE_M, first_k, nk, packed_a + (i - row) * nk);
    for (size_t j = column; j < end_column; j += TILE_N)
        for (size_t i = row; i < end_row; i += TILE_M)
            multiply_tile(packed_a + (i - row) * nk, block->packed_b + j * nk, nk, block->sums + i * block->stride + j,
                          block->stride);
}

static void finish_block(const struct block *block)
{
    const struct tk_matmul *mm = block->mm;
#pragma omp for
    for (size_t i = 0; i < block->rows; i++)
        for (size_t j = 0; j < block->columns; j++) {
            size_t row = block->first_row + i, column = block->first_column + j;
            put(mm->c, mm->out, row * mm->ldc + column, finish(mm, row, column, block->sums[i * block->stride + j]));
        }
}

static void multiply_block(const struct block *block)
{
    memset(block->sums, 0, round_up(block->rows, TILE_M) * block->stride * sizeof *block->sums);
    /* waking threads takes as long as a few million operations */
#pragma omp parallel if (block->rows * block->columns * (block->mm->k + 1) > 1 << 20)
    {
        for (size_t k = 0; k < block->mm->k; k += BLOCK_K) {
            size_t nk = least(BLOCK_K, block->mm->k - k);
            pack_b(block, k, nk);
#pragma omp for collapse(2) schedule(dynamic)
            for (size_t row = 0; row < block->rows; row += BLOCK_M)
                for (size_t column = 0; column < block->columns; column += PIECE_N)
                    multiply_piece(block, row, column, k, nk);
        }
        finish_block(block);
    }
}

enum tk_status tk_matmul_host(const struct tk_matmul *matmul)
{
    enum tk_status status = tk_matmul_check(matmul);
    if (status != TK_OK || matmul->m == 0 || matmul->n == 0)
        return status;
    size_t rows = least(BLOCK_ROWS, round_up(matmul->m, TILE_M));
    size_t stride = least(BLOCK_N, round_up(matmul->n, TILE_N));
    size_t sums = rows * stride, packed = least(BLOCK_K, matmul->k) * stride;
    float *memory = aligned_alloc(64, (sums + packed) * sizeof *memory);
    if (!memory)
        return tk_error(TK_ERR_MEMORY, "matmul: no %zu bytes of host memory for sums and panels",
                        (sums + packed) * sizeof *memory);
    for (size_t row = 0; row < matmul->m; row += BLOCK_ROWS)
        for (size_t column = 0; column < matmul->n; column += BLOCK_N)
            multiply_block(&(struct block){.mm = matmul,
                                           .first_row = row,
                                           .rows = least(BLOCK_ROWS, matmul->m - row),
                                           .first_column = column,
                                           .columns = least(BLOCK_N, matmul->n - column),
                                           .stride = stride,
                                           .sums = memory,
                                           .packed_b = memory + sums});
    free(memory);
    return TK_OK;
}

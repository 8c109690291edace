/* softmax_host.c - row softmax on the host, and the checks of arguments of both places. */
#include "kernels/softmax.h"
#include "kernels/check.h"
#include "kernels/rows_host.h"
#include "kernels/softmax_host.h"

enum tk_status tk_softmax_forward_check(const struct tk_softmax_forward *softmax)
{
    enum tk_status status = tk_check_type("softmax_forward", "type", softmax->type);
    if (status == TK_OK)
        status = tk_check_rows("softmax_forward", softmax->rows, softmax->width, softmax->width, softmax->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(softmax->type);
    const struct tk_operand operands[] = {
        {"input", softmax->input, size, softmax->rows == 0},
        {"output", softmax->output, size, softmax->rows == 0},
    };
    return tk_check_operands("softmax_forward", operands, sizeof operands / sizeof *operands);
}

enum tk_status tk_softmax_backward_check(const struct tk_softmax_backward *softmax)
{
    enum tk_status status = tk_check_type("softmax_backward", "type", softmax->type);
    if (status == TK_OK)
        status = tk_check_rows("softmax_backward", softmax->rows, softmax->width, softmax->width, softmax->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(softmax->type);
    const struct tk_operand operands[] = {
        {"output", softmax->output, size, softmax->rows == 0},
        {"output_gradient", softmax->output_gradient, size, softmax->rows == 0},
        {"input_gradient", softmax->input_gradient, size, softmax->rows == 0},
    };
    return tk_check_operands("softmax_backward", operands, sizeof operands / sizeof *operands);
}

/* ---- A row's maximum and sum, which cross_entropy_host.c needs too ----------------------------------------------- */

static float block_max(const float *block, size_t n)
{
    float max = -INFINITY;
#pragma omp simd reduction(max : max)
    for (size_t i = 0; i < n; i++)
        max = block[i] > max ? block[i] : max;
    return max;
}

TK_CLONES struct tk_softmax_row tk_softmax_row(const void *values, size_t offset, size_t width, enum tk_datatype type)
{
    float block[TK_BLOCK];
    struct tk_softmax_row row = {.max = -INFINITY, .sum = 0};
    for (size_t at = 0; at < width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, width);
        tk_widen(block, values, offset + at, n, type);
        float before = row.max, max = block_max(block, n);
        row.max = max > row.max ? max : row.max;
        float base = tk_softmax_base(&row), part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = 0; i < n; i++)
            part += tk_expf(block[i] - base);
        double kept = before == base ? row.sum : row.sum * (double)tk_expf(before - base);
        row.sum = kept + (double)part;
    }
    return row;
}

TK_CLONES static void write_row(const struct tk_softmax_forward *softmax, size_t offset, struct tk_softmax_row row)
{
    float block[TK_BLOCK], base = tk_softmax_base(&row), share = (float)(1 / row.sum);
    for (size_t at = 0; at < softmax->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, softmax->width);
        tk_widen(block, softmax->input, offset + at, n, softmax->type);
        for (size_t i = 0; i < n; i++)
            block[i] = tk_expf(block[i] - base) * share;
        tk_narrow(softmax->output, offset + at, block, n, softmax->type);
    }
}

enum tk_status tk_softmax_forward_host(const struct tk_softmax_forward *softmax)
{
    enum tk_status status = tk_softmax_forward_check(softmax);
    if (status != TK_OK)
        return status;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < softmax->rows; row++) {
        size_t offset = row * softmax->width;
        write_row(softmax, offset, tk_softmax_row(softmax->input, offset, softmax->width, softmax->type));
    }
    return TK_OK;
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

TK_CLONES static float row_dot(const struct tk_softmax_backward *softmax, size_t offset)
{
    float y[TK_BLOCK], g[TK_BLOCK];
    double dot = 0;
    for (size_t at = 0; at < softmax->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, softmax->width);
        tk_widen(y, softmax->output, offset + at, n, softmax->type);
        tk_widen(g, softmax->output_gradient, offset + at, n, softmax->type);
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = 0; i < n; i++)
            part += y[i] * g[i];
        dot += (double)part;
    }
    return (float)dot;
}

TK_CLONES static void write_gradient(const struct tk_softmax_backward *softmax, size_t offset, float dot)
{
    float y[TK_BLOCK], g[TK_BLOCK];
    for (size_t at = 0; at < softmax->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, softmax->width);
        tk_widen(y, softmax->output, offset + at, n, softmax->type);
        tk_widen(g, softmax->output_gradient, offset + at, n, softmax->type);
        for (size_t i = 0; i < n; i++)
            g[i] = y[i] * (g[i] - dot);
        tk_narrow(softmax->input_gradient, offset + at, g, n, softmax->type);
    }
}

enum tk_status tk_softmax_backward_host(const struct tk_softmax_backward *softmax)
{
    enum tk_status status = tk_softmax_backward_check(softmax);
    if (status != TK_OK)
        return status;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < softmax->rows; row++)
        write_gradient(softmax, row * softmax->width, row_dot(softmax, row * softmax->width));
    return TK_OK;
}

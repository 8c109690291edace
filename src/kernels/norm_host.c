/*
 * norm_host.c - RMSNorm and LayerNorm on the host, and the checks of arguments of both places. Backward has a pass over rows
 * for the input's gradient and one over columns for the weights': each column's sum has the order of rows, whatever the
 * number of threads.
 */
#include "kernels/norm.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/rows_host.h"

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

enum tk_status tk_norm_forward_check(const struct tk_norm_forward *norm)
{
    enum tk_status status = tk_check_type("norm_forward", "type", norm->type);
    if (status == TK_OK)
        status = tk_check_rows("norm_forward", norm->rows, norm->width, norm->width, norm->type);
    if (status == TK_OK && !(norm->epsilon >= 0))
        status = tk_error(TK_ERR_ARGUMENT, "norm_forward: epsilon %g is not 0 or more", (double)norm->epsilon);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(norm->type);
    bool empty = norm->rows == 0;
    const struct tk_operand operands[] = {
        {"input", norm->input, size, empty},
        {"residual", norm->residual, size, true},
        {"weight", norm->weight, size, empty},
        {"bias", norm->bias, size, true},
        {"sum", norm->sum, size, empty || norm->residual == NULL},
        {"output", norm->output, size, empty},
        {"mean", norm->mean, sizeof(float), empty || !norm->centred},
        {"rstd", norm->rstd, sizeof(float), empty},
    };
    return tk_check_operands("norm_forward", operands, sizeof operands / sizeof *operands);
}

enum tk_status tk_norm_backward_check(const struct tk_norm_backward *norm)
{
    enum tk_status status = tk_check_type("norm_backward", "type", norm->type);
    if (status == TK_OK)
        status = tk_check_type("norm_backward", "weight_type", norm->weight_type);
    if (status == TK_OK)
        status = tk_check_rows("norm_backward", norm->rows, norm->width, norm->width, norm->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(norm->type), weight_size = tk_datatype_size(norm->weight_type);
    bool empty = norm->rows == 0;
    const struct tk_operand operands[] = {
        {"input", norm->input, size, empty},
        {"output_gradient", norm->output_gradient, size, empty},
        {"residual_gradient", norm->residual_gradient, size, true},
        {"weight", norm->weight, size, empty},
        {"mean", norm->mean, sizeof(float), empty || !norm->centred},
        {"rstd", norm->rstd, sizeof(float), empty},
        {"input_gradient", norm->input_gradient, size, empty},
        {"weight_gradient", norm->weight_gradient, weight_size, false},
        {"bias_gradient", norm->bias_gradient, weight_size, true},
        {"workspace", norm->workspace, 16, true},
    };
    return tk_check_operands("norm_backward", operands, sizeof operands / sizeof *operands);
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

/* sum = input + residual for the row at element `offset`. */
TK_CLONES static void add_residual(const struct tk_norm_forward *norm, size_t offset)
{
    float a[TK_BLOCK], b[TK_BLOCK];
    for (size_t at = 0; at < norm->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, norm->width);
        tk_widen(a, norm->input, offset + at, n, norm->type);
        tk_widen(b, norm->residual, offset + at, n, norm->type);
        for (size_t i = 0; i < n; i++)
            a[i] += b[i];
        tk_narrow(norm->sum, offset + at, a, n, norm->type);
    }
}

/* The sum over a row of x - middle, or of its squares; blocks' sums in f64. */
TK_CLONES static double row_sum(const void *x, size_t offset, size_t width, enum tk_datatype type, float middle,
                                bool squares)
{
    float block[TK_BLOCK];
    double sum = 0;
    for (size_t at = 0; at < width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, width);
        tk_widen(block, x, offset + at, n, type);
        float part = 0;
        if (squares)
#pragma omp simd reduction(+ : part)
            for (size_t i = 0; i < n; i++)
                part += (block[i] - middle) * (block[i] - middle);
        else
#pragma omp simd reduction(+ : part)
            for (size_t i = 0; i < n; i++)
                part += block[i];
        sum += (double)part;
    }
    return sum;
}

TK_CLONES static void write_row(const struct tk_norm_forward *norm, const void *x, size_t offset, float mean,
                                float rstd)
{
    float y[TK_BLOCK], w[TK_BLOCK], b[TK_BLOCK] = {0};
    for (size_t at = 0; at < norm->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, norm->width);
        tk_widen(y, x, offset + at, n, norm->type);
        tk_widen(w, norm->weight, at, n, norm->type);
        if (norm->bias)
            tk_widen(b, norm->bias, at, n, norm->type);
        for (size_t i = 0; i < n; i++)
            y[i] = (y[i] - mean) * rstd * w[i] + b[i];
        tk_narrow(norm->output, offset + at, y, n, norm->type);
    }
}

enum tk_status tk_norm_forward_host(const struct tk_norm_forward *norm)
{
    enum tk_status status = tk_norm_forward_check(norm);
    if (status != TK_OK)
        return status;
    const void *x = norm->residual ? norm->sum : norm->input;
    double width = (double)norm->width;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < norm->rows; row++) {
        size_t offset = row * norm->width;
        if (norm->residual)
            add_residual(norm, offset);
        float mean = 0;
        if (norm->centred)
            mean = (float)(row_sum(x, offset, norm->width, norm->type, 0, false) / width);
        double variance = row_sum(x, offset, norm->width, norm->type, mean, true) / width;
        float rstd = (float)(1 / sqrt(variance + (double)norm->epsilon));
        write_row(norm, x, offset, mean, rstd);
        norm->rstd[row] = rstd;
        if (norm->mean)
            norm->mean[row] = mean;
    }
    return TK_OK;
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

/* A row's statistics, and the means of g n and of g (0 for RMSNorm), where g = output_gradient weight. */
struct row {
    float mean, rstd, mean_gn, mean_g;
};

TK_CLONES static void gradient_means(const struct tk_norm_backward *norm, size_t offset, struct row *row)
{
    float x[TK_BLOCK], g[TK_BLOCK], w[TK_BLOCK];
    double sum_gn = 0, sum_g = 0;
    float mean = row->mean, rstd = row->rstd;
    for (size_t at = 0; at < norm->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, norm->width);
        tk_widen(x, norm->input, offset + at, n, norm->type);
        tk_widen(g, norm->output_gradient, offset + at, n, norm->type);
        tk_widen(w, norm->weight, at, n, norm->type);
        float gn = 0, all = 0;
#pragma omp simd reduction(+ : gn, all)
        for (size_t i = 0; i < n; i++) {
            gn += g[i] * w[i] * ((x[i] - mean) * rstd);
            all += g[i] * w[i];
        }
        sum_gn += (double)gn;
        sum_g += (double)all;
    }
    row->mean_gn = (float)(sum_gn / (double)norm->width);
    row->mean_g = norm->centred ? (float)(sum_g / (double)norm->width) : 0;
}

TK_CLONES static void write_gradient(const struct tk_norm_backward *norm, size_t offset, const struct row *row)
{
    float x[TK_BLOCK], g[TK_BLOCK], w[TK_BLOCK], other[TK_BLOCK] = {0};
    float mean = row->mean, rstd = row->rstd, mean_gn = row->mean_gn, mean_g = row->mean_g;
    for (size_t at = 0; at < norm->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, norm->width);
        tk_widen(x, norm->input, offset + at, n, norm->type);
        tk_widen(g, norm->output_gradient, offset + at, n, norm->type);
        tk_widen(w, norm->weight, at, n, norm->type);
        if (norm->residual_gradient)
            tk_widen(other, norm->residual_gradient, offset + at, n, norm->type);
        for (size_t i = 0; i < n; i++)
            x[i] = rstd * (g[i] * w[i] - (x[i] - mean) * rstd * mean_gn - mean_g) + other[i];
        tk_narrow(norm->input_gradient, offset + at, x, n, norm->type);
    }
}

/* Add one row's part to the sums of columns [at, at + n). */
TK_CLONES static void add_columns(const struct tk_norm_backward *norm, size_t row, size_t at, size_t n,
                                  float *restrict weight, float *restrict bias)
{
    float x[TK_BLOCK], g[TK_BLOCK], mean = norm->centred ? norm->mean[row] : 0, rstd = norm->rstd[row];
    tk_widen(x, norm->input, row * norm->width + at, n, norm->type);
    tk_widen(g, norm->output_gradient, row * norm->width + at, n, norm->type);
    for (size_t i = 0; i < n; i++) {
        weight[i] += g[i] * ((x[i] - mean) * rstd);
        bias[i] += g[i];
    }
}

/* Store `sums`, or add them to what is there. */
static void put_columns(const struct tk_norm_backward *norm, void *gradient, size_t at, size_t n, float *sums)
{
    float before[TK_BLOCK];
    if (norm->accumulate) {
        tk_widen(before, gradient, at, n, norm->weight_type);
        for (size_t i = 0; i < n; i++)
            sums[i] += before[i];
    }
    tk_narrow(gradient, at, sums, n, norm->weight_type);
}

/* Before the input's gradient, which may overwrite the inputs. */
static void weight_gradients(const struct tk_norm_backward *norm)
{
    size_t blocks = (norm->width + TK_BLOCK - 1) / TK_BLOCK;
#pragma omp parallel for schedule(dynamic)
    for (size_t block = 0; block < blocks; block++) {
        float weight[TK_BLOCK] = {0}, bias[TK_BLOCK] = {0};
        size_t at = block * TK_BLOCK, n = tk_block_length(at, norm->width);
        for (size_t row = 0; row < norm->rows; row++)
            add_columns(norm, row, at, n, weight, bias);
        put_columns(norm, norm->weight_gradient, at, n, weight);
        if (norm->bias_gradient)
            put_columns(norm, norm->bias_gradient, at, n, bias);
    }
}

enum tk_status tk_norm_backward_host(const struct tk_norm_backward *norm)
{
    enum tk_status status = tk_norm_backward_check(norm);
    if (status != TK_OK)
        return status;
    weight_gradients(norm);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < norm->rows; i++) {
        struct row row = {.mean = norm->centred ? norm->mean[i] : 0, .rstd = norm->rstd[i]};
        gradient_means(norm, i * norm->width, &row);
        write_gradient(norm, i * norm->width, &row);
    }
    return TK_OK;
}

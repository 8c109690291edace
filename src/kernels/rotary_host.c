/* rotary_host.c - rotary position embedding on the host, its table, and the checks of arguments of both places. */
#include "kernels/rotary.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/rows_host.h"

static enum tk_status check_shape(const struct tk_rotary *rotary)
{
    size_t row;
    if (rotary->width == 0 || rotary->width % 2 != 0 || rotary->width > UINT32_MAX)
        return tk_error(TK_ERR_ARGUMENT, "rotary: width %zu is not even, positive and below 2^32", rotary->width);
    if (__builtin_mul_overflow(rotary->heads, rotary->width, &row) || row > INT32_MAX)
        return tk_error(TK_ERR_ARGUMENT, "rotary: %zu heads of width %zu are more than 2^31 - 1 values", rotary->heads,
                        rotary->width);
    if (rotary->input_stride < row || rotary->output_stride < row)
        return tk_error(TK_ERR_ARGUMENT,
                        "rotary: input_stride %zu or output_stride %zu is less than heads * width, %zu",
                        rotary->input_stride, rotary->output_stride, row);
    if (rotary->positions == NULL && rotary->sequence == 0)
        return tk_error(TK_ERR_ARGUMENT, "rotary: sequence is 0, and positions is NULL");
    return TK_OK;
}

enum tk_status tk_rotary_check(const struct tk_rotary *rotary)
{
    enum tk_status status = tk_check_type("rotary", "type", rotary->type);
    if (status == TK_OK)
        status = check_shape(rotary);
    bool empty = rotary->tokens == 0 || rotary->heads == 0;
    if (status == TK_OK && !empty)
        status = tk_check_rows("rotary", rotary->tokens, rotary->width, rotary->input_stride, rotary->type);
    if (status == TK_OK && !empty)
        status = tk_check_rows("rotary", rotary->tokens, rotary->width, rotary->output_stride, rotary->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(rotary->type);
    const struct tk_operand operands[] = {
        {"input", rotary->input, size, empty},
        {"output", rotary->output, size, empty},
        {"positions", rotary->positions, sizeof(int32_t), true},
        {"table", rotary->table, sizeof(float), empty},
    };
    return tk_check_operands("rotary", operands, sizeof operands / sizeof *operands);
}

enum tk_status tk_rotary_table_host(float *table, size_t positions, size_t width, double base)
{
    if (width == 0 || width % 2 != 0)
        return tk_error(TK_ERR_ARGUMENT, "rotary_table: width %zu is not even and positive", width);
    if (!(base > 0))
        return tk_error(TK_ERR_ARGUMENT, "rotary_table: base %g is not positive", base);
    if (table == NULL && positions > 0)
        return tk_error(TK_ERR_ARGUMENT, "rotary_table: table is NULL");
    size_t half = width / 2;
#pragma omp parallel for schedule(static)
    for (size_t position = 0; position < positions; position++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)position * pow(base, -2 * (double)i / (double)width);
            table[position * width + i] = (float)cos(angle);
            table[position * width + half + i] = (float)sin(angle);
        }
    return TK_OK;
}

/* Rotate one head at element `from` of the input to `to` of the output; `table` is its position's row. */
TK_CLONES static void rotate_head(const struct tk_rotary *rotary, size_t from, size_t to, const float *table,
                                  float sign)
{
    size_t half = rotary->width / 2, step = rotary->interleaved ? 2 : 1, other = rotary->interleaved ? 1 : half;
    for (size_t i = 0; i < half; i++) {
        float a, b, c = table ? table[i] : NAN, s = table ? sign * table[half + i] : NAN;
        tk_widen(&a, rotary->input, from + step * i, 1, rotary->type);
        tk_widen(&b, rotary->input, from + step * i + other, 1, rotary->type);
        float x = a * c - b * s, y = a * s + b * c;
        tk_narrow(rotary->output, to + step * i, &x, 1, rotary->type);
        tk_narrow(rotary->output, to + step * i + other, &y, 1, rotary->type);
    }
}

static enum tk_status rotate(const struct tk_rotary *rotary, float sign)
{
    enum tk_status status = tk_rotary_check(rotary);
    if (status != TK_OK)
        return status;
#pragma omp parallel for schedule(static)
    for (size_t token = 0; token < rotary->tokens; token++) {
        size_t position = rotary->positions ? (size_t)rotary->positions[token] : token % rotary->sequence;
        const float *table = position < rotary->table_positions ? rotary->table + position * rotary->width : NULL;
        for (size_t head = 0; head < rotary->heads; head++)
            rotate_head(rotary, token * rotary->input_stride + head * rotary->width,
                        token * rotary->output_stride + head * rotary->width, table, sign);
    }
    return TK_OK;
}

enum tk_status tk_rotary_forward_host(const struct tk_rotary *rotary)
{
    return rotate(rotary, 1);
}

enum tk_status tk_rotary_backward_host(const struct tk_rotary *rotary)
{
    return rotate(rotary, -1);
}

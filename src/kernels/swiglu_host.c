/* swiglu_host.c - the gate of SwiGLU on the host, and the checks of arguments of both places. */
#include "kernels/swiglu.h"
#include "kernels/check.h"
#include "kernels/rows_host.h"

/* Both strides. */
static enum tk_status check_rows(const char *kernel, size_t rows, size_t width, size_t input, size_t output,
                                 enum tk_datatype type)
{
    enum tk_status status = tk_check_type(kernel, "type", type);
    if (status == TK_OK)
        status = tk_check_rows(kernel, rows, width, input, type);
    return status == TK_OK ? tk_check_rows(kernel, rows, width, output, type) : status;
}

enum tk_status tk_swiglu_forward_check(const struct tk_swiglu_forward *swiglu)
{
    enum tk_status status = check_rows("swiglu_forward", swiglu->rows, swiglu->width, swiglu->input_stride,
                                       swiglu->output_stride, swiglu->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(swiglu->type);
    bool empty = swiglu->rows == 0;
    const struct tk_operand operands[] = {
        {"gate", swiglu->gate, size, empty},
        {"up", swiglu->up, size, empty},
        {"output", swiglu->output, size, empty},
    };
    return tk_check_operands("swiglu_forward", operands, sizeof operands / sizeof *operands);
}

enum tk_status tk_swiglu_backward_check(const struct tk_swiglu_backward *swiglu)
{
    enum tk_status status = check_rows("swiglu_backward", swiglu->rows, swiglu->width, swiglu->input_stride,
                                       swiglu->output_stride, swiglu->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(swiglu->type);
    bool empty = swiglu->rows == 0;
    const struct tk_operand operands[] = {
        {"gate", swiglu->gate, size, empty},
        {"up", swiglu->up, size, empty},
        {"output_gradient", swiglu->output_gradient, size, empty},
        {"gate_gradient", swiglu->gate_gradient, size, empty},
        {"up_gradient", swiglu->up_gradient, size, empty},
    };
    return tk_check_operands("swiglu_backward", operands, sizeof operands / sizeof *operands);
}

TK_CLONES static void forward_row(const struct tk_swiglu_forward *swiglu, size_t row)
{
    float gate[TK_BLOCK], up[TK_BLOCK];
    size_t from = row * swiglu->input_stride, to = row * swiglu->output_stride;
    for (size_t at = 0; at < swiglu->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, swiglu->width);
        tk_widen(gate, swiglu->gate, from + at, n, swiglu->type);
        tk_widen(up, swiglu->up, from + at, n, swiglu->type);
        for (size_t i = 0; i < n; i++)
            up[i] *= gate[i] / (1 + tk_expf(-gate[i]));
        tk_narrow(swiglu->output, to + at, up, n, swiglu->type);
    }
}

enum tk_status tk_swiglu_forward_host(const struct tk_swiglu_forward *swiglu)
{
    enum tk_status status = tk_swiglu_forward_check(swiglu);
    if (status != TK_OK)
        return status;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < swiglu->rows; row++)
        forward_row(swiglu, row);
    return TK_OK;
}

TK_CLONES static void backward_row(const struct tk_swiglu_backward *swiglu, size_t row)
{
    float gate[TK_BLOCK], up[TK_BLOCK], g[TK_BLOCK];
    size_t input = row * swiglu->input_stride, output = row * swiglu->output_stride;
    for (size_t at = 0; at < swiglu->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, swiglu->width);
        tk_widen(gate, swiglu->gate, input + at, n, swiglu->type);
        tk_widen(up, swiglu->up, input + at, n, swiglu->type);
        tk_widen(g, swiglu->output_gradient, output + at, n, swiglu->type);
        for (size_t i = 0; i < n; i++) {
            float x = gate[i], s = 1 / (1 + tk_expf(-x));
            gate[i] = g[i] * up[i] * s * (1 + x * (1 - s));
            up[i] = g[i] * x * s;
        }
        tk_narrow(swiglu->gate_gradient, input + at, gate, n, swiglu->type);
        tk_narrow(swiglu->up_gradient, input + at, up, n, swiglu->type);
    }
}

enum tk_status tk_swiglu_backward_host(const struct tk_swiglu_backward *swiglu)
{
    enum tk_status status = tk_swiglu_backward_check(swiglu);
    if (status != TK_OK)
        return status;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < swiglu->rows; row++)
        backward_row(swiglu, row);
    return TK_OK;
}

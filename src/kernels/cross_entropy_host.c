/* cross_entropy_host.c - softmax cross-entropy on the host, and the checks of arguments of both places. */
#include "kernels/cross_entropy.h"
#include "kernels/check.h"
#include "kernels/rows_host.h"
#include "kernels/softmax_host.h"

enum tk_status tk_cross_entropy_check(const struct tk_cross_entropy *entropy)
{
    enum tk_status status = tk_check_type("cross_entropy", "type", entropy->type);
    if (status == TK_OK)
        status = tk_check_rows("cross_entropy", entropy->rows, entropy->width, entropy->stride, entropy->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(entropy->type);
    bool empty = entropy->rows == 0;
    const struct tk_operand operands[] = {
        {"logits", entropy->logits, size, empty},      {"targets", entropy->targets, sizeof(int32_t), empty},
        {"loss", entropy->loss, sizeof(float), empty}, {"lse", entropy->lse, sizeof(float), true},
        {"gradient", entropy->gradient, size, true},
    };
    return tk_check_operands("cross_entropy", operands, sizeof operands / sizeof *operands);
}

enum tk_status tk_cross_entropy_backward_check(const struct tk_cross_entropy_backward *entropy)
{
    enum tk_status status = tk_check_type("cross_entropy_backward", "type", entropy->type);
    if (status == TK_OK)
        status = tk_check_rows("cross_entropy_backward", entropy->rows, entropy->width, entropy->stride, entropy->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(entropy->type);
    bool empty = entropy->rows == 0;
    const struct tk_operand operands[] = {
        {"logits", entropy->logits, size, empty},     {"targets", entropy->targets, sizeof(int32_t), empty},
        {"lse", entropy->lse, sizeof(float), empty},  {"loss_gradient", entropy->loss_gradient, sizeof(float), true},
        {"gradient", entropy->gradient, size, empty},
    };
    return tk_check_operands("cross_entropy_backward", operands, sizeof operands / sizeof *operands);
}

static float element(const void *values, size_t at, enum tk_datatype type)
{
    float value;
    tk_widen(&value, values, at, 1, type);
    return value;
}

/* gradient = scale (exp(logits - lse) - [column = target]) for the row at element `offset`. */
TK_CLONES static void write_gradient(const struct tk_cross_entropy_backward *entropy, size_t offset, float lse,
                                     int32_t target, float scale)
{
    float block[TK_BLOCK];
    bool ignored = target == entropy->ignore, known = (uint32_t)target < entropy->width;
    for (size_t at = 0; at < entropy->width; at += TK_BLOCK) {
        size_t n = tk_block_length(at, entropy->width);
        tk_widen(block, entropy->logits, offset + at, n, entropy->type);
        for (size_t i = 0; i < n; i++)
            block[i] = scale * tk_expf(block[i] - lse);
        if (known && (uint32_t)target >= at && (uint32_t)target < at + n)
            block[(uint32_t)target - at] -= scale;
        for (size_t i = 0; (ignored || !known) && i < n; i++)
            block[i] = ignored ? 0 : NAN;
        tk_narrow(entropy->gradient, offset + at, block, n, entropy->type);
    }
}

enum tk_status tk_cross_entropy_backward_host(const struct tk_cross_entropy_backward *entropy)
{
    enum tk_status status = tk_cross_entropy_backward_check(entropy);
    if (status != TK_OK)
        return status;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < entropy->rows; row++) {
        float scale = entropy->loss_gradient ? entropy->scale * entropy->loss_gradient[row] : entropy->scale;
        write_gradient(entropy, row * entropy->stride, entropy->lse[row], entropy->targets[row], scale);
    }
    return TK_OK;
}

enum tk_status tk_cross_entropy_host(const struct tk_cross_entropy *entropy)
{
    enum tk_status status = tk_cross_entropy_check(entropy);
    if (status != TK_OK)
        return status;
    const struct tk_cross_entropy_backward backward = {.type = entropy->type,
                                                       .width = entropy->width,
                                                       .logits = entropy->logits,
                                                       .ignore = entropy->ignore,
                                                       .gradient = entropy->gradient};
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < entropy->rows; row++) {
        size_t offset = row * entropy->stride;
        int32_t target = entropy->targets[row];
        struct tk_softmax_row sums = tk_softmax_row(entropy->logits, offset, entropy->width, entropy->type);
        float lse = (float)((double)sums.max + log(sums.sum));
        float wanted = (uint32_t)target < entropy->width
                           ? element(entropy->logits, offset + (uint32_t)target, entropy->type)
                           : NAN;
        entropy->loss[row] = target == entropy->ignore ? 0 : lse - wanted;
        if (entropy->lse)
            entropy->lse[row] = lse;
        if (entropy->gradient)
            write_gradient(&backward, offset, lse, target, entropy->scale);
    }
    return TK_OK;
}

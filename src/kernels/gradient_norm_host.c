/*
 * gradient_norm_host.c - the global gradient norm on the host, and the checks of arguments of both places. Slices of fixed
 * length are summed by any thread, and added in order.
 */
#include "kernels/gradient_norm.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/rows_host.h"

enum { SLICES = 64 };

enum tk_status tk_gradient_norm_check(const struct tk_gradient_norm *norm)
{
    enum tk_status status = tk_check_type("gradient_norm", "type", norm->type);
    if (status != TK_OK)
        return status;
    if (norm->tensors == NULL && norm->count > 0)
        return tk_error(TK_ERR_ARGUMENT, "gradient_norm: tensors is NULL");
    if (!(norm->max_norm >= 0))
        return tk_error(TK_ERR_ARGUMENT, "gradient_norm: max_norm %g is not 0 or more", (double)norm->max_norm);
    for (size_t i = 0; status == TK_OK && i < norm->count; i++) {
        const struct tk_operand values = {"values of a tensor", norm->tensors[i].values, tk_datatype_size(norm->type),
                                          norm->tensors[i].count == 0};
        status = tk_check_operands("gradient_norm", &values, 1);
    }
    const struct tk_operand operands[] = {
        {"result", norm->result, sizeof(float), false},
        {"workspace", norm->workspace, sizeof(double), true},
    };
    return status != TK_OK ? status : tk_check_operands("gradient_norm", operands, sizeof operands / sizeof *operands);
}

TK_CLONES static double squares(const struct tk_gradient *tensor, size_t begin, size_t end, enum tk_datatype type)
{
    float block[TK_BLOCK];
    double sum = 0;
    for (size_t at = begin; at < end; at += TK_BLOCK) {
        size_t n = tk_block_length(at, end);
        tk_widen(block, tensor->values, at, n, type);
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = 0; i < n; i++)
            part += block[i] * block[i];
        sum += (double)part;
    }
    return sum;
}

static double tensor_squares(const struct tk_gradient *tensor, enum tk_datatype type)
{
    double slice[SLICES], sum = 0;
    size_t length = tensor->count / SLICES + 1;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < SLICES; i++) {
        size_t begin = i * length < tensor->count ? i * length : tensor->count;
        size_t end = tensor->count - begin < length ? tensor->count : begin + length;
        slice[i] = squares(tensor, begin, end, type);
    }
    for (size_t i = 0; i < SLICES; i++)
        sum += slice[i];
    return sum;
}

enum tk_status tk_gradient_norm_host(const struct tk_gradient_norm *norm)
{
    enum tk_status status = tk_gradient_norm_check(norm);
    if (status != TK_OK)
        return status;
    double sum = 0;
    for (size_t i = 0; i < norm->count; i++)
        sum += tensor_squares(&norm->tensors[i], norm->type);
    float total = (float)((double)norm->scale * sqrt(sum)), clip = norm->max_norm / (total + 1e-6f);
    norm->result[0] = total;
    norm->result[1] = total != total ? total : norm->max_norm > 0 && clip < 1 ? clip : 1;
    return TK_OK;
}

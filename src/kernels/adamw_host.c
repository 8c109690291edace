/* adamw_host.c - AdamW on the host, and the checks of arguments of both places. */
#include "kernels/adamw.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/rows_host.h"

static enum tk_status check_numbers(const struct tk_adamw *adamw)
{
    if (!(adamw->beta1 >= 0 && adamw->beta1 < 1))
        return tk_error(TK_ERR_ARGUMENT, "adamw: beta1 %g is not in [0, 1)", (double)adamw->beta1);
    if (!(adamw->beta2 >= 0 && adamw->beta2 < 1))
        return tk_error(TK_ERR_ARGUMENT, "adamw: beta2 %g is not in [0, 1)", (double)adamw->beta2);
    if (!(adamw->epsilon >= 0))
        return tk_error(TK_ERR_ARGUMENT, "adamw: epsilon %g is not 0 or more", (double)adamw->epsilon);
    if (adamw->step == 0)
        return tk_error(TK_ERR_ARGUMENT, "adamw: step is 0; the first step is 1");
    if (adamw->tensors == NULL && adamw->count > 0)
        return tk_error(TK_ERR_ARGUMENT, "adamw: tensors is NULL");
    return TK_OK;
}

enum tk_status tk_adamw_check(const struct tk_adamw *adamw)
{
    enum tk_status status = tk_check_type("adamw", "parameter_type", adamw->parameter_type);
    if (status == TK_OK)
        status = tk_check_type("adamw", "gradient_type", adamw->gradient_type);
    if (status == TK_OK)
        status = check_numbers(adamw);
    for (size_t i = 0; status == TK_OK && i < adamw->count; i++) {
        const struct tk_adamw_tensor *tensor = &adamw->tensors[i];
        bool empty = tensor->count == 0;
        const struct tk_operand operands[] = {
            {"parameter of a tensor", tensor->parameter, tk_datatype_size(adamw->parameter_type), true},
            {"master of a tensor", tensor->master, sizeof(float), empty},
            {"m of a tensor", tensor->m, sizeof(float), empty},
            {"v of a tensor", tensor->v, sizeof(float), empty},
            {"gradient of a tensor", tensor->gradient, tk_datatype_size(adamw->gradient_type), empty},
        };
        status = tk_check_operands("adamw", operands, sizeof operands / sizeof *operands);
    }
    return status;
}

struct factors {
    float scale;
    float rate; /* rate / (1 - beta1^step) */
    float root; /* 1 / sqrt(1 - beta2^step) */
};

TK_CLONES static void update(const struct tk_adamw *adamw, const struct tk_adamw_tensor *tensor, size_t at, size_t n,
                             struct factors f)
{
    float g[TK_BLOCK], keep = 1 - adamw->rate * tensor->decay, beta1 = adamw->beta1, beta2 = adamw->beta2;
    float epsilon = adamw->epsilon;
    float *restrict w = tensor->master + at, *restrict m = tensor->m + at, *restrict v = tensor->v + at;
    tk_widen(g, tensor->gradient, at, n, adamw->gradient_type);
    for (size_t i = 0; i < n; i++) {
        float x = g[i] * f.scale;
        m[i] = beta1 * m[i] + (1 - beta1) * x;
        v[i] = beta2 * v[i] + (1 - beta2) * (x * x);
        w[i] = w[i] * keep - f.rate * m[i] / (sqrtf(v[i]) * f.root + epsilon);
    }
    if (tensor->parameter)
        tk_narrow(tensor->parameter, at, w, n, adamw->parameter_type);
}

enum tk_status tk_adamw_host(const struct tk_adamw *adamw)
{
    enum tk_status status = tk_adamw_check(adamw);
    if (status != TK_OK)
        return status;
    const struct factors factors = {
        .scale = adamw->more_scale ? adamw->scale * *adamw->more_scale : adamw->scale,
        .rate = (float)((double)adamw->rate / (1 - pow((double)adamw->beta1, (double)adamw->step))),
        .root = (float)(1 / sqrt(1 - pow((double)adamw->beta2, (double)adamw->step))),
    };
    for (size_t k = 0; k < adamw->count; k++) {
        const struct tk_adamw_tensor *tensor = &adamw->tensors[k];
#pragma omp parallel for schedule(static)
        for (size_t at = 0; at < tensor->count; at += TK_BLOCK)
            update(adamw, tensor, at, tk_block_length(at, tensor->count), factors);
    }
    return TK_OK;
}

/* attention_check.c - what attention's device and host versions check alike. */
#include "kernels/attention_check.h"
#include "kernels/error.h"

#include <math.h>

enum { MOST = 1 << 30 };                  /* of each extent: coordinates of a tile are int */
static const double MOST_ELEMENTS = 1e15; /* of all: sizes of them in bytes do not overflow */

float tk_attention_scale(const struct tk_attention *attention)
{
    return attention->scale != 0 ? attention->scale : 1 / sqrtf((float)attention->d);
}

static enum tk_status check_extents(const struct tk_attention *a)
{
    const struct {
        const char *name;
        size_t value;
    } extents[] = {{"batch", a->batch}, {"heads", a->heads}, {"kv_heads", a->kv_heads}, {"sq", a->sq}, {"sk", a->sk}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i].value > MOST)
            return tk_error(TK_ERR_ARGUMENT, "attention: %s is %zu, at most %d are possible", extents[i].name,
                            extents[i].value, MOST);
    if (a->d != 64 && a->d != 128)
        return tk_error(TK_ERR_UNSUPPORTED, "attention: d is %zu; heads of 64 and 128 are served", a->d);
    if (a->heads == 0 ? a->kv_heads > 0 : a->kv_heads == 0 || a->heads % a->kv_heads)
        return tk_error(TK_ERR_ARGUMENT, "attention: heads is %zu, which is no multiple of kv_heads %zu", a->heads,
                        a->kv_heads);
    double elements = (double)a->batch * (double)a->heads * (double)(a->sq + a->sk) * (double)a->d;
    if (elements > MOST_ELEMENTS)
        return tk_error(TK_ERR_ARGUMENT, "attention: Q, K and V have %.3g elements, at most %.3g are possible",
                        elements, MOST_ELEMENTS);
    return TK_OK;
}

/* A tensor of a call: NULL only where it has no elements. */
struct tensor {
    const char *name;
    const void *data;
    size_t elements;
};

/* A tensor that is written: where it has elements, batches, rows and heads must not lie on each other. */
struct output {
    const char *name;
    size_t rows, heads;
    struct tk_attention_strides strides;
};

static enum tk_status check_outputs(const struct tk_attention *a, const struct output *outputs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct output *o = &outputs[i];
        const struct {
            const char *name;
            size_t extent, stride;
        } dimensions[] = {{"batch", a->batch, o->strides.batch},
                          {"row", o->rows, o->strides.row},
                          {"head", o->heads, o->strides.head}};
        for (size_t j = 0; j < sizeof dimensions / sizeof *dimensions; j++)
            if (o->rows > 0 && dimensions[j].extent > 1 && dimensions[j].stride < a->d)
                return tk_error(TK_ERR_ARGUMENT, "attention: %s's %s stride is %zu, less than d %zu", o->name,
                                dimensions[j].name, dimensions[j].stride, a->d);
    }
    return TK_OK;
}

static enum tk_status check_tensors(const struct tensor *tensors, size_t n, size_t alignment)
{
    for (size_t i = 0; i < n; i++) {
        if (!tensors[i].data && tensors[i].elements)
            return tk_error(TK_ERR_ARGUMENT, "attention: %s is NULL; it has %zu elements", tensors[i].name,
                            tensors[i].elements);
        if ((uintptr_t)tensors[i].data % alignment)
            return tk_error(TK_ERR_ARGUMENT, "attention: %s is not aligned to its elements of %zu bytes",
                            tensors[i].name, alignment);
    }
    return TK_OK;
}

enum tk_status tk_attention_check(const struct tk_attention *a)
{
    if (!a)
        return tk_error(TK_ERR_ARGUMENT, "attention: the description is NULL");
    if ((unsigned)a->datatype >= TK_DATATYPE_COUNT)
        return tk_error(TK_ERR_ARGUMENT, "attention: datatype is %d; valid: 0..%d", (int)a->datatype,
                        TK_DATATYPE_COUNT - 1);
    if (!(a->scale >= 0) || !isfinite(a->scale))
        return tk_error(TK_ERR_ARGUMENT, "attention: scale is %g; valid: 0 (1 / sqrt(d)) and finite numbers above",
                        a->scale);
    enum tk_status status = check_extents(a);
    if (status != TK_OK)
        return status;
    size_t rows = a->batch * a->heads * a->sq, keys = a->batch * a->kv_heads * a->sk;
    const struct tensor tensors[] = {
        {"q", a->q, rows * a->d}, {"k", a->k, keys * a->d}, {"v", a->v, keys * a->d}, {"o", a->o, rows * a->d}};
    const struct tensor lse = {"lse", a->lse, rows};
    status = check_tensors(tensors, sizeof tensors / sizeof *tensors, tk_datatype_size(a->datatype));
    if (status == TK_OK)
        status = check_tensors(&lse, 1, sizeof(float));
    const struct output output = {"o", a->sq, a->heads, a->o_strides};
    return status == TK_OK ? check_outputs(a, &output, 1) : status;
}

enum tk_status tk_attention_backward_check(const struct tk_attention_backward *b)
{
    enum tk_status status = tk_attention_check(b ? &b->forward : NULL);
    if (status != TK_OK)
        return status;
    const struct tk_attention *a = &b->forward;
    size_t rows = a->batch * a->heads * a->sq, keys = a->batch * a->kv_heads * a->sk;
    const struct tensor tensors[] = {{"d_o", b->d_o, rows * a->d},
                                     {"dq", b->dq, rows * a->d},
                                     {"dk", b->dk, keys * a->d},
                                     {"dv", b->dv, keys * a->d}};
    const struct output outputs[] = {{"dq", a->sq, a->heads, b->dq_strides},
                                     {"dk", a->sk, a->kv_heads, b->dk_strides},
                                     {"dv", a->sk, a->kv_heads, b->dv_strides}};
    status = check_tensors(tensors, sizeof tensors / sizeof *tensors, tk_datatype_size(a->datatype));
    return status == TK_OK ? check_outputs(a, outputs, sizeof outputs / sizeof *outputs) : status;
}

/* matmul_check.c - the arguments of a matmul, and the names that the benches print. */
#include "kernels/matmul_check.h"
#include "kernels/error.h"

static const char *const layout_names[TK_LAYOUT_COUNT] = {[TK_NN] = "NN", [TK_NT] = "NT", [TK_TN] = "TN"};

static const struct {
    const char *name;
    int has_z;
} epilogues[TK_EPILOGUE_COUNT] = {
    [TK_EPILOGUE_NONE] = {"none", 0},
    [TK_EPILOGUE_GELU] = {"gelu", 0},
    [TK_EPILOGUE_SILU_GATE] = {"silu_gate", 1},
    [TK_EPILOGUE_RESIDUAL] = {"residual", 1},
};

const char *tk_layout_name(enum tk_layout layout)
{
    return (unsigned)layout < TK_LAYOUT_COUNT ? layout_names[layout] : "?";
}

const char *tk_epilogue_name(enum tk_epilogue epilogue)
{
    return (unsigned)epilogue < TK_EPILOGUE_COUNT ? epilogues[epilogue].name : "?";
}

int tk_matmul_has_z(const struct tk_matmul *matmul)
{
    return epilogues[matmul->epilogue].has_z;
}

static enum tk_status check_kinds(const struct tk_matmul *matmul)
{
    if ((unsigned)matmul->layout >= TK_LAYOUT_COUNT)
        return tk_error(TK_ERR_ARGUMENT, "matmul: layout %d is none of TK_NN, TK_NT, TK_TN", (int)matmul->layout);
    if ((unsigned)matmul->epilogue >= TK_EPILOGUE_COUNT)
        return tk_error(TK_ERR_ARGUMENT, "matmul: epilogue %d is not in 0..%d", (int)matmul->epilogue,
                        TK_EPILOGUE_COUNT - 1);
    if ((unsigned)matmul->in >= TK_DATATYPE_COUNT)
        return tk_error(TK_ERR_ARGUMENT, "matmul: in %d is neither TK_F32 nor TK_BF16", (int)matmul->in);
    if ((unsigned)matmul->out >= TK_DATATYPE_COUNT)
        return tk_error(TK_ERR_ARGUMENT, "matmul: out %d is neither TK_F32 nor TK_BF16", (int)matmul->out);
    return TK_OK;
}

/* A matrix of rows x columns as stored. */
struct operand {
    const char *name;
    const void *base;
    size_t rows, columns, stride;
    enum tk_datatype datatype;
};

static enum tk_status check_operand(const struct operand *o)
{
    if (o->rows == 0 || o->columns == 0)
        return TK_OK;
    if (!o->base)
        return tk_error(TK_ERR_ARGUMENT, "matmul: %s is NULL, and has %zu x %zu elements", o->name, o->rows,
                        o->columns);
    if ((uintptr_t)o->base % tk_datatype_size(o->datatype) != 0)
        return tk_error(TK_ERR_ARGUMENT, "matmul: %s at %p is not aligned to its elements of %zu bytes", o->name,
                        o->base, tk_datatype_size(o->datatype));
    if (o->stride < o->columns)
        return tk_error(TK_ERR_ARGUMENT, "matmul: ld%s %zu is less than the %zu columns of a row", o->name, o->stride,
                        o->columns);
    if (o->stride > SIZE_MAX / 8 / o->rows)
        return tk_error(TK_ERR_ARGUMENT, "matmul: %s of %zu rows, %zu elements apart, is more than memory can be",
                        o->name, o->rows, o->stride);
    return TK_OK;
}

enum tk_status tk_matmul_check(const struct tk_matmul *matmul)
{
    if (!matmul)
        return tk_error(TK_ERR_ARGUMENT, "matmul: the description is NULL");
    enum tk_status status = check_kinds(matmul);
    if (status != TK_OK)
        return status;
    size_t m = matmul->m, n = matmul->n, k = matmul->k;
    const struct operand operands[] = {
        {"c", matmul->c, m, n, matmul->ldc, matmul->out},
        {"a", matmul->a, matmul->layout == TK_TN ? k : m, matmul->layout == TK_TN ? m : k, matmul->lda, matmul->in},
        {"b", matmul->b, matmul->layout == TK_NT ? n : k, matmul->layout == TK_NT ? k : n, matmul->ldb, matmul->in},
        {"z", matmul->z, tk_matmul_has_z(matmul) ? m : 0, n, matmul->ldz, matmul->in},
        {"bias", matmul->bias, matmul->bias ? 1 : 0, n, n, matmul->in},
    };
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        /* nothing of a and b is read where C is empty */
        if (m > 0 && n > 0 && (status = check_operand(&operands[i])) != TK_OK)
            return status;
    }
    return TK_OK;
}

/*
 * embedding_host.c - rows of a table by index on the host, its gradient, and the checks of arguments of both places.
 * Backward: a thread owns columns and walks all tokens in order, so that a row's sum has the order of tokens.
 */
#include "kernels/embedding.h"
#include "kernels/check.h"
#include "kernels/error.h"
#include "kernels/rows_host.h"

enum tk_status tk_embedding_forward_check(const struct tk_embedding_forward *embedding)
{
    enum tk_status status = tk_check_type("embedding_forward", "type", embedding->type);
    if (status == TK_OK)
        status =
            tk_check_rows("embedding_forward", embedding->tokens, embedding->width, embedding->width, embedding->type);
    if (status == TK_OK)
        status = tk_check_rows("embedding_forward (table)", embedding->vocabulary, embedding->width, embedding->width,
                               embedding->type);
    if (status != TK_OK)
        return status;
    size_t size = tk_datatype_size(embedding->type);
    bool empty = embedding->tokens == 0;
    const struct tk_operand operands[] = {
        {"ids", embedding->ids, sizeof(int32_t), empty},
        {"table", embedding->table, size, empty || embedding->vocabulary == 0},
        {"output", embedding->output, size, empty},
    };
    return tk_check_operands("embedding_forward", operands, sizeof operands / sizeof *operands);
}

enum tk_status tk_embedding_backward_check(const struct tk_embedding_backward *embedding)
{
    enum tk_status status = tk_check_type("embedding_backward", "type", embedding->type);
    if (status == TK_OK)
        status = tk_check_type("embedding_backward", "table_type", embedding->table_type);
    if (status == TK_OK)
        status =
            tk_check_rows("embedding_backward", embedding->tokens, embedding->width, embedding->width, embedding->type);
    if (status == TK_OK)
        status = tk_check_rows("embedding_backward (table)", embedding->vocabulary, embedding->width, embedding->width,
                               embedding->table_type);
    if (status == TK_OK && embedding->tokens > INT32_MAX)
        status = tk_error(TK_ERR_ARGUMENT, "embedding_backward: tokens %zu is more than 2^31 - 1", embedding->tokens);
    if (status == TK_OK && embedding->vocabulary > INT32_MAX)
        status = tk_error(TK_ERR_ARGUMENT, "embedding_backward: vocabulary %zu is more than 2^31 - 1",
                          embedding->vocabulary);
    if (status != TK_OK)
        return status;
    bool empty = embedding->tokens == 0;
    const struct tk_operand operands[] = {
        {"ids", embedding->ids, sizeof(int32_t), empty},
        {"output_gradient", embedding->output_gradient, tk_datatype_size(embedding->type), empty},
        {"table_gradient", embedding->table_gradient, tk_datatype_size(embedding->table_type),
         embedding->vocabulary == 0},
        {"workspace", embedding->workspace, 256, true},
    };
    return tk_check_operands("embedding_backward", operands, sizeof operands / sizeof *operands);
}

static void fill_nan(void *to, size_t at, size_t count, enum tk_datatype type)
{
    float value = NAN;
    for (size_t i = 0; i < count; i++)
        tk_narrow(to, at + i, &value, 1, type);
}

enum tk_status tk_embedding_forward_host(const struct tk_embedding_forward *embedding)
{
    enum tk_status status = tk_embedding_forward_check(embedding);
    if (status != TK_OK)
        return status;
    size_t bytes = embedding->width * tk_datatype_size(embedding->type);
#pragma omp parallel for schedule(static)
    for (size_t token = 0; token < embedding->tokens; token++) {
        size_t id = (size_t)embedding->ids[token];
        if (id < embedding->vocabulary)
            memcpy((char *)embedding->output + token * bytes, (const char *)embedding->table + id * bytes, bytes);
        else
            fill_nan(embedding->output, token * embedding->width, embedding->width, embedding->type);
    }
    return TK_OK;
}

/* table_gradient[id] += output_gradient[token], columns [at, at + n). */
TK_CLONES static void add_token(const struct tk_embedding_backward *embedding, size_t token, size_t id, size_t at,
                                size_t n)
{
    float sum[TK_BLOCK], g[TK_BLOCK];
    tk_widen(sum, embedding->table_gradient, id * embedding->width + at, n, embedding->table_type);
    tk_widen(g, embedding->output_gradient, token * embedding->width + at, n, embedding->type);
    for (size_t i = 0; i < n; i++)
        sum[i] += g[i];
    tk_narrow(embedding->table_gradient, id * embedding->width + at, sum, n, embedding->table_type);
}

enum tk_status tk_embedding_backward_host(const struct tk_embedding_backward *embedding)
{
    enum tk_status status = tk_embedding_backward_check(embedding);
    if (status != TK_OK)
        return status;
    size_t bytes = embedding->vocabulary * embedding->width * tk_datatype_size(embedding->table_type);
    if (!embedding->accumulate && bytes > 0)
        memset(embedding->table_gradient, 0, bytes);
    enum { COLUMNS = 64 };
    size_t blocks = (embedding->width + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(dynamic)
    for (size_t block = 0; block < blocks; block++) {
        size_t at = block * COLUMNS, n = embedding->width - at < COLUMNS ? embedding->width - at : COLUMNS;
        for (size_t token = 0; token < embedding->tokens; token++) {
            size_t id = (size_t)embedding->ids[token];
            if (id < embedding->vocabulary)
                add_token(embedding, token, id, at, n);
        }
    }
    return TK_OK;
}

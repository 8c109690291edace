/*
 * embedding.h - rows of a table by index, and the gradient of the table:
 *
 *     output[t] = table[ids[t]]
 *     table_gradient[v] = sum over t with ids[t] = v of output_gradient[t], in an order that is the same in every run
 *
 * An id outside 0..vocabulary-1 gives a row of NaN forward, and nothing backward.
 */
#ifndef KERNELS_EMBEDDING_H
#define KERNELS_EMBEDDING_H

#include "kernels/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tk_embedding_forward {
    enum tk_datatype type;
    size_t tokens, vocabulary, width; /* width > 0 */
    const int32_t *ids;               /* [tokens] */
    const void *table;                /* [vocabulary][width] */
    void *output;                     /* [tokens][width] */
};

enum tk_status tk_embedding_forward(const struct tk_embedding_forward *embedding, void *stream);
enum tk_status tk_embedding_forward_host(const struct tk_embedding_forward *embedding);

struct tk_embedding_backward {
    enum tk_datatype type;
    size_t tokens, vocabulary, width; /* tokens < 2^31 */
    const int32_t *ids;
    const void *output_gradient; /* [tokens][width] */
    enum tk_datatype table_type; /* of table_gradient */
    bool accumulate;             /* add to table_gradient; else overwrite it, with 0 where no token points */
    void *table_gradient;        /* [vocabulary][width] */
    void *workspace; /* tk_embedding_backward_workspace() bytes, at a multiple of 256; the host needs none */
    size_t workspace_bytes;
};

enum tk_status tk_embedding_backward_workspace(const struct tk_embedding_backward *embedding, size_t *bytes);
enum tk_status tk_embedding_backward(const struct tk_embedding_backward *embedding, void *stream);
enum tk_status tk_embedding_backward_host(const struct tk_embedding_backward *embedding);

#ifdef __cplusplus
}
#endif

#endif

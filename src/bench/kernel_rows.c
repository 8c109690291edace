/*
 * kernel_rows.c - kernel_bench's rows of memory-bound kernels, each beside a copy of as many bytes (half read, half written)
 * in the same rounds.
 *
 * An operation is a table of operands and a call. Its results are compared, every element, with the host reference's of the
 * same operands, computed once a point. What works in place (AdamW) starts from its first operands again for the check.
 */
#include "bench/bench_cuda.h"
#include "bench/kernel_bench.h"
#include "kernels/adamw.h"
#include "kernels/bf16.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/error.h"
#include "kernels/gradient_norm.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/softmax.h"
#include "kernels/swiglu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 8, VOCABULARY = 50257, HEAD = 128, POSITIONS = 4096 };

/* What stands in an operand: normal values, or what an earlier step would have left. */
enum content { NORMAL, RSTD, MEAN, TARGETS, IDS, TABLE, SQUARES, RESULT };

/* How many elements: of all rows, of one row, of one column, of the vocabulary's rows, of the rotary table, or two. */
enum extent { ALL, ROW, COLUMN, VOCABULARY_ROWS, ROTARY_TABLE, TWO };

struct operand {
    enum content content;
    enum extent extent;
    enum { DATA, F32, I32 } type; /* DATA: the variant's */
    bool in_out;                  /* read and overwritten */
    float floor;                  /* of the error allowed, absolute; times sqrt(rows) in sums over rows */
};

struct state;

struct operation {
    struct operand operands[OPERANDS];
    int count;
    enum tk_status (*call)(const struct state *state, void *const *at, bool host, void *stream);
    enum tk_status (*workspace)(const struct state *state, void *const *at, size_t *bytes); /* or NULL */
    double passes;      /* of the data over the bus: rows x width values each */
    double row_bytes;   /* besides, for each row */
    double value_bytes; /* besides, for each value, whatever the variant */
};

struct state {
    const struct bench_backend *backend;
    const struct operation *operation;
    enum tk_datatype type;
    size_t rows, width;
    unsigned seed;
    void *operands[OPERANDS], *expected[OPERANDS]; /* the backend's memory; the host's, results alone */
    void *workspace, *copy_from, *copy_to;
    size_t workspace_bytes, copy_bytes;
    int last; /* contender that ran */
};

static const char *const variants[] = {"bf16", "f32", NULL};
static const enum tk_datatype variant_types[] = {TK_BF16, TK_F32};

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static enum tk_status norm_forward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_norm_forward norm = {.type = s->type,
                                         .rows = s->rows,
                                         .width = s->width,
                                         .epsilon = 1e-5f,
                                         .input = at[0],
                                         .weight = at[1],
                                         .output = at[2],
                                         .rstd = at[3]};
    return host ? tk_norm_forward_host(&norm) : tk_norm_forward(&norm, stream);
}

static enum tk_status layernorm_forward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_norm_forward norm = {.type = s->type,
                                         .rows = s->rows,
                                         .width = s->width,
                                         .epsilon = 1e-5f,
                                         .centred = true,
                                         .input = at[0],
                                         .weight = at[1],
                                         .output = at[2],
                                         .rstd = at[3],
                                         .mean = at[4],
                                         .bias = at[5]};
    return host ? tk_norm_forward_host(&norm) : tk_norm_forward(&norm, stream);
}

static enum tk_status residual_forward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_norm_forward norm = {.type = s->type,
                                         .rows = s->rows,
                                         .width = s->width,
                                         .epsilon = 1e-5f,
                                         .input = at[0],
                                         .weight = at[1],
                                         .output = at[2],
                                         .rstd = at[3],
                                         .residual = at[4],
                                         .sum = at[5]};
    return host ? tk_norm_forward_host(&norm) : tk_norm_forward(&norm, stream);
}

static struct tk_norm_backward norm_arguments(const struct state *s, void *const *at)
{
    bool centred = s->operation->count > 6;
    return (struct tk_norm_backward){.type = s->type,
                                     .rows = s->rows,
                                     .width = s->width,
                                     .centred = centred,
                                     .input = at[0],
                                     .weight = at[1],
                                     .output_gradient = at[2],
                                     .rstd = at[3],
                                     .input_gradient = at[4],
                                     .weight_type = TK_F32,
                                     .weight_gradient = at[5],
                                     .mean = centred ? at[6] : NULL,
                                     .bias_gradient = centred ? at[7] : NULL,
                                     .workspace = s->workspace,
                                     .workspace_bytes = s->workspace_bytes};
}

static enum tk_status norm_backward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_norm_backward norm = norm_arguments(s, at);
    return host ? tk_norm_backward_host(&norm) : tk_norm_backward(&norm, stream);
}

static enum tk_status norm_workspace(const struct state *s, void *const *at, size_t *bytes)
{
    const struct tk_norm_backward norm = norm_arguments(s, at);
    return tk_norm_backward_workspace(&norm, bytes);
}

static enum tk_status softmax_forward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_softmax_forward softmax = {
        .type = s->type, .rows = s->rows, .width = s->width, .input = at[0], .output = at[1]};
    return host ? tk_softmax_forward_host(&softmax) : tk_softmax_forward(&softmax, stream);
}

static enum tk_status softmax_backward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_softmax_backward softmax = {.type = s->type,
                                                .rows = s->rows,
                                                .width = s->width,
                                                .output = at[0],
                                                .output_gradient = at[1],
                                                .input_gradient = at[2]};
    return host ? tk_softmax_backward_host(&softmax) : tk_softmax_backward(&softmax, stream);
}

static enum tk_status cross_entropy(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_cross_entropy entropy = {.type = s->type,
                                             .rows = s->rows,
                                             .width = s->width,
                                             .stride = s->width,
                                             .logits = at[0],
                                             .targets = at[1],
                                             .ignore = -100,
                                             .loss = at[2],
                                             .gradient = at[3],
                                             .scale = 1};
    return host ? tk_cross_entropy_host(&entropy) : tk_cross_entropy(&entropy, stream);
}

static enum tk_status swiglu_forward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_swiglu_forward swiglu = {.type = s->type,
                                             .rows = s->rows,
                                             .width = s->width,
                                             .input_stride = s->width,
                                             .output_stride = s->width,
                                             .gate = at[0],
                                             .up = at[1],
                                             .output = at[2]};
    return host ? tk_swiglu_forward_host(&swiglu) : tk_swiglu_forward(&swiglu, stream);
}

static enum tk_status swiglu_backward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_swiglu_backward swiglu = {.type = s->type,
                                              .rows = s->rows,
                                              .width = s->width,
                                              .input_stride = s->width,
                                              .output_stride = s->width,
                                              .gate = at[0],
                                              .up = at[1],
                                              .output_gradient = at[2],
                                              .gate_gradient = at[3],
                                              .up_gradient = at[4]};
    return host ? tk_swiglu_backward_host(&swiglu) : tk_swiglu_backward(&swiglu, stream);
}

/* Heads of HEAD values; what a row has besides is left alone. */
static enum tk_status rotary(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_rotary rotary = {.type = s->type,
                                     .tokens = s->rows,
                                     .heads = s->width / HEAD,
                                     .width = HEAD,
                                     .input_stride = s->width,
                                     .output_stride = s->width,
                                     .input = at[0],
                                     .output = at[1],
                                     .sequence = POSITIONS,
                                     .table = at[2],
                                     .table_positions = POSITIONS};
    if (s->width % HEAD != 0)
        return tk_error(TK_ERR_UNSUPPORTED, "rotary: the row's width %zu is no multiple of %d", s->width, HEAD);
    return host ? tk_rotary_forward_host(&rotary) : tk_rotary_forward(&rotary, stream);
}

static enum tk_status embedding_forward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_embedding_forward embedding = {.type = s->type,
                                                   .tokens = s->rows,
                                                   .vocabulary = VOCABULARY,
                                                   .width = s->width,
                                                   .ids = at[0],
                                                   .table = at[1],
                                                   .output = at[2]};
    return host ? tk_embedding_forward_host(&embedding) : tk_embedding_forward(&embedding, stream);
}

static struct tk_embedding_backward embedding_arguments(const struct state *s, void *const *at)
{
    return (struct tk_embedding_backward){.type = s->type,
                                          .tokens = s->rows,
                                          .vocabulary = VOCABULARY,
                                          .width = s->width,
                                          .ids = at[0],
                                          .output_gradient = at[1],
                                          .table_type = TK_F32,
                                          .table_gradient = at[2],
                                          .workspace = s->workspace,
                                          .workspace_bytes = s->workspace_bytes};
}

static enum tk_status embedding_backward(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_embedding_backward embedding = embedding_arguments(s, at);
    return host ? tk_embedding_backward_host(&embedding) : tk_embedding_backward(&embedding, stream);
}

static enum tk_status embedding_workspace(const struct state *s, void *const *at, size_t *bytes)
{
    const struct tk_embedding_backward embedding = embedding_arguments(s, at);
    return tk_embedding_backward_workspace(&embedding, bytes);
}

static enum tk_status adamw(const struct state *s, void *const *at, bool host, void *stream)
{
    const struct tk_adamw_tensor tensor = {.count = s->rows * s->width,
                                           .gradient = at[0],
                                           .master = at[1],
                                           .m = at[2],
                                           .v = at[3],
                                           .parameter = at[4],
                                           .decay = 0.1f};
    const struct tk_adamw adamw = {.parameter_type = s->type,
                                   .gradient_type = s->type,
                                   .tensors = &tensor,
                                   .count = 1,
                                   .rate = 1e-3f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.95f,
                                   .epsilon = 1e-8f,
                                   .step = 10,
                                   .scale = 1};
    return host ? tk_adamw_host(&adamw) : tk_adamw(&adamw, stream);
}

/* A tensor a row. */
static enum tk_status with_gradients(const struct state *s, void *const *at, bool host, void *stream, size_t *bytes)
{
    struct tk_gradient *tensors = malloc(s->rows * sizeof *tensors + 1);
    if (!tensors)
        return tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory", s->rows * sizeof *tensors);
    for (size_t row = 0; row < s->rows; row++)
        tensors[row] = (struct tk_gradient){(char *)at[0] + row * s->width * tk_datatype_size(s->type), s->width};
    const struct tk_gradient_norm norm = {.type = s->type,
                                          .tensors = tensors,
                                          .count = s->rows,
                                          .scale = 1,
                                          .max_norm = 1,
                                          .result = at[1],
                                          .workspace = s->workspace,
                                          .workspace_bytes = s->workspace_bytes};
    enum tk_status status = bytes  ? tk_gradient_norm_workspace(&norm, bytes)
                            : host ? tk_gradient_norm_host(&norm)
                                   : tk_gradient_norm(&norm, stream);
    free(tensors);
    return status;
}

static enum tk_status gradient_norm(const struct state *s, void *const *at, bool host, void *stream)
{
    return with_gradients(s, at, host, stream, NULL);
}

static enum tk_status gradient_workspace(const struct state *s, void *const *at, size_t *bytes)
{
    return with_gradients(s, at, false, NULL, bytes);
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

#define INPUT                       \
    {                               \
        NORMAL, ALL, DATA, false, 0 \
    }
#define WEIGHT                      \
    {                               \
        NORMAL, ROW, DATA, false, 0 \
    }
#define OUTPUT(FLOOR)                   \
    {                                   \
        RESULT, ALL, DATA, false, FLOOR \
    }
#define OUTPUT_COLUMN                     \
    {                                     \
        RESULT, COLUMN, F32, false, 1e-5f \
    }
#define WEIGHT_GRADIENT                \
    {                                  \
        RESULT, ROW, F32, false, 1e-4f \
    }

static const struct operation
    rmsnorm_operation = {.operands = {INPUT, WEIGHT, OUTPUT(1e-5f), OUTPUT_COLUMN},
                         .count = 4,
                         .call = norm_forward,
                         .passes = 2,
                         .row_bytes = 4},
    layernorm_operation = {.operands = {INPUT, WEIGHT, OUTPUT(1e-5f), OUTPUT_COLUMN, OUTPUT_COLUMN, WEIGHT},
                           .count = 6,
                           .call = layernorm_forward,
                           .passes = 2,
                           .row_bytes = 8},
    residual_operation = {.operands = {INPUT, WEIGHT, OUTPUT(1e-5f), OUTPUT_COLUMN, INPUT, OUTPUT(0)},
                          .count = 6,
                          .call = residual_forward,
                          .passes = 4,
                          .row_bytes = 4},
    rmsnorm_backward_operation =
        {.operands = {INPUT, WEIGHT, INPUT, {RSTD, COLUMN, F32, false, 0}, OUTPUT(1e-4f), WEIGHT_GRADIENT},
         .count = 6,
         .call = norm_backward,
         .workspace = norm_workspace,
         .passes = 3,
         .row_bytes = 4},
    layernorm_backward_operation = {.operands = {INPUT,
                                                 WEIGHT,
                                                 INPUT,
                                                 {RSTD, COLUMN, F32, false, 0},
                                                 OUTPUT(1e-4f),
                                                 WEIGHT_GRADIENT,
                                                 {MEAN, COLUMN, F32, false, 0},
                                                 WEIGHT_GRADIENT},
                                    .count = 8,
                                    .call = norm_backward,
                                    .workspace = norm_workspace,
                                    .passes = 3,
                                    .row_bytes = 8},
    softmax_operation = {.operands = {INPUT, OUTPUT(1e-9f)}, .count = 2, .call = softmax_forward, .passes = 2},
    softmax_backward_operation = {.operands = {INPUT, INPUT, OUTPUT(1e-2f)},
                                  .count = 3,
                                  .call = softmax_backward,
                                  .passes = 3},
    cross_entropy_operation = {.operands = {INPUT, {TARGETS, COLUMN, I32, false, 0}, OUTPUT_COLUMN, OUTPUT(1e-9f)},
                               .count = 4,
                               .call = cross_entropy,
                               .passes = 2,
                               .row_bytes = 8},
    swiglu_operation = {.operands = {INPUT, INPUT, OUTPUT(1e-6f)}, .count = 3, .call = swiglu_forward, .passes = 3},
    swiglu_backward_operation = {.operands = {INPUT, INPUT, INPUT, OUTPUT(1e-5f), OUTPUT(1e-6f)},
                                 .count = 5,
                                 .call = swiglu_backward,
                                 .passes = 5},
    rotary_operation = {.operands = {INPUT, OUTPUT(1e-5f), {TABLE, ROTARY_TABLE, F32, false, 0}},
                        .count = 3,
                        .call = rotary,
                        .passes = 2},
    embedding_operation = {.operands = {{IDS, COLUMN, I32, false, 0},
                                        {NORMAL, VOCABULARY_ROWS, DATA, false, 0},
                                        OUTPUT(0)},
                           .count = 3,
                           .call = embedding_forward,
                           .passes = 2,
                           .row_bytes = 4},
    embedding_backward_operation = {.operands = {{IDS, COLUMN, I32, false, 0},
                                                 INPUT,
                                                 {RESULT, VOCABULARY_ROWS, F32, false, 1e-4f}},
                                    .count = 3,
                                    .call = embedding_backward,
                                    .workspace = embedding_workspace,
                                    .passes = 1,
                                    .row_bytes = 4},
    adamw_operation = {.operands = {INPUT,
                                    {NORMAL, ALL, F32, true, 1e-5f},
                                    {NORMAL, ALL, F32, true, 1e-5f},
                                    {SQUARES, ALL, F32, true, 1e-5f},
                                    OUTPUT(1e-5f)},
                       .count = 5,
                       .call = adamw,
                       .passes = 2,
                       .value_bytes = 24},
    gradient_norm_operation = {.operands = {INPUT, {RESULT, TWO, F32, false, 0}},
                               .count = 2,
                               .call = gradient_norm,
                               .workspace = gradient_workspace,
                               .passes = 1};

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static size_t count_of(const struct state *s, const struct operand *operand)
{
    const size_t counts[] = {[ALL] = s->rows * s->width,
                             [ROW] = s->width,
                             [COLUMN] = s->rows,
                             [VOCABULARY_ROWS] = VOCABULARY * s->width,
                             [ROTARY_TABLE] = POSITIONS * HEAD,
                             [TWO] = 2};
    return counts[operand->extent];
}

static enum tk_datatype type_of(const struct state *s, const struct operand *operand)
{
    return operand->type == DATA ? s->type : TK_F32; /* an I32 has 4 bytes too */
}

static size_t bytes_of(const struct state *s, const struct operand *operand)
{
    return count_of(s, operand) * tk_datatype_size(type_of(s, operand));
}

static unsigned seed_of(const struct state *s, int operand)
{
    return s->seed * OPERANDS + (unsigned)operand;
}

/* Contents that are no plain normal values. */
static void make_content(const struct state *s, int which, void *data)
{
    const struct operand *operand = &s->operation->operands[which];
    size_t count = count_of(s, operand);
    float *f32 = data;
    int32_t *i32 = data;
    for (size_t i = 0; i < count && operand->content != TABLE; i++) {
        float draw = fabsf(kernel_value(TK_F32, i, seed_of(s, which)));
        if (operand->content == RSTD || operand->content == SQUARES)
            f32[i] = 0.5f + draw;
        else if (operand->content == MEAN)
            f32[i] = draw - 0.5f;
        else /* few ids are frequent, many rare */
            i32[i] = (int32_t)((size_t)(draw * draw * draw * 2000) %
                               (operand->content == TARGETS ? s->width : (size_t)VOCABULARY));
    }
    if (operand->content == TABLE)
        tk_rotary_table_host(f32, POSITIONS, HEAD, 10000);
}

/* Fill operand `which` at `to`, in the backend's memory or the host's. */
static enum tk_status fill(const struct state *s, const struct bench_backend *backend, int which, void *to)
{
    const struct operand *operand = &s->operation->operands[which];
    size_t count = count_of(s, operand), bytes = bytes_of(s, operand);
    if (operand->content == RESULT)
        return TK_OK;
    if (operand->content == NORMAL)
        return kernel_fill(backend, to, type_of(s, operand), count, seed_of(s, which));
    void *data = malloc(bytes + 1);
    if (!data)
        return tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory", bytes);
    float first;
    enum tk_status status = kernel_fill(&backend_host, &first, TK_F32, 1, 0); /* kernel_value() needs it */
    if (status == TK_OK) {
        make_content(s, which, data);
        status = kernel_move(backend, to, data, bytes);
    }
    free(data);
    return status;
}

static void release(void *opaque)
{
    struct state *s = opaque;
    void *const owned[] = {s->workspace, s->copy_from, s->copy_to};
    for (int i = 0; i < OPERANDS; i++) {
        if (s->operands[i])
            s->backend->release(s->operands[i]);
        free(s->expected[i]);
    }
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        if (owned[i])
            s->backend->release(owned[i]);
    free(s);
}

static struct kernel_cost cost_of(const struct operation *operation, const struct kernel_shape *shape, int variant)
{
    double rows = (double)shape->size[0], width = (double)shape->size[1];
    double size = (double)tk_datatype_size(variant_types[variant]);
    double bytes = rows * width * (operation->passes * size + operation->value_bytes) + rows * operation->row_bytes;
    return (struct kernel_cost){.bytes = bytes};
}

static enum tk_status make_operands(struct state *s)
{
    const struct operation *operation = s->operation;
    enum tk_status status = TK_OK;
    for (int i = 0; i < operation->count && status == TK_OK; i++) {
        status = kernel_alloc(s->backend, "an operand", bytes_of(s, &operation->operands[i]), &s->operands[i]);
        if (status == TK_OK)
            status = fill(s, s->backend, i, s->operands[i]);
    }
    if (status == TK_OK && operation->workspace && s->backend->memory == TR_MEMORY_CUDA)
        status = operation->workspace(s, s->operands, &s->workspace_bytes);
    if (status == TK_OK && s->workspace_bytes > 0)
        status = kernel_alloc(s->backend, "the workspace", s->workspace_bytes, &s->workspace);
    if (status == TK_OK)
        status = kernel_alloc(s->backend, "the copy's source", s->copy_bytes, &s->copy_from);
    return status == TK_OK ? kernel_alloc(s->backend, "the copy's target", s->copy_bytes, &s->copy_to) : status;
}

static enum tk_status prepare(const struct operation *operation, const struct bench_backend *backend,
                              const struct kernel_shape *shape, int variant, unsigned seed, void **opaque)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory", sizeof *s);
    *s = (struct state){.backend = backend,
                        .operation = operation,
                        .type = variant_types[variant],
                        .rows = shape->size[0],
                        .width = shape->size[1],
                        .seed = seed,
                        .copy_bytes = (size_t)(cost_of(operation, shape, variant).bytes / 2)};
    enum tk_status status = make_operands(s);
    if (status == TK_OK)
        *opaque = s;
    else
        release(s);
    return status;
}

static enum tk_status poison(void *opaque)
{
    struct state *s = opaque;
    enum tk_status status = TK_OK;
    for (int i = 0; i < s->operation->count && status == TK_OK; i++)
        if (s->operation->operands[i].content == RESULT)
            status = kernel_poison(s->backend, s->operands[i], bytes_of(s, &s->operation->operands[i]));
    return status;
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

enum { OURS, COPY };

static enum tk_status copy(const struct state *s)
{
    if (s->backend->memory == TR_MEMORY_CUDA)
        return bench_cuda_copy(s->copy_to, s->copy_from, s->copy_bytes)
                   ? TK_OK
                   : tk_error(TK_ERR_CUDA, "copying: %s", s->backend->error());
    const size_t part = (size_t)1 << 20;
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < s->copy_bytes; at += part)
        memcpy((char *)s->copy_to + at, (const char *)s->copy_from + at,
               s->copy_bytes - at < part ? s->copy_bytes - at : part);
    return TK_OK;
}

static enum tk_status run(void *opaque, int which, void *stream)
{
    struct state *s = opaque;
    s->last = which;
    if (which == COPY)
        return copy(s);
    return s->operation->call(s, s->operands, s->backend->memory == TR_MEMORY_HOST, stream);
}

/* ---- Check ------------------------------------------------------------------------------------------------------- */

static bool is_result(const struct operand *operand)
{
    return operand->content == RESULT || operand->in_out;
}

/* The reference's results, from operands in host memory. */
static enum tk_status make_expected(struct state *s)
{
    const struct operation *operation = s->operation;
    enum tk_status status = TK_OK;
    for (int i = 0; i < operation->count && status == TK_OK; i++) {
        s->expected[i] = malloc(bytes_of(s, &operation->operands[i]) + 1);
        status = s->expected[i] ? fill(s, &backend_host, i, s->expected[i])
                                : tk_error(TK_ERR_MEMORY, "no host memory to check in");
    }
    return status == TK_OK ? operation->call(s, s->expected, true, NULL) : status;
}

static double value_at(const void *data, enum tk_datatype type, size_t at)
{
    return type == TK_F32 ? ((const float *)data)[at] : tk_bf16_to_f32(((const uint16_t *)data)[at]);
}

/* The largest error over what is allowed: two roundings of the datatype, of the value, and the floor. */
static double compare(const struct state *s, const struct operand *operand, const void *got, const void *want)
{
    enum tk_datatype type = type_of(s, operand);
    bool sum = operand->extent == ROW || operand->extent == VOCABULARY_ROWS;
    double floor = (double)operand->floor * (sum ? sqrt((double)s->rows) : 1);
    double unit = type == TK_F32 ? 1e-5 : 1.0 / 128, worst = 0;
#pragma omp parallel for reduction(max : worst)
    for (size_t i = 0; i < count_of(s, operand); i++) {
        double wanted = value_at(want, type, i), difference = fabs(value_at(got, type, i) - wanted);
        double allowed = unit * fabs(wanted) + floor + 1e-30;
        double error = difference <= allowed ? difference / allowed
                       : isnan(difference)   ? INFINITY
                                             : difference / allowed;
        worst = error > worst ? error : worst;
    }
    return worst;
}

static enum tk_status check_operand(struct state *s, int which, double *worst)
{
    const struct operand *operand = &s->operation->operands[which];
    size_t bytes = bytes_of(s, operand);
    void *got = malloc(bytes + 1);
    if (!got)
        return tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory to check in", bytes);
    enum tk_status status = kernel_move(s->backend, got, s->operands[which], bytes);
    if (status == TK_OK) {
        double error = compare(s, operand, got, s->expected[which]);
        *worst = error > *worst ? error : *worst;
    }
    free(got);
    return status;
}

/* What is updated in place: one call from the first operands on. */
static enum tk_status run_again(struct state *s)
{
    bool updates = false;
    enum tk_status status = TK_OK;
    for (int i = 0; i < s->operation->count && status == TK_OK; i++)
        if (s->operation->operands[i].in_out) {
            updates = true;
            status = fill(s, s->backend, i, s->operands[i]);
        }
    if (status == TK_OK && updates)
        status = run(s, OURS, NULL);
    return status == TK_OK && !s->backend->wait() ? tk_error(TK_ERR_CUDA, "waiting: %s", s->backend->error()) : status;
}

static enum tk_status check(void *opaque, double *error)
{
    struct state *s = opaque;
    double worst = 0;
    enum tk_status status = TK_OK;
    if (s->last != COPY) {
        if (!s->expected[0])
            status = make_expected(s);
        if (status == TK_OK)
            status = run_again(s);
        for (int i = 0; i < s->operation->count && status == TK_OK; i++)
            if (is_result(&s->operation->operands[i]))
                status = check_operand(s, i, &worst);
    }
    if (status == TK_OK)
        *error = worst;
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static const struct kernel_contender contenders[] = {
    {.name = "treering", .which = OURS, .run = run}, {.name = "copy", .peer = true, .which = COPY, .run = run}, {0}};

#define ROW_OF(NAME, TEXT, SHAPES)                                                                               \
    static struct kernel_cost NAME##_cost(const struct bench_backend *backend, const struct kernel_shape *shape, \
                                          int variant)                                                           \
    {                                                                                                            \
        (void)backend;                                                                                           \
        return cost_of(&NAME##_operation, shape, variant);                                                       \
    }                                                                                                            \
    static enum tk_status NAME##_open(const struct bench_backend *backend, const struct kernel_shape *shape,     \
                                      int variant, unsigned seed, void **state)                                  \
    {                                                                                                            \
        return prepare(&NAME##_operation, backend, shape, variant, seed, state);                                 \
    }                                                                                                            \
    const struct kernel_row kernel_##NAME = {.name = #NAME,                                                      \
                                             .text = TEXT,                                                       \
                                             .dimensions = "rows x width",                                       \
                                             .shapes = SHAPES,                                                   \
                                             .variants = variants,                                               \
                                             .memory_bound = true,                                               \
                                             .cuda = true,                                                       \
                                             .host = true,                                                       \
                                             .cost = NAME##_cost,                                                \
                                             .open = NAME##_open,                                                \
                                             .close = release,                                                   \
                                             .poison = poison,                                                   \
                                             .check = check,                                                     \
                                             .contenders = contenders}

ROW_OF(rmsnorm, "RMSNorm forward", "16384x4096,32768x768,16384x1024,4096x16384,4096x32768,1024x65536,8192x4095");
ROW_OF(layernorm, "LayerNorm forward", "16384x4096,32768x768,4096x16384,8192x4095");
ROW_OF(residual, "RMSNorm forward of the sum with a residual", "16384x4096,32768x768");
ROW_OF(rmsnorm_backward, "RMSNorm backward", "16384x4096,32768x768,4096x16384,8192x4095");
ROW_OF(layernorm_backward, "LayerNorm backward", "16384x4096,32768x768,4096x16384,8192x4095");
ROW_OF(softmax, "row softmax forward", "16384x4096,65536x1024,4096x16384,1024x65536,8192x4095");
ROW_OF(softmax_backward, "row softmax backward", "16384x4096,65536x1024,4096x16384,8192x4095");
ROW_OF(cross_entropy, "softmax cross-entropy with its gradient", "4096x32000,4096x50304,2048x128256,2048x50257");
ROW_OF(swiglu, "SwiGLU forward", "16384x4096,8192x11008,8192x4095");
ROW_OF(swiglu_backward, "SwiGLU backward", "16384x4096,8192x11008");
ROW_OF(rotary, "rotary positions, heads of 128", "16384x4096,32768x1024");
ROW_OF(embedding, "rows of a table of 50257 by index", "32768x1024,16384x4096");
ROW_OF(embedding_backward, "the gradient of a table of 50257 rows", "32768x1024,16384x4096");
ROW_OF(adamw, "AdamW with f32 master weights", "4096x16384");
ROW_OF(gradient_norm, "L2 norm over a tensor for each row", "64x1048576,1000x65537");

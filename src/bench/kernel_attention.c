/*
 * kernel_attention.c - kernel_bench's rows of attention, forward and backward. Their peer, cuDNN, is timed beside them
 * by tests/gpu/kernels_attention.py, through PyTorch.
 *
 * Checked at rows and keys drawn at random, each computed in double from the operands: a row's output and LSE from all
 * of its keys; gradients from the O and the LSE that the backward pass was given. A product's terms are rounded to bf16
 * one by one: the bound on a sum is several deviations of a sum of such errors, and one rounding of the result.
 */
#include "bench/kernel_bench.h"
#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/error.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 24, MOST_D = 128 };

enum buffer { Q, K, V, D_O, INPUTS, O = INPUTS, LSE, DQ, DK, DV, WORKSPACE, BUFFERS };

static const char *const buffer_names[BUFFERS] = {
    [Q] = "Q",     [K] = "K",   [V] = "V",   [D_O] = "dO", [O] = "O",
    [LSE] = "LSE", [DQ] = "dQ", [DK] = "dK", [DV] = "dV",  [WORKSPACE] = "the workspace"};

/* All tensors are [batch][row][head][d]; sq = sk. */
struct state {
    const struct bench_backend *backend;
    struct tk_attention_backward call;
    unsigned seed;
    bool backward;
    void *memory[BUFFERS];
    size_t bytes[BUFFERS];
};

static const char *const variants[] = {"full", "causal", NULL};

/* ---- Cost -------------------------------------------------------------------------------------------------------- */

static double pairs_of(const struct kernel_shape *shape, int causal)
{
    double length = (double)shape->size[3], pairs = causal ? length * (length + 1) / 2 : length * length;
    return (double)shape->size[0] * (double)shape->size[1] * pairs;
}

static enum tk_datatype datatype_of(const struct bench_backend *backend)
{
    return backend->memory == TR_MEMORY_HOST ? TK_F32 : TK_BF16;
}

/* of_q, of_k: tensors shaped like Q and like K; LSE besides. */
static struct kernel_cost cost_of(const struct bench_backend *backend, const struct kernel_shape *shape, int causal,
                                  int products, int of_q, int of_k)
{
    const size_t *s = shape->size;
    double rows = (double)(s[0] * s[1] * s[3]), keys = (double)(s[0] * s[2] * s[3]), d = (double)s[4];
    double size = (double)tk_datatype_size(datatype_of(backend));
    return (struct kernel_cost){2 * products * pairs_of(shape, causal) * d,
                                size * d * (of_q * rows + of_k * keys) + (double)sizeof(float) * rows};
}

static struct kernel_cost forward_cost(const struct bench_backend *backend, const struct kernel_shape *shape,
                                       int variant)
{
    return cost_of(backend, shape, variant, 2, 2, 2); /* Q K^T, P V; Q, O; K, V */
}

static struct kernel_cost backward_cost(const struct bench_backend *backend, const struct kernel_shape *shape,
                                        int variant)
{
    return cost_of(backend, shape, variant, 5, 4,
                   4); /* Q K^T, dO V^T, and one a gradient; Q, O, dO, dQ; K, V, dK, dV */
}

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static void release(void *opaque)
{
    struct state *state = opaque;
    for (int i = 0; i < BUFFERS; i++)
        if (state->memory[i])
            state->backend->release(state->memory[i]);
    free(state);
}

static void describe(struct state *state, const struct kernel_shape *shape, bool causal)
{
    const size_t *s = shape->size, d = s[4];
    struct tk_attention_strides of_q = {s[3] * s[1] * d, s[1] * d, d}, of_k = {s[3] * s[2] * d, s[2] * d, d};
    enum tk_datatype datatype = datatype_of(state->backend);
    size_t rows = s[0] * s[1] * s[3], keys = s[0] * s[2] * s[3], size = tk_datatype_size(datatype);
    for (int i = Q; i <= DV; i++)
        state->bytes[i] = (i == K || i == V || i == DK || i == DV ? keys : rows) * d * size;
    state->bytes[LSE] = rows * sizeof(float);
    state->call.forward = (struct tk_attention){.batch = s[0],
                                                .heads = s[1],
                                                .kv_heads = s[2],
                                                .sq = s[3],
                                                .sk = s[3],
                                                .d = d,
                                                .causal = causal,
                                                .datatype = datatype,
                                                .q_strides = of_q,
                                                .k_strides = of_k,
                                                .v_strides = of_k,
                                                .o_strides = of_q};
    state->call.d_o_strides = state->call.dq_strides = of_q;
    state->call.dk_strides = state->call.dv_strides = of_k;
}

static void point_at_memory(struct state *state)
{
    struct tk_attention_backward *b = &state->call;
    void *const *memory = state->memory;
    b->forward.q = memory[Q], b->forward.k = memory[K], b->forward.v = memory[V];
    b->forward.o = memory[O], b->forward.lse = memory[LSE];
    b->d_o = memory[D_O], b->dq = memory[DQ], b->dk = memory[DK], b->dv = memory[DV];
}

static unsigned seed_of(const struct state *state, enum buffer buffer)
{
    return INPUTS * state->seed + buffer;
}

static enum tk_status run_forward(void *opaque, int which, void *stream)
{
    const struct state *state = opaque;
    (void)which;
    return state->backend->memory == TR_MEMORY_HOST ? tk_attention_forward_host(&state->call.forward)
                                                    : tk_attention_forward(&state->call.forward, stream);
}

static enum tk_status fill(struct state *state)
{
    enum tk_status status = TK_OK;
    for (int i = 0; i < (state->backward ? WORKSPACE : LSE + 1) && status == TK_OK; i++)
        if (state->backward || i != D_O)
            status = kernel_alloc(state->backend, buffer_names[i], state->bytes[i], &state->memory[i]);
    for (int i = 0; i < INPUTS && status == TK_OK; i++)
        if (state->memory[i])
            status = kernel_fill(state->backend, state->memory[i], state->call.forward.datatype,
                                 state->bytes[i] / tk_datatype_size(state->call.forward.datatype),
                                 seed_of(state, (enum buffer)i));
    point_at_memory(state);
    return status;
}

/* What backward needs besides: its workspace (the larger one, not deterministic), and a forward pass. */
static enum tk_status fill_backward(struct state *state)
{
    struct tk_attention_backward *b = &state->call;
    enum tk_status status = TK_OK;
    if (state->backend->memory == TR_MEMORY_CUDA)
        status = tk_attention_backward_workspace(b, &b->workspace_bytes);
    if (status == TK_OK)
        status = kernel_alloc(state->backend, buffer_names[WORKSPACE], b->workspace_bytes, &state->memory[WORKSPACE]);
    b->workspace = state->memory[WORKSPACE];
    return status == TK_OK ? run_forward(state, 0, state->backend->stream()) : status;
}

static enum tk_status open_either(const struct bench_backend *backend, const struct kernel_shape *shape, int variant,
                                  unsigned seed, bool backward, void **opaque)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory", sizeof *state);
    *state = (struct state){.backend = backend, .seed = seed, .backward = backward};
    describe(state, shape, variant);
    enum tk_status status = fill(state);
    if (status == TK_OK && backward)
        status = fill_backward(state);
    if (status == TK_OK)
        *opaque = state;
    else
        release(state);
    return status;
}

static enum tk_status open_forward(const struct bench_backend *backend, const struct kernel_shape *shape, int variant,
                                   unsigned seed, void **opaque)
{
    return open_either(backend, shape, variant, seed, false, opaque);
}

static enum tk_status open_backward(const struct bench_backend *backend, const struct kernel_shape *shape, int variant,
                                    unsigned seed, void **opaque)
{
    return open_either(backend, shape, variant, seed, true, opaque);
}

static enum tk_status poison(void *opaque)
{
    const struct state *state = opaque;
    enum tk_status status = TK_OK;
    for (int i = state->backward ? DQ : O; i <= (state->backward ? DV : LSE) && status == TK_OK; i++)
        status = kernel_poison(state->backend, state->memory[i], state->bytes[i]);
    return status;
}

/* ---- Check ------------------------------------------------------------------------------------------------------- */

/* Results on the host. */
struct results {
    const struct state *state;
    void *of[BUFFERS];
};

static void discard(struct results *results)
{
    for (int i = 0; i < BUFFERS; i++)
        free(results->of[i]);
}

static enum tk_status fetch(const struct state *state, struct results *results)
{
    enum tk_status status = TK_OK;
    *results = (struct results){.state = state};
    for (int i = O; i <= (state->backward ? DV : LSE) && status == TK_OK; i++) {
        results->of[i] = malloc(state->bytes[i] + 1);
        status = results->of[i] ? kernel_move(state->backend, results->of[i], state->memory[i], state->bytes[i])
                                : tk_error(TK_ERR_MEMORY, "no %zu bytes of host memory to check %s in", state->bytes[i],
                                           buffer_names[i]);
    }
    return status;
}

/* A row, or a key, of a head. */
struct place {
    size_t batch, row, head;
};

/* Of Q or K and what is shaped like it. */
static size_t element(const struct state *state, enum buffer buffer, struct place at)
{
    const struct tk_attention *a = &state->call.forward;
    bool keys = buffer == K || buffer == V || buffer == DK || buffer == DV;
    return ((at.batch * a->sq + at.row) * (keys ? a->kv_heads : a->heads) + at.head) * a->d;
}

static void get(const struct results *results, enum buffer buffer, struct place at, double *out)
{
    const struct tk_attention *a = &results->state->call.forward;
    size_t from = element(results->state, buffer, at);
    for (size_t c = 0; c < a->d; c++)
        if (buffer < INPUTS)
            out[c] = kernel_value(a->datatype, from + c, seed_of(results->state, buffer));
        else if (a->datatype == TK_F32)
            out[c] = ((const float *)results->of[buffer])[from + c];
        else
            out[c] = tk_bf16_to_f32(((const uint16_t *)results->of[buffer])[from + c]);
}

static double lse_at(const struct results *results, struct place at)
{
    const struct tk_attention *a = &results->state->call.forward;
    return ((const float *)results->of[LSE])[(at.batch * a->heads + at.head) * a->sq + at.row];
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* A sum of terms of which each is rounded. */
struct sum {
    double value[MOST_D], squares[MOST_D];
};

static void add_scaled(struct sum *sum, double factor, const double *x, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        sum->value[c] += factor * x[c];
        sum->squares[c] += factor * x[c] * factor * x[c];
    }
}

/* A NaN becomes infinity. */
static double worse(double a, double b)
{
    return a >= b ? a : isnan(b) ? INFINITY : b;
}

/* bf16: 5 / 512 of the root is 8 deviations; f32: sums of up to some ten thousand terms of about 1. */
static double error_of(const struct results *results, enum buffer buffer, struct place at, const struct sum *wanted)
{
    const struct tk_attention *a = &results->state->call.forward;
    double got[MOST_D], worst = 0, unit = a->datatype == TK_F32 ? 0 : 1.0 / 512;
    get(results, buffer, at, got);
    for (size_t c = 0; c < a->d; c++) {
        double bound = unit * (fabs(wanted->value[c]) + 5 * sqrt(wanted->squares[c])) + 5e-5;
        worst = worse(worst, fabs(got[c] - wanted->value[c]) / bound);
    }
    return worst;
}

static size_t keys_seen(const struct tk_attention *a, size_t row)
{
    return a->causal ? row + 1 : a->sk;
}

static double scale_of(const struct tk_attention *a)
{
    return 1 / sqrt((double)a->d);
}

/* O and LSE of a row. Scores of normal data are small: exp() needs no maximum. */
static double check_output(const struct results *results, struct place at)
{
    const struct tk_attention *a = &results->state->call.forward;
    double q[MOST_D], x[MOST_D], total = 0;
    struct sum o = {{0}, {0}};
    struct place key = {at.batch, 0, at.head / (a->heads / a->kv_heads)};
    get(results, Q, at, q);
    for (; key.row < keys_seen(a, at.row); key.row++) {
        get(results, K, key, x);
        double weight = exp(scale_of(a) * dot(q, x, a->d));
        total += weight;
        get(results, V, key, x);
        add_scaled(&o, weight, x, a->d);
    }
    for (size_t c = 0; c < a->d; c++) {
        o.value[c] /= total;
        o.squares[c] /= total * total;
    }
    return worse(error_of(results, O, at, &o), fabs(lse_at(results, at) - log(total)) / 2e-4);
}

/* The probability of a key for a row, and the gradient of its score, from the LSE and the O that backward was given. */
static double probability(const struct results *results, struct place row, const double *q, const double *d_o,
                          const double *k, const double *v, double *d_score)
{
    size_t d = results->state->call.forward.d;
    double o[MOST_D], p = exp(scale_of(&results->state->call.forward) * dot(q, k, d) - lse_at(results, row));
    get(results, O, row, o);
    *d_score = p * (dot(d_o, v, d) - dot(d_o, o, d)) * scale_of(&results->state->call.forward);
    return p;
}

static double check_dq(const struct results *results, struct place at)
{
    const struct tk_attention *a = &results->state->call.forward;
    double q[MOST_D], d_o[MOST_D], k[MOST_D], v[MOST_D], d_score;
    struct sum dq = {{0}, {0}};
    struct place key = {at.batch, 0, at.head / (a->heads / a->kv_heads)};
    get(results, Q, at, q);
    get(results, D_O, at, d_o);
    for (; key.row < keys_seen(a, at.row); key.row++) {
        get(results, K, key, k);
        get(results, V, key, v);
        probability(results, at, q, d_o, k, v, &d_score);
        add_scaled(&dq, d_score, k, a->d);
    }
    return error_of(results, DQ, at, &dq);
}

/* dK and dV of a key; at.head: of K. */
static double check_key(const struct results *results, struct place at)
{
    const struct tk_attention *a = &results->state->call.forward;
    double q[MOST_D], d_o[MOST_D], k[MOST_D], v[MOST_D], d_score;
    struct sum dk = {{0}, {0}}, dv = {{0}, {0}};
    size_t group = a->heads / a->kv_heads;
    get(results, K, at, k);
    get(results, V, at, v);
    for (size_t head = at.head * group; head < (at.head + 1) * group; head++)
        for (size_t i = a->causal ? at.row : 0; i < a->sq; i++) {
            struct place row = {at.batch, i, head};
            get(results, Q, row, q);
            get(results, D_O, row, d_o);
            add_scaled(&dv, probability(results, row, q, d_o, k, v, &d_score), d_o, a->d);
            add_scaled(&dk, d_score, q, a->d);
        }
    return worse(error_of(results, DK, at, &dk), error_of(results, DV, at, &dv));
}

/* The first row of the first head, the last of the last, then anywhere. */
static struct place draw(const struct tk_attention *a, size_t heads, size_t i)
{
    if (i < 2)
        return i ? (struct place){a->batch - 1, a->sq - 1, heads - 1} : (struct place){0, 0, 0};
    uint64_t hash = (i * 0x9e3779b97f4a7c15u) ^ (i * 0x9e3779b97f4a7c15u) >> 29;
    return (struct place){(hash >> 40) % a->batch, (hash >> 8 & 0xffffffff) % a->sq, (hash >> 33) % heads};
}

static enum tk_status check(void *opaque, double *error)
{
    const struct state *state = opaque;
    const struct tk_attention *a = &state->call.forward;
    struct results results;
    double worst = 0;
    enum tk_status status = fetch(state, &results);
    size_t samples = status == TK_OK && a->batch * a->heads * a->sq > 0 ? SAMPLES : 0;
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < samples; i++) {
        double off = state->backward
                         ? worse(check_dq(&results, draw(a, a->heads, i)), check_key(&results, draw(a, a->kv_heads, i)))
                         : check_output(&results, draw(a, a->heads, i));
#pragma omp critical
        worst = worse(worst, off);
    }
    discard(&results);
    if (status == TK_OK)
        *error = worst;
    return status;
}

/* ---- Contenders -------------------------------------------------------------------------------------------------- */

static enum tk_status run_backward(void *opaque, int deterministic, void *stream)
{
    const struct state *state = opaque;
    struct tk_attention_backward call = state->call;
    call.deterministic = deterministic;
    if (state->backend->memory == TR_MEMORY_CUDA)
        return tk_attention_backward(&call, stream);
    return deterministic ? tk_error(TK_ERR_UNSUPPORTED, "on the host the one there is is deterministic")
                         : tk_attention_backward_host(&call);
}

static const struct kernel_contender forward_contenders[] = {{"ours", false, 0, run_forward}, {NULL, false, 0, NULL}};

static const struct kernel_contender backward_contenders[] = {
    {"ours", false, 0, run_backward}, {"deterministic", false, 1, run_backward}, {NULL, false, 0, NULL}};

static const char shapes[] =
    "8x16x16x2048x128,4x16x16x4096x128,2x16x16x8192x128,1x16x16x16384x128,8x32x32x2048x64,4x32x32x4096x64,"
    "2x32x32x8192x64,1x32x32x16384x64,4x32x8x4096x128";

const struct kernel_row kernel_attention = {
    .name = "attention",
    .text = "softmax(Q K^T) V, forward: bf16 on a GPU, f32 on the host",
    .dimensions = "BATCHxHEADSxKV_HEADSxLENGTHxD",
    .shapes = shapes,
    .variants = variants,
    .cuda = true,
    .host = true,
    .cost = forward_cost,
    .open = open_forward,
    .close = release,
    .poison = poison,
    .check = check,
    .contenders = forward_contenders,
};

const struct kernel_row kernel_attention_backward = {
    .name = "attention_backward",
    .text = "its gradients of Q, K and V",
    .dimensions = "BATCHxHEADSxKV_HEADSxLENGTHxD",
    .shapes = shapes,
    .variants = variants,
    .cuda = true,
    .host = true,
    .cost = backward_cost,
    .open = open_backward,
    .close = release,
    .poison = poison,
    .check = check,
    .contenders = backward_contenders,
};

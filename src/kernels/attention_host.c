/*
 * attention_host.c - attention in plain C, the reference: a row of Q at a time (backward: its gradients row by row, and
 * those of K and V key by key, so that no two threads write one element).
 */
#include "kernels/attention_check.h"
#include "kernels/bf16.h"
#include "kernels/error.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_D = 128 };

static void get(const void *data, enum tk_datatype datatype, size_t at, size_t n, float *out)
{
    if (datatype == TK_F32)
        memcpy(out, (const float *)data + at, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = tk_bf16_to_f32(((const uint16_t *)data)[at + i]);
}

static void put(void *data, enum tk_datatype datatype, size_t at, size_t n, const float *in)
{
    if (datatype == TK_F32)
        memcpy((float *)data + at, in, n * sizeof *in);
    else
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)data)[at + i] = tk_bf16_from_f32(in[i]);
}

static size_t place(const struct tk_attention_strides *s, size_t batch, size_t row, size_t head)
{
    return batch * s->batch + row * s->row + head * s->head;
}

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *sum, float factor, const float *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        sum[i] += factor * x[i];
}

/* How many keys row `i` sees: the first ones. */
static size_t keys_seen(const struct tk_attention *a, size_t i)
{
    if (!a->causal)
        return a->sk;
    size_t end = i + 1 + a->sk;
    return end <= a->sq ? 0 : end - a->sq < a->sk ? end - a->sq : a->sk;
}

/* The rows of K or V of one kv head as f32: [sk][d]. */
static void get_keys(const struct tk_attention *a, const void *data, const struct tk_attention_strides *strides,
                     size_t batch, size_t kv_head, float *out)
{
    for (size_t j = 0; j < a->sk; j++)
        get(data, a->datatype, place(strides, batch, j, kv_head), a->d, out + j * a->d);
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

/* One row; `scores` has room for sk. */
static void forward_row(const struct tk_attention *a, const float *k, const float *v, size_t batch, size_t head,
                        size_t i, float *scores)
{
    float q[MOST_D], o[MOST_D] = {0}, scale = tk_attention_scale(a), most = -INFINITY, sum = 0;
    size_t n = keys_seen(a, i);
    get(a->q, a->datatype, place(&a->q_strides, batch, i, head), a->d, q);
    for (size_t j = 0; j < n; j++) {
        scores[j] = scale * dot(q, k + j * a->d, a->d);
        most = scores[j] > most || isnan(scores[j]) ? scores[j] : most;
    }
    for (size_t j = 0; j < n; j++) {
        float p = expf(scores[j] - most);
        sum += p;
        add_scaled(o, p, v + j * a->d, a->d);
    }
    for (size_t c = 0; c < a->d; c++)
        o[c] = n ? o[c] / sum : 0;
    put(a->o, a->datatype, place(&a->o_strides, batch, i, head), a->d, o);
    a->lse[(batch * a->heads + head) * a->sq + i] = n ? most + logf(sum) : -INFINITY;
}

/* All rows of all heads that read one kv head. */
static enum tk_status forward_group(const struct tk_attention *a, size_t batch, size_t kv_head)
{
    size_t group = a->heads / a->kv_heads, keys = a->sk * a->d;
    float *k = malloc((2 * keys + 1) * sizeof *k), *v = k + keys;
    int failed = !k;
    if (k) {
        get_keys(a, a->k, &a->k_strides, batch, kv_head, k);
        get_keys(a, a->v, &a->v_strides, batch, kv_head, v);
#pragma omp parallel reduction(| : failed)
        {
            float *scores = malloc((a->sk + 1) * sizeof *scores);
            failed |= !scores;
#pragma omp for schedule(dynamic, 8)
            for (size_t i = 0; i < group * a->sq; i++)
                if (scores)
                    forward_row(a, k, v, batch, kv_head * group + i / a->sq, i % a->sq, scores);
            free(scores);
        }
    }
    free(k);
    return failed ? tk_error(TK_ERR_MEMORY, "attention: no memory for %zu keys", a->sk) : TK_OK;
}

enum tk_status tk_attention_forward_host(const struct tk_attention *a)
{
    enum tk_status status = tk_attention_check(a);
    for (size_t batch = 0; status == TK_OK && batch < a->batch; batch++)
        for (size_t head = 0; status == TK_OK && a->sq && head < a->kv_heads; head++)
            status = forward_group(a, batch, head);
    return status;
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

/* What one kv head's backward pass works on, in f32. */
struct gradient {
    const struct tk_attention_backward *b;
    const struct tk_attention *a;
    size_t batch, kv_head, rows; /* rows: of all heads of the group */
    float *k, *v;                /* [sk][d] */
    float *q, *d_o;              /* [rows][d] */
    float *lse, *delta;          /* [rows]; delta: row sum of dO x O */
    float scale;
};

static size_t floats_of(const struct gradient *g)
{
    return (2 * g->a->sk + 2 * g->rows) * g->a->d + 2 * g->rows + 1;
}

static void lay_out(struct gradient *g, float *memory)
{
    size_t keys = g->a->sk * g->a->d, queries = g->rows * g->a->d;
    g->k = memory;
    g->v = g->k + keys;
    g->q = g->v + keys;
    g->d_o = g->q + queries;
    g->lse = g->d_o + queries;
    g->delta = g->lse + g->rows;
}

static void get_row(const struct gradient *g, size_t i)
{
    const struct tk_attention *a = g->a;
    size_t group = a->heads / a->kv_heads, head = g->kv_head * group + i / a->sq, row = i % a->sq;
    float o[MOST_D];
    get(a->q, a->datatype, place(&a->q_strides, g->batch, row, head), a->d, g->q + i * a->d);
    get(g->b->d_o, a->datatype, place(&g->b->d_o_strides, g->batch, row, head), a->d, g->d_o + i * a->d);
    get(a->o, a->datatype, place(&a->o_strides, g->batch, row, head), a->d, o);
    g->delta[i] = dot(o, g->d_o + i * a->d, a->d);
    g->lse[i] = a->lse[(g->batch * a->heads + head) * a->sq + row];
}

/* The probability of key j for row i, and the gradient of its score. */
static float probability(const struct gradient *g, size_t i, size_t j, float *d_score)
{
    size_t d = g->a->d;
    float p = expf(g->scale * dot(g->q + i * d, g->k + j * d, d) - g->lse[i]);
    *d_score = p * (dot(g->d_o + i * d, g->v + j * d, d) - g->delta[i]);
    return p;
}

static void backward_row(const struct gradient *g, size_t i)
{
    const struct tk_attention *a = g->a;
    size_t group = a->heads / a->kv_heads, n = keys_seen(a, i % a->sq);
    float dq[MOST_D] = {0}, d_score;
    for (size_t j = 0; j < n; j++) {
        probability(g, i, j, &d_score);
        add_scaled(dq, g->scale * d_score, g->k + j * a->d, a->d);
    }
    put(g->b->dq, a->datatype, place(&g->b->dq_strides, g->batch, i % a->sq, g->kv_head * group + i / a->sq), a->d, dq);
}

static void backward_key(const struct gradient *g, size_t j)
{
    const struct tk_attention *a = g->a;
    float dk[MOST_D] = {0}, dv[MOST_D] = {0}, d_score;
    for (size_t i = 0; i < g->rows; i++) {
        if (j >= keys_seen(a, i % a->sq))
            continue;
        float p = probability(g, i, j, &d_score);
        add_scaled(dv, p, g->d_o + i * a->d, a->d);
        add_scaled(dk, g->scale * d_score, g->q + i * a->d, a->d);
    }
    put(g->b->dk, a->datatype, place(&g->b->dk_strides, g->batch, j, g->kv_head), a->d, dk);
    put(g->b->dv, a->datatype, place(&g->b->dv_strides, g->batch, j, g->kv_head), a->d, dv);
}

static enum tk_status backward_group(const struct tk_attention_backward *b, size_t batch, size_t kv_head)
{
    const struct tk_attention *a = &b->forward;
    struct gradient g = {.b = b,
                         .a = a,
                         .batch = batch,
                         .kv_head = kv_head,
                         .rows = a->heads / a->kv_heads * a->sq,
                         .scale = tk_attention_scale(a)};
    float *memory = malloc(floats_of(&g) * sizeof *memory);
    if (!memory)
        return tk_error(TK_ERR_MEMORY, "attention: no memory for %zu rows and %zu keys", g.rows, a->sk);
    lay_out(&g, memory);
    get_keys(a, a->k, &a->k_strides, batch, kv_head, g.k);
    get_keys(a, a->v, &a->v_strides, batch, kv_head, g.v);
#pragma omp parallel
    {
#pragma omp for
        for (size_t i = 0; i < g.rows; i++)
            get_row(&g, i);
#pragma omp for schedule(dynamic, 8)
        for (size_t i = 0; i < g.rows; i++)
            backward_row(&g, i);
#pragma omp for schedule(dynamic, 8)
        for (size_t j = 0; j < a->sk; j++)
            backward_key(&g, j);
    }
    free(memory);
    return TK_OK;
}

enum tk_status tk_attention_backward_host(const struct tk_attention_backward *b)
{
    enum tk_status status = tk_attention_backward_check(b);
    for (size_t batch = 0; status == TK_OK && batch < b->forward.batch; batch++)
        for (size_t head = 0; status == TK_OK && b->forward.heads && head < b->forward.kv_heads; head++)
            status = backward_group(b, batch, head);
    return status;
}

/*
 * attention_host_test.c - attention in plain C against the formula in double, written out: forward, LSE, and the
 * gradients of sum(dO x O), for lengths that differ, causal and full, grouped heads and strides that leave gaps.
 */
#include "kernels/attention.h"
#include "kernels/bf16.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GAP = 3 }; /* elements between rows that belong to nobody */

struct shape {
    size_t batch, heads, kv_heads, sq, sk, d;
    bool causal;
};

/* A tensor with gaps: [batch][row][head][d + GAP]. */
struct tensor {
    float *data;
    struct tk_attention_strides strides;
    size_t n;
};

static float uniform(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1;
}

static struct tensor make(size_t batch, size_t rows, size_t heads, size_t d)
{
    struct tensor t = {.strides = {.head = d + GAP, .row = heads * (d + GAP), .batch = rows * heads * (d + GAP)}};
    t.n = batch * t.strides.batch;
    t.data = malloc((t.n + 1) * sizeof *t.data);
    assert_non_null(t.data);
    for (size_t i = 0; i < t.n; i++)
        t.data[i] = uniform();
    return t;
}

static float *at(const struct tensor *t, size_t batch, size_t row, size_t head)
{
    return t->data + batch * t->strides.batch + row * t->strides.row + head * t->strides.head;
}

/* Everything one case works on. */
struct problem {
    struct shape s;
    struct tensor q, k, v, o, d_o, dq, dk, dv;
    float *lse;
    struct tk_attention_backward call;
};

static void set_up(struct problem *p, struct shape s)
{
    *p = (struct problem){.s = s};
    p->q = make(s.batch, s.sq, s.heads, s.d);
    p->o = make(s.batch, s.sq, s.heads, s.d);
    p->d_o = make(s.batch, s.sq, s.heads, s.d);
    p->dq = make(s.batch, s.sq, s.heads, s.d);
    p->k = make(s.batch, s.sk, s.kv_heads, s.d);
    p->v = make(s.batch, s.sk, s.kv_heads, s.d);
    p->dk = make(s.batch, s.sk, s.kv_heads, s.d);
    p->dv = make(s.batch, s.sk, s.kv_heads, s.d);
    p->lse = malloc((s.batch * s.heads * s.sq + 1) * sizeof *p->lse);
    assert_non_null(p->lse);
    p->call = (struct tk_attention_backward){.forward = {.batch = s.batch,
                                                         .heads = s.heads,
                                                         .kv_heads = s.kv_heads,
                                                         .sq = s.sq,
                                                         .sk = s.sk,
                                                         .d = s.d,
                                                         .causal = s.causal,
                                                         .datatype = TK_F32,
                                                         .q = p->q.data,
                                                         .k = p->k.data,
                                                         .v = p->v.data,
                                                         .o = p->o.data,
                                                         .lse = p->lse,
                                                         .q_strides = p->q.strides,
                                                         .k_strides = p->k.strides,
                                                         .v_strides = p->v.strides,
                                                         .o_strides = p->o.strides},
                                             .d_o = p->d_o.data,
                                             .dq = p->dq.data,
                                             .dk = p->dk.data,
                                             .dv = p->dv.data,
                                             .d_o_strides = p->d_o.strides,
                                             .dq_strides = p->dq.strides,
                                             .dk_strides = p->dk.strides,
                                             .dv_strides = p->dv.strides};
}

static void tear_down(struct problem *p)
{
    struct tensor *tensors[] = {&p->q, &p->k, &p->v, &p->o, &p->d_o, &p->dq, &p->dk, &p->dv};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        free(tensors[i]->data);
    free(p->lse);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* The probabilities of a row, and its LSE; false where it sees no key. */
static bool weigh(const struct problem *p, size_t batch, size_t head, size_t i, double *weights, double *lse)
{
    const struct shape *s = &p->s;
    double sum = 0;
    for (size_t j = 0; j < s->sk; j++) {
        bool seen = !s->causal || j + s->sq <= i + s->sk;
        double score = dot(at(&p->q, batch, i, head), at(&p->k, batch, j, head / (s->heads / s->kv_heads)), s->d);
        weights[j] = seen ? exp(score / sqrt((double)s->d)) : 0;
        sum += weights[j];
    }
    for (size_t j = 0; j < s->sk && sum > 0; j++)
        weights[j] /= sum;
    *lse = log(sum);
    return sum > 0;
}

static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 2e-5 * (1 + fabs(wanted))))
        fail_msg("%.9g is not near %.9g", got, wanted);
}

static void check_forward(const struct problem *p)
{
    const struct shape *s = &p->s;
    double *weights = malloc((s->sk + 1) * sizeof *weights), lse;
    assert_non_null(weights);
    for (size_t r = 0; r < s->batch * s->heads * s->sq; r++) {
        size_t batch = r / s->sq / s->heads, head = r / s->sq % s->heads, i = r % s->sq;
        bool sees = weigh(p, batch, head, i, weights, &lse);
        if (sees)
            assert_near(p->lse[r], lse);
        else
            assert_true(p->lse[r] == -INFINITY);
        for (size_t c = 0; c < s->d; c++) {
            double wanted = 0;
            for (size_t j = 0; j < s->sk && sees; j++)
                wanted += weights[j] * at(&p->v, batch, j, head / (s->heads / s->kv_heads))[c];
            assert_near(at(&p->o, batch, i, head)[c], wanted);
        }
    }
    free(weights);
}

/* dV = P^T dO, dS = P (dO V^T - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q; added up into the double arrays,
 * packed [batch][head][row][d]. */
static void gradients_of_row(const struct problem *p, size_t batch, size_t head, size_t i, double *dq, double *dk,
                             double *dv)
{
    const struct shape *s = &p->s;
    size_t kv_head = head / (s->heads / s->kv_heads);
    double *weights = malloc((s->sk + 1) * sizeof *weights), lse, scale = 1 / sqrt((double)s->d), delta = 0;
    assert_non_null(weights);
    bool sees = weigh(p, batch, head, i, weights, &lse);
    const float *d_o = at(&p->d_o, batch, i, head);
    for (size_t j = 0; j < s->sk && sees; j++)
        delta += weights[j] * dot(d_o, at(&p->v, batch, j, kv_head), s->d);
    for (size_t j = 0; j < s->sk && sees; j++) {
        double ds = weights[j] * (dot(d_o, at(&p->v, batch, j, kv_head), s->d) - delta);
        size_t key = ((batch * s->kv_heads + kv_head) * s->sk + j) * s->d;
        for (size_t c = 0; c < s->d; c++) {
            dq[((batch * s->heads + head) * s->sq + i) * s->d + c] += scale * ds * at(&p->k, batch, j, kv_head)[c];
            dk[key + c] += scale * ds * at(&p->q, batch, i, head)[c];
            dv[key + c] += weights[j] * d_o[c];
        }
    }
    free(weights);
}

static void compare(const struct tensor *got, const double *wanted, size_t batch, size_t heads, size_t rows, size_t d)
{
    for (size_t r = 0; r < batch * heads * rows; r++)
        for (size_t c = 0; c < d; c++)
            assert_near(at(got, r / rows / heads, r % rows, r / rows % heads)[c], wanted[r * d + c]);
}

static void check_backward(const struct problem *p)
{
    const struct shape *s = &p->s;
    size_t queries = s->batch * s->heads * s->sq * s->d, keys = s->batch * s->kv_heads * s->sk * s->d;
    double *dq = calloc(queries + 2 * keys + 1, sizeof *dq), *dk = dq + queries, *dv = dk + keys;
    assert_non_null(dq);
    for (size_t r = 0; r < s->batch * s->heads * s->sq; r++)
        gradients_of_row(p, r / s->sq / s->heads, r / s->sq % s->heads, r % s->sq, dq, dk, dv);
    compare(&p->dq, dq, s->batch, s->heads, s->sq, s->d);
    compare(&p->dk, dk, s->batch, s->kv_heads, s->sk, s->d);
    compare(&p->dv, dv, s->batch, s->kv_heads, s->sk, s->d);
    free(dq);
}

static const size_t lengths[][2] = {{1, 1}, {5, 7}, {7, 5}, {1, 33}, {33, 1}, {0, 4}, {4, 0}, {20, 20}};
static const size_t head_counts[][2] = {{1, 1}, {6, 6}, {6, 2}, {6, 1}};

static void test_formula(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t h = 0; h < sizeof head_counts / sizeof *head_counts; h++)
            for (int variant = 0; variant < 4; variant++) {
                struct problem p;
                set_up(&p, (struct shape){2, head_counts[h][0], head_counts[h][1], lengths[l][0], lengths[l][1],
                                          variant / 2 ? 128 : 64, variant % 2});
                assert_int_equal(tk_attention_forward_host(&p.call.forward), TK_OK);
                check_forward(&p);
                assert_int_equal(tk_attention_backward_host(&p.call), TK_OK);
                check_backward(&p);
                tear_down(&p);
            }
}

/* Scores of several hundred: exp() of them alone would overflow. */
static void test_large_scores(void **state)
{
    (void)state;
    struct problem p;
    set_up(&p, (struct shape){1, 1, 1, 3, 9, 64, false});
    p.call.forward.scale = 40;
    assert_int_equal(tk_attention_forward_host(&p.call.forward), TK_OK);
    for (size_t i = 0; i < p.s.sq; i++) {
        assert_true(isfinite(p.lse[i]));
        for (size_t c = 0; c < p.s.d; c++)
            assert_true(fabsf(at(&p.o, 0, i, 0)[c]) <= 1);
    }
    tear_down(&p);
}

/* bf16 in and out: within half a unit of bf16's last place of what f32 gives for the same (rounded) inputs. */
static void test_bf16(void **state)
{
    (void)state;
    struct problem p;
    set_up(&p, (struct shape){2, 6, 2, 19, 23, 64, true});
    struct tensor *inputs[] = {&p.q, &p.k, &p.v, &p.d_o};
    const void **pointers[] = {&p.call.forward.q, &p.call.forward.k, &p.call.forward.v, &p.call.d_o};
    struct tensor *outputs[] = {&p.o, &p.dq, &p.dk, &p.dv};
    void **written[] = {&p.call.forward.o, &p.call.dq, &p.call.dk, &p.call.dv};
    uint16_t *half[8];
    for (size_t i = 0; i < 8; i++) {
        const struct tensor *t = i < 4 ? inputs[i] : outputs[i - 4];
        half[i] = calloc(t->n + 1, sizeof *half[i]);
        assert_non_null(half[i]);
        for (size_t j = 0; i < 4 && j < t->n; j++) {
            half[i][j] = tk_bf16_from_f32(t->data[j]);
            t->data[j] = tk_bf16_to_f32(half[i][j]);
        }
    }
    struct tk_attention_backward f32 = p.call;
    assert_int_equal(tk_attention_forward_host(&f32.forward), TK_OK);
    for (size_t i = 0; i < 4; i++) {
        *pointers[i] = half[i];
        *written[i] = half[4 + i];
    }
    p.call.forward.datatype = TK_BF16;
    assert_int_equal(tk_attention_forward_host(&p.call.forward), TK_OK);
    for (size_t j = 0; j < p.o.n; j++) { /* backward reads O: the same for both */
        bool is_gap = j % (p.s.d + GAP) >= p.s.d;
        assert_true(is_gap || tk_bf16_from_f32(p.o.data[j]) == half[4][j]);
        p.o.data[j] = tk_bf16_to_f32(half[4][j]);
    }
    assert_int_equal(tk_attention_backward_host(&f32), TK_OK);
    assert_int_equal(tk_attention_backward_host(&p.call), TK_OK);
    for (size_t i = 1; i < 4; i++)
        for (size_t j = 0; j < outputs[i]->n; j++)
            assert_true(j % (p.s.d + GAP) >= p.s.d || tk_bf16_from_f32(outputs[i]->data[j]) == half[4 + i][j]);
    for (size_t i = 0; i < 8; i++)
        free(half[i]);
    tear_down(&p);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    struct problem p;
    set_up(&p, (struct shape){1, 6, 2, 3, 3, 64, false});
    struct tk_attention a = p.call.forward;
    a.kv_heads = 4;
    assert_int_equal(tk_attention_forward_host(&a), TK_ERR_ARGUMENT);
    a = p.call.forward;
    a.d = 80;
    assert_int_equal(tk_attention_forward_host(&a), TK_ERR_UNSUPPORTED);
    a = p.call.forward;
    a.k = NULL;
    assert_int_equal(tk_attention_forward_host(&a), TK_ERR_ARGUMENT);
    a = p.call.forward;
    const float scales[] = {NAN, INFINITY, -1};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        a.scale = scales[i];
        assert_int_equal(tk_attention_forward_host(&a), TK_ERR_ARGUMENT);
    }
    a = p.call.forward;
    a.o_strides.row = 0; /* rows on each other */
    assert_int_equal(tk_attention_forward_host(&a), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "row stride"));
    a = p.call.forward;
    a.batch = a.sq = a.heads = a.kv_heads = (size_t)1 << 30; /* the product of all would overflow */
    assert_int_equal(tk_attention_forward_host(&a), TK_ERR_ARGUMENT);
    a = p.call.forward;
    a.heads = 0;
    assert_int_equal(tk_attention_forward_host(&a), TK_ERR_ARGUMENT);
    p.call.dk_strides.head = 1;
    assert_int_equal(tk_attention_backward_host(&p.call), TK_ERR_ARGUMENT);
    p.call.dk_strides = p.dk.strides;
    p.call.dv = NULL;
    assert_int_equal(tk_attention_backward_host(&p.call), TK_ERR_ARGUMENT);
    assert_int_equal(tk_attention_forward_host(NULL), TK_ERR_ARGUMENT);
    tear_down(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_bad_arguments),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

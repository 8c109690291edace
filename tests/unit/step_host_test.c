/*
 * step_host_test.c - the rest of a training step on the host: SwiGLU, embedding, rotary positions, AdamW and the gradient
 * norm, against doubles and finite differences.
 */
#include "kernels/adamw.h"
#include "kernels/embedding.h"
#include "kernels/gradient_norm.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "values.h"

/* ---- SwiGLU ------------------------------------------------------------------------------------------------------ */

struct gate {
    double gate, up;
};

static double swiglu(const void *arguments)
{
    const struct gate *g = arguments;
    return g->gate / (1 + exp(-g->gate)) * g->up;
}

/* gate and up are the halves of one matrix, with `pad` values between rows. */
static void check_swiglu(size_t rows, size_t width, size_t pad, enum tk_datatype type)
{
    size_t stride = 2 * width + pad, size = tk_datatype_size(type);
    char *x = values_new(rows * stride, type, 0, 6), *dx = values_new(rows * stride, type, 9, 0);
    void *y = values_new(rows * width, type, 0, 0), *g = values_new(rows * width, type, 0, 1);
    struct tk_swiglu_forward forward = {.type = type,
                                        .rows = rows,
                                        .width = width,
                                        .input_stride = stride,
                                        .output_stride = width,
                                        .gate = x,
                                        .up = x + width * size,
                                        .output = y};
    struct tk_swiglu_backward backward = {.type = type,
                                          .rows = rows,
                                          .width = width,
                                          .input_stride = stride,
                                          .output_stride = width,
                                          .gate = x,
                                          .up = x + width * size,
                                          .output_gradient = g,
                                          .gate_gradient = dx,
                                          .up_gradient = dx + width * size};
    assert_int_equal(tk_swiglu_forward_host(&forward), TK_OK);
    assert_int_equal(tk_swiglu_backward_host(&backward), TK_OK);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < width; i++) {
            size_t at = row * stride + i;
            struct gate p = {values_get(x, type, at), values_get(x, type, at + width)};
            double out = values_get(g, type, row * width + i), times = type == TK_F32 ? 16 : 1;
            values_near(y, type, row * width + i, swiglu(&p), 0.1, times);
            values_near(dx, type, at, out * values_derivative(swiglu, &p, &p.gate, 0), 1, times);
            values_near(dx, type, at + width, out * values_derivative(swiglu, &p, &p.up, 0), 0.1, times);
        }
    for (size_t i = 0; i < pad; i++)
        assert_true(values_get(dx, type, 2 * width + i) == 9);
    free(x), free(dx), free(y), free(g);
}

static void test_swiglu(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 0}, {3, 37, 1}, {2, 513, 0}, {5, 192, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int type = 0; type < 2; type++)
            check_swiglu(shapes[i][0], shapes[i][1], shapes[i][2], (enum tk_datatype)type);
}

/* ---- Embedding --------------------------------------------------------------------------------------------------- */

enum { TOKENS = 300, VOCABULARY = 11 };

static void check_embedding(size_t width, enum tk_datatype type)
{
    int32_t ids[TOKENS];
    for (size_t t = 0; t < TOKENS; t++)
        ids[t] = t % 50 == 7   ? -1
                 : t % 50 == 8 ? VOCABULARY
                               : (int32_t)(t * t % (VOCABULARY - 1)); /* one is never used */
    void *table = values_new(VOCABULARY * width, type, 0, 1), *y = values_new(TOKENS * width, type, 0, 0);
    void *g = values_new(TOKENS * width, type, 0, 1);
    float *gradient = values_new(VOCABULARY * width, TK_F32, 5, 0);
    struct tk_embedding_forward forward = {.type = type,
                                           .tokens = TOKENS,
                                           .vocabulary = VOCABULARY,
                                           .width = width,
                                           .ids = ids,
                                           .table = table,
                                           .output = y};
    struct tk_embedding_backward backward = {.type = type,
                                             .tokens = TOKENS,
                                             .vocabulary = VOCABULARY,
                                             .width = width,
                                             .ids = ids,
                                             .output_gradient = g,
                                             .table_type = TK_F32,
                                             .table_gradient = gradient};
    assert_int_equal(tk_embedding_forward_host(&forward), TK_OK);
    assert_int_equal(tk_embedding_backward_host(&backward), TK_OK);
    backward.accumulate = true;
    assert_int_equal(tk_embedding_backward_host(&backward), TK_OK);
    double *want = calloc(VOCABULARY * width, sizeof *want);
    assert_non_null(want);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < width; i++) {
            bool known = ids[t] >= 0 && ids[t] < VOCABULARY;
            double value = values_get(y, type, t * width + i);
            assert_true(known ? value == values_get(table, type, (size_t)ids[t] * width + i) : isnan(value));
            if (known)
                want[(size_t)ids[t] * width + i] += 2 * values_get(g, type, t * width + i);
        }
    for (size_t i = 0; i < VOCABULARY * width; i++)
        values_near(gradient, TK_F32, i, want[i], 10, 60);
    free(table), free(y), free(g), free(gradient), free(want);
}

static void test_embedding(void **state)
{
    (void)state;
    static const size_t widths[] = {1, 63, 64, 65, 200};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int type = 0; type < 2; type++)
            check_embedding(widths[i], (enum tk_datatype)type);
}

/* ---- Rotary ------------------------------------------------------------------------------------------------------ */

static void check_rotary(size_t width, bool interleaved, enum tk_datatype type)
{
    enum { COUNT = 14, HEADS = 3, SEQUENCE = 5, PAD = 3 };
    size_t half = width / 2, stride = HEADS * width + PAD;
    void *x = values_new(COUNT * stride, type, 0, 1), *y = values_new(COUNT * stride, type, 0, 0);
    void *back = values_new(COUNT * stride, type, 0, 0);
    float *table = values_new(SEQUENCE * width, TK_F32, 0, 0);
    assert_int_equal(tk_rotary_table_host(table, SEQUENCE, width, 10000), TK_OK);
    struct tk_rotary rotary = {.type = type,
                               .tokens = COUNT,
                               .heads = HEADS,
                               .width = width,
                               .input_stride = stride,
                               .output_stride = stride,
                               .interleaved = interleaved,
                               .input = x,
                               .output = y,
                               .sequence = SEQUENCE,
                               .table = table,
                               .table_positions = SEQUENCE};
    assert_int_equal(tk_rotary_forward_host(&rotary), TK_OK);
    rotary.input = y, rotary.output = back;
    assert_int_equal(tk_rotary_backward_host(&rotary), TK_OK);
    for (size_t t = 0; t < COUNT; t++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < half; i++) {
                double angle = (double)(t % SEQUENCE) * pow(10000, -2 * (double)i / (double)width);
                size_t a = t * stride + h * width + (interleaved ? 2 * i : i), b = a + (interleaved ? 1 : half);
                double p = values_get(x, type, a), q = values_get(x, type, b);
                values_near(y, type, a, p * cos(angle) - q * sin(angle), 1, 4);
                values_near(y, type, b, p * sin(angle) + q * cos(angle), 1, 4);
                values_near(back, type, a, p, 1, 4);
                values_near(back, type, b, q, 1, 4);
            }
    free(x), free(y), free(back), free(table);
}

static void test_rotary(void **state)
{
    (void)state;
    static const size_t widths[] = {2, 6, 64, 128};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int variant = 0; variant < 4; variant++)
            check_rotary(widths[i], variant & 2, (enum tk_datatype)(variant & 1));
}

static void test_rotary_positions(void **state)
{
    (void)state;
    float x[3][2] = {{1, 0}, {1, 0}, {1, 0}}, y[3][2], table[4][2];
    int32_t positions[3] = {3, 4, -1};
    assert_int_equal(tk_rotary_table_host(&table[0][0], 4, 2, 10000), TK_OK);
    struct tk_rotary rotary = {.tokens = 3,
                               .heads = 1,
                               .width = 2,
                               .input_stride = 2,
                               .output_stride = 2,
                               .input = x,
                               .output = y,
                               .positions = positions,
                               .table = &table[0][0],
                               .table_positions = 4};
    assert_int_equal(tk_rotary_forward_host(&rotary), TK_OK);
    assert_true(fabs((double)y[0][0] - cos(3)) < 1e-6 && fabs((double)y[0][1] - sin(3)) < 1e-6);
    assert_true(isnan(y[1][0]) && isnan(y[2][1]));
    rotary.width = 3;
    assert_int_equal(tk_rotary_forward_host(&rotary), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "width"));
}

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */

enum { STEPS = 5 };

struct moments {
    double w, m, v;
};

static void reference_step(struct moments *s, double g, double decay, int step)
{
    const double rate = (double)0.01f, beta1 = (double)0.9f, beta2 = (double)0.95f, epsilon = (double)1e-8f;
    s->w *= 1 - rate * decay;
    s->m = beta1 * s->m + (1 - beta1) * g;
    s->v = beta2 * s->v + (1 - beta2) * g * g;
    s->w -= rate * (s->m / (1 - pow(beta1, step))) / (sqrt(s->v / (1 - pow(beta2, step))) + epsilon);
}

static void check_adamw(enum tk_datatype type, enum tk_datatype gradient_type)
{
    static const size_t counts[] = {1, 0, 513, 2048};
    enum { TENSORS = 4 };
    struct tk_adamw_tensor tensors[TENSORS];
    struct moments *want[TENSORS];
    float half = 0.5f;
    for (int k = 0; k < TENSORS; k++) {
        size_t n = counts[k];
        tensors[k] = (struct tk_adamw_tensor){.count = n,
                                              .parameter = values_new(n, type, 0, 0),
                                              .master = values_new(n, TK_F32, 0, 1),
                                              .m = values_new(n, TK_F32, 0, 0),
                                              .v = values_new(n, TK_F32, 0, 0),
                                              .decay = k % 2 ? 0.1f : 0};
        want[k] = calloc(n + 1, sizeof **want);
        assert_non_null(want[k]);
        for (size_t i = 0; i < n; i++)
            want[k][i].w = (double)tensors[k].master[i];
    }
    for (int step = 1; step <= STEPS; step++) {
        for (int k = 0; k < TENSORS; k++)
            tensors[k].gradient = values_new(counts[k], gradient_type, 0, 1);
        struct tk_adamw adamw = {.parameter_type = type,
                                 .gradient_type = gradient_type,
                                 .tensors = tensors,
                                 .count = TENSORS,
                                 .rate = 0.01f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .epsilon = 1e-8f,
                                 .step = (uint64_t)step,
                                 .scale = 0.25f,
                                 .more_scale = &half};
        assert_int_equal(tk_adamw_host(&adamw), TK_OK);
        for (int k = 0; k < TENSORS; k++) {
            for (size_t i = 0; i < counts[k]; i++)
                reference_step(&want[k][i], values_get(tensors[k].gradient, gradient_type, i) / 8,
                               k % 2 ? (double)0.1f : 0, step);
            free((void *)tensors[k].gradient);
        }
    }
    for (int k = 0; k < TENSORS; k++) {
        for (size_t i = 0; i < counts[k]; i++) {
            values_near(tensors[k].master, TK_F32, i, want[k][i].w, 0.1, 100);
            values_near(tensors[k].parameter, type, i, (double)tensors[k].master[i], 0, 1);
        }
        free(tensors[k].parameter), free(tensors[k].master), free(tensors[k].m), free(tensors[k].v), free(want[k]);
    }
}

static void test_adamw(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++)
        check_adamw((enum tk_datatype)(variant & 1), (enum tk_datatype)(variant >> 1));
}

static void test_adamw_errors(void **state)
{
    (void)state;
    struct tk_adamw adamw = {.beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f};
    assert_int_equal(tk_adamw_host(&adamw), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "step"));
    adamw.step = 1, adamw.beta2 = 1;
    assert_int_equal(tk_adamw_host(&adamw), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "beta2"));
    struct tk_adamw_tensor tensor = {.count = 1};
    adamw.beta2 = 0.95f, adamw.tensors = &tensor, adamw.count = 1;
    assert_int_equal(tk_adamw_host(&adamw), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "master"));
}

/* ---- Gradient norm ----------------------------------------------------------------------------------------------- */

static void test_gradient_norm(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 0, 63, 64, 100001};
    enum { TENSORS = 5 };
    for (int type = 0; type < 2; type++) {
        struct tk_gradient tensors[TENSORS];
        double sum = 0;
        for (int k = 0; k < TENSORS; k++) {
            tensors[k] = (struct tk_gradient){values_new(counts[k], (enum tk_datatype)type, 0, 1), counts[k]};
            for (size_t i = 0; i < counts[k]; i++)
                sum += pow(values_get(tensors[k].values, (enum tk_datatype)type, i), 2);
        }
        float result[2];
        struct tk_gradient_norm norm = {.type = (enum tk_datatype)type,
                                        .tensors = tensors,
                                        .count = TENSORS,
                                        .scale = 0.5f,
                                        .max_norm = 1,
                                        .result = result};
        assert_int_equal(tk_gradient_norm_host(&norm), TK_OK);
        values_near(result, TK_F32, 0, sqrt(sum) / 2, 0, 40);
        values_near(result, TK_F32, 1, 1 / (sqrt(sum) / 2 + 1e-6), 0, 40);
        norm.max_norm = 1e9f;
        assert_int_equal(tk_gradient_norm_host(&norm), TK_OK);
        assert_true(result[1] == 1);
        values_put((void *)tensors[4].values, (enum tk_datatype)type, 77, NAN);
        assert_int_equal(tk_gradient_norm_host(&norm), TK_OK);
        assert_true(isnan(result[0]) && isnan(result[1]));
        for (int k = 0; k < TENSORS; k++)
            free((void *)tensors[k].values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swiglu),           cmocka_unit_test(test_embedding), cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_rotary_positions), cmocka_unit_test(test_adamw),     cmocka_unit_test(test_adamw_errors),
        cmocka_unit_test(test_gradient_norm),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("step_host", tests, NULL, NULL);
}

/* softmax_host_test.c - softmax and cross-entropy on the host: values against doubles, gradients against finite differences. */
#include "kernels/cross_entropy.h"
#include "kernels/softmax.h"
#include "values.h"

enum { IGNORE = -100 };

/* ---- In double ---------------------------------------------------------------------------------------------------- */

struct problem {
    size_t width;
    double *x;      /* one row */
    double *factor; /* the loss is sum factor softmax(x); NULL: cross-entropy */
    size_t target;
};

static double row_lse(const double *x, size_t width)
{
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < width; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < width; i++)
        sum += exp(x[i] - max);
    return max + log(sum);
}

static double loss(const void *arguments)
{
    const struct problem *p = arguments;
    double lse = row_lse(p->x, p->width), total = 0;
    if (p->factor == NULL)
        return lse - p->x[p->target];
    for (size_t i = 0; i < p->width; i++)
        total += p->factor[i] * exp(p->x[i] - lse);
    return total;
}

/* ---- Softmax ----------------------------------------------------------------------------------------------------- */

static void check_softmax(size_t rows, size_t width, enum tk_datatype type, float spread)
{
    size_t n = rows * width;
    void *x = values_new(n, type, 0, spread), *y = values_new(n, type, 0, 0), *g = values_new(n, type, 0, 1);
    void *dx = values_new(n, type, 0, 0);
    double *xs = values_doubles(x, type, n), *gs = values_doubles(g, type, n);
    struct tk_softmax_forward forward = {.type = type, .rows = rows, .width = width, .input = x, .output = y};
    assert_int_equal(tk_softmax_forward_host(&forward), TK_OK);
    struct tk_softmax_backward backward = {
        .type = type, .rows = rows, .width = width, .output = y, .output_gradient = g, .input_gradient = dx};
    assert_int_equal(tk_softmax_backward_host(&backward), TK_OK);
    for (size_t row = 0; row < rows; row++) {
        struct problem p = {.width = width, .x = xs + row * width, .factor = gs + row * width};
        double lse = row_lse(p.x, width);
        for (size_t i = 0; i < width; i++)
            values_near(y, type, row * width + i, exp(p.x[i] - lse), 0, type == TK_F32 ? 64 : 1);
        size_t step = width > 16 ? width / 16 : 1;
        for (size_t i = 0; i < width; i += step) /* the scale: y (|g| + |sum y g|) */
            values_near(dx, type, row * width + i, values_derivative(loss, &p, p.x, i), 2 * exp(p.x[i] - lse) + 1e-3,
                        type == TK_F32 ? 100 : 4);
    }
    assert_int_equal((forward.output = x, tk_softmax_forward_host(&forward)), TK_OK); /* in place */
    assert_memory_equal(x, y, n * tk_datatype_size(type));
    free(x), free(y), free(g), free(dx), free(xs), free(gs);
}

static void test_softmax(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {1, 192}, {3, 37}, {5, 511}, {2, 513}, {7, 64}, {2, 5001}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int variant = 0; variant < 4; variant++)
            check_softmax(shapes[i][0], shapes[i][1], variant & 1 ? TK_BF16 : TK_F32, variant & 2 ? 20 : 1);
}

/* The maximum may stand in any block of the row: earlier sums are rescaled. */
static void test_late_maximum(void **state)
{
    (void)state;
    enum { WIDTH = 2000 };
    float *x = values_new(WIDTH, TK_F32, -50, 1), *y = values_new(WIDTH, TK_F32, 0, 0);
    x[1999] = 1000;
    x[3] = -INFINITY;
    struct tk_softmax_forward forward = {.rows = 1, .width = WIDTH, .input = x, .output = y};
    assert_int_equal(tk_softmax_forward_host(&forward), TK_OK);
    assert_true(y[1999] == 1 && y[3] == 0 && y[0] == 0);
    for (size_t i = 0; i < WIDTH; i++) /* a whole block of -inf first */
        x[i] = i < 1000 ? -INFINITY : 0;
    assert_int_equal(tk_softmax_forward_host(&forward), TK_OK);
    assert_true(y[0] == 0 && fabsf(y[1000] - 1e-3f) < 1e-9f);
    free(x), free(y);
}

static void test_not_finite(void **state)
{
    (void)state;
    float x[3][4] = {{1, NAN, 2, 3}, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {0, 1, 2, 3}}, y[3][4];
    struct tk_softmax_forward forward = {.rows = 3, .width = 4, .input = x, .output = y};
    assert_int_equal(tk_softmax_forward_host(&forward), TK_OK);
    for (int i = 0; i < 4; i++)
        assert_true(isnan(y[0][i]) && isnan(y[1][i]) && isfinite(y[2][i]));
}

/* ---- Cross-entropy ----------------------------------------------------------------------------------------------- */

static void check_entropy(size_t rows, size_t width, size_t pad, enum tk_datatype type)
{
    size_t stride = width + pad, n = rows * stride;
    void *x = values_new(n, type, 0, 5), *g = values_new(n, type, 7, 0), *again = values_new(n, type, 7, 0);
    double *xs = values_doubles(x, type, n);
    int32_t *targets = malloc(rows * sizeof *targets);
    float *loss_of = values_new(rows, TK_F32, 0, 0), *lse = values_new(rows, TK_F32, 0, 0);
    assert_non_null(targets);
    for (size_t row = 0; row < rows; row++)
        targets[row] = row % 3 == 2 ? IGNORE : (int32_t)(row * 7919 % width);
    struct tk_cross_entropy forward = {.type = type,
                                       .rows = rows,
                                       .width = width,
                                       .stride = stride,
                                       .logits = x,
                                       .targets = targets,
                                       .ignore = IGNORE,
                                       .loss = loss_of,
                                       .lse = lse,
                                       .gradient = g,
                                       .scale = 0.5f};
    assert_int_equal(tk_cross_entropy_host(&forward), TK_OK);
    for (size_t row = 0; row < rows; row++) {
        bool counted = row % 3 != 2;
        struct problem p = {.width = width, .x = xs + row * stride, .target = counted ? (size_t)targets[row] : 0};
        values_near(loss_of, TK_F32, row, counted ? loss(&p) : 0, 5, 16);
        values_near(lse, TK_F32, row, row_lse(p.x, width), 5, 16);
        size_t step = width > 16 ? width / 16 : 1;
        for (size_t i = 0; i < width; i += step)
            values_near(g, type, row * stride + i, counted ? 0.5 * values_derivative(loss, &p, p.x, i) : 0,
                        counted ? 1e-2 : 0, type == TK_F32 ? 400 : 1);
        for (size_t i = width; i < stride; i++)
            assert_true(values_get(g, type, row * stride + i) == 7);
    }
    struct tk_cross_entropy_backward backward = {.type = type,
                                                 .rows = rows,
                                                 .width = width,
                                                 .stride = stride,
                                                 .logits = x,
                                                 .targets = targets,
                                                 .ignore = IGNORE,
                                                 .lse = lse,
                                                 .scale = 0.5f,
                                                 .gradient = again};
    assert_int_equal(tk_cross_entropy_backward_host(&backward), TK_OK);
    assert_memory_equal(again, g, n * tk_datatype_size(type));
    forward.gradient = x; /* in place: the same, but for the padding, which stays */
    assert_int_equal(tk_cross_entropy_host(&forward), TK_OK);
    for (size_t i = 0; i < n; i++)
        if (i % stride < width)
            assert_true(values_get(x, type, i) == values_get(g, type, i));
    free(x), free(g), free(again), free(xs), free(targets), free(loss_of), free(lse);
}

static void test_entropy(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 0}, {4, 37, 0}, {7, 64, 3}, {3, 513, 15}, {3, 50257, 47}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int type = 0; type < 2; type++)
            check_entropy(shapes[i][0], shapes[i][1], shapes[i][2], (enum tk_datatype)type);
}

static void test_bad_target(void **state)
{
    (void)state;
    float x[2][3] = {{1, 2, 3}, {NAN, 2, 3}}, g[2][3], loss_of[2];
    int32_t targets[2] = {3, IGNORE};
    struct tk_cross_entropy forward = {.rows = 2,
                                       .width = 3,
                                       .stride = 3,
                                       .logits = x,
                                       .targets = targets,
                                       .ignore = IGNORE,
                                       .loss = loss_of,
                                       .gradient = g,
                                       .scale = 1};
    assert_int_equal(tk_cross_entropy_host(&forward), TK_OK);
    assert_true(isnan(loss_of[0]) && isnan(g[0][0]));
    assert_true(loss_of[1] == 0 && g[1][0] == 0 && g[1][2] == 0); /* ignored, whatever it holds */
}

static void test_errors(void **state)
{
    (void)state;
    float x[3] = {0};
    int32_t target = 0;
    struct tk_cross_entropy entropy = {.rows = 1, .width = 3, .stride = 2, .logits = x, .targets = &target, .loss = x};
    assert_int_equal(tk_cross_entropy_host(&entropy), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "stride"));
    entropy.stride = 3, entropy.targets = NULL;
    assert_int_equal(tk_cross_entropy_host(&entropy), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "targets"));
    struct tk_softmax_forward forward = {.rows = 1, .width = 3, .input = x};
    assert_int_equal(tk_softmax_forward_host(&forward), TK_ERR_ARGUMENT);
    assert_non_null(strstr(tk_last_error(), "output"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_late_maximum), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_entropy), cmocka_unit_test(test_bad_target),   cmocka_unit_test(test_errors),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("softmax_host", tests, NULL, NULL);
}

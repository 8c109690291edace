/* norm_host_test.c - RMSNorm and LayerNorm on the host: values against double loops, gradients against finite differences. */
#include "kernels/norm.h"
#include "values.h"

/* ---- In double ---------------------------------------------------------------------------------------------------- */

struct problem {
    size_t rows, width;
    bool centred;
    double epsilon;
    double *x, *weight, *bias;
    double *factor; /* [rows][width]: the loss is sum factor output */
    double *output; /* [rows][width], or NULL */
};

static void row_statistics(const struct problem *p, size_t row, double *mean, double *rstd)
{
    const double *x = p->x + row * p->width;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < p->width; i++)
        sum += x[i];
    *mean = p->centred ? sum / (double)p->width : 0;
    for (size_t i = 0; i < p->width; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / sqrt(squares / (double)p->width + p->epsilon);
}

static double loss(const void *arguments)
{
    const struct problem *p = arguments;
    double total = 0;
    for (size_t row = 0; row < p->rows; row++) {
        double mean, rstd;
        row_statistics(p, row, &mean, &rstd);
        for (size_t i = 0; i < p->width; i++) {
            size_t at = row * p->width + i;
            double y = (p->x[at] - mean) * rstd * p->weight[i] + p->bias[i];
            total += p->factor[at] * y;
            if (p->output)
                p->output[at] = y;
        }
    }
    return total;
}

/* ---- Cases ------------------------------------------------------------------------------------------------------- */

struct data {
    size_t count;
    void *input, *residual, *weight, *bias, *sum, *output, *gradient, *other, *input_gradient;
    float *mean, *rstd, *weight_gradient, *bias_gradient;
    struct problem problem;
};

static struct data data_new(size_t rows, size_t width, enum tk_datatype type, bool centred, float centre)
{
    size_t n = rows * width;
    struct data d = {
        .count = n,
        .input = values_new(n, type, centre, 1),
        .residual = values_new(n, type, 0, 1),
        .weight = values_new(width, type, 1, 0.5f),
        .bias = values_new(width, type, 0, 1),
        .sum = values_new(n, type, 0, 0),
        .output = values_new(n, type, 0, 0),
        .gradient = values_new(n, type, 0, 1),
        .other = values_new(n, type, 0, 1),
        .input_gradient = values_new(n, type, 0, 0),
        .mean = values_new(rows, TK_F32, 0, 0),
        .rstd = values_new(rows, TK_F32, 0, 0),
        .weight_gradient = values_new(width, TK_F32, 0, 0),
        .bias_gradient = values_new(width, TK_F32, 0, 0),
        .problem = {.rows = rows, .width = width, .centred = centred, .epsilon = (double)1e-5f},
    };
    d.problem.weight = values_doubles(d.weight, type, width);
    d.problem.bias = values_doubles(d.bias, type, width);
    d.problem.factor = values_doubles(d.gradient, type, n);
    d.problem.output = values_new(2 * n, TK_F32, 0, 0);
    return d;
}

static void data_free(struct data *d)
{
    void *all[] = {d->input,        d->residual,        d->weight,        d->bias,           d->sum,
                   d->output,       d->gradient,        d->other,         d->input_gradient, d->mean,
                   d->rstd,         d->weight_gradient, d->bias_gradient, d->problem.x,      d->problem.weight,
                   d->problem.bias, d->problem.factor,  d->problem.output};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void run_forward(struct data *d, enum tk_datatype type, bool residual)
{
    const struct tk_norm_forward forward = {.type = type,
                                            .rows = d->problem.rows,
                                            .width = d->problem.width,
                                            .epsilon = 1e-5f,
                                            .centred = d->problem.centred,
                                            .input = d->input,
                                            .residual = residual ? d->residual : NULL,
                                            .weight = d->weight,
                                            .bias = d->bias,
                                            .sum = residual ? d->sum : NULL,
                                            .output = d->output,
                                            .mean = d->problem.centred ? d->mean : NULL,
                                            .rstd = d->rstd};
    assert_int_equal(tk_norm_forward_host(&forward), TK_OK);
    d->problem.x = values_doubles(residual ? d->sum : d->input, type, d->count);
}

static void check_forward(struct data *d, enum tk_datatype type, bool residual)
{
    loss(&d->problem);
    for (size_t i = 0; i < d->count; i++) {
        values_near(d->output, type, i, d->problem.output[i], 1, type == TK_F32 ? 60 : 1);
        if (residual)
            values_near(d->sum, type, i, values_get(d->input, type, i) + values_get(d->residual, type, i), 0, 1);
    }
    for (size_t row = 0; row < d->problem.rows; row++) {
        double mean, rstd;
        row_statistics(&d->problem, row, &mean, &rstd);
        values_near(d->rstd, TK_F32, row, rstd, 0, 40);
        if (d->problem.centred)
            values_near(d->mean, TK_F32, row, mean, 1, 16);
    }
}

static void run_backward(struct data *d, enum tk_datatype type, bool residual, bool accumulate)
{
    const struct tk_norm_backward backward = {.type = type,
                                              .rows = d->problem.rows,
                                              .width = d->problem.width,
                                              .centred = d->problem.centred,
                                              .input = residual ? d->sum : d->input,
                                              .output_gradient = d->gradient,
                                              .residual_gradient = residual ? d->other : NULL,
                                              .weight = d->weight,
                                              .mean = d->problem.centred ? d->mean : NULL,
                                              .rstd = d->rstd,
                                              .input_gradient = d->input_gradient,
                                              .weight_type = TK_F32,
                                              .accumulate = accumulate,
                                              .weight_gradient = d->weight_gradient,
                                              .bias_gradient = d->bias_gradient};
    assert_int_equal(tk_norm_backward_host(&backward), TK_OK);
}

/* `sampled` columns, each of all rows; the gradients of weights after two calls are twice those of one. */
static void check_backward(struct data *d, enum tk_datatype type, bool residual)
{
    struct problem *p = &d->problem;
    size_t step = p->width > 16 ? p->width / 16 : 1;
    double *output = p->output;
    p->output = NULL;
    for (size_t column = 0; column < p->width; column += step) {
        for (size_t row = 0; row < p->rows; row++) {
            size_t at = row * p->width + column;
            double other = residual ? values_get(d->other, type, at) : 0;
            values_near(d->input_gradient, type, at, values_derivative(loss, p, p->x, at) + other, 1,
                        type == TK_F32 ? 100 : 1);
        }
        double weight = 2 * values_derivative(loss, p, p->weight, column);
        double bias = 2 * values_derivative(loss, p, p->bias, column);
        values_near(d->weight_gradient, TK_F32, column, weight, 1 + (double)p->rows, 100);
        values_near(d->bias_gradient, TK_F32, column, bias, 1 + (double)p->rows, 100);
    }
    p->output = output;
}

static void test_shapes(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {1, 192}, {3, 37}, {5, 511}, {2, 513}, {37, 64}, {2, 1025}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int variant = 0; variant < 8; variant++) {
            enum tk_datatype type = variant & 1 ? TK_BF16 : TK_F32;
            bool centred = variant & 2, residual = variant & 4;
            struct data d = data_new(shapes[i][0], shapes[i][1], type, centred, 0.25f);
            run_forward(&d, type, residual);
            check_forward(&d, type, residual);
            run_backward(&d, type, residual, false);
            run_backward(&d, type, residual, true);
            if (shapes[i][1] > 1) /* a width of 1 has a derivative that differences cannot see beside epsilon */
                check_backward(&d, type, residual);
            data_free(&d);
        }
}

/* E[x^2] - E[x]^2 would have no digit left here. */
static void test_large_mean(void **state)
{
    (void)state;
    struct data d = data_new(2, 4096, TK_F32, true, 10000);
    run_forward(&d, TK_F32, false);
    for (size_t row = 0; row < 2; row++) {
        double mean, rstd;
        row_statistics(&d.problem, row, &mean, &rstd);
        assert_true(fabs((double)d.rstd[row] - rstd) <= 1e-5 * rstd);
        assert_true(fabs((double)d.mean[row] - mean) <= 1e-6 * mean);
    }
    data_free(&d);
}

/* A NaN spoils its row and no other; squares of 1e15 fit into f32. */
static void test_nan_and_large(void **state)
{
    (void)state;
    struct data d = data_new(3, 100, TK_F32, false, 0);
    ((float *)d.input)[150] = NAN;
    for (size_t i = 0; i < 100; i++)
        ((float *)d.input)[200 + i] *= 1e15f;
    run_forward(&d, TK_F32, false);
    for (size_t i = 0; i < 100; i++) {
        assert_true(isfinite(((float *)d.output)[i]));
        assert_true(isnan(((float *)d.output)[100 + i]));
        assert_true(isfinite(((float *)d.output)[200 + i]));
    }
    data_free(&d);
}

static void test_no_rows(void **state)
{
    (void)state;
    float weight_gradient[3] = {1, 2, 3};
    struct tk_norm_forward forward = {.width = 3};
    struct tk_norm_backward backward = {.width = 3, .weight_gradient = weight_gradient};
    assert_int_equal(tk_norm_forward_host(&forward), TK_OK);
    assert_int_equal(tk_norm_backward_host(&backward), TK_OK);
    for (int i = 0; i < 3; i++)
        assert_true(weight_gradient[i] == 0);
}

static void refused(struct tk_norm_forward forward, const char *word)
{
    assert_int_equal(tk_norm_forward_host(&forward), TK_ERR_ARGUMENT);
    if (strstr(tk_last_error(), word) == NULL)
        fail_msg("\"%s\" does not name %s", tk_last_error(), word);
}

static void test_errors(void **state)
{
    (void)state;
    float x[4] = {0};
    struct tk_norm_forward
        good = {.rows = 1, .width = 4, .centred = true, .input = x, .weight = x, .output = x, .mean = x, .rstd = x},
        bad;
    bad = good, bad.width = 0, refused(bad, "width");
    bad = good, bad.width = (size_t)1 << 31, refused(bad, "width");
    bad = good, bad.rows = SIZE_MAX / 2, refused(bad, "rows");
    bad = good, bad.type = (enum tk_datatype)7, refused(bad, "type");
    bad = good, bad.epsilon = NAN, refused(bad, "epsilon");
    bad = good, bad.mean = NULL, refused(bad, "mean");
    bad = good, bad.weight = NULL, refused(bad, "weight");
    bad = good, bad.residual = x, refused(bad, "sum");
    bad = good, bad.input = (const char *)x + 1, refused(bad, "input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_large_mean), cmocka_unit_test(test_nan_and_large),
        cmocka_unit_test(test_no_rows), cmocka_unit_test(test_errors),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("norm_host", tests, NULL, NULL);
}

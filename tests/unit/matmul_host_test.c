/* matmul_host_test.c - the host matmul against three loops in double: layouts, sizes, strides, epilogues, beta, errors. */
#include "kernels/bf16.h"
#include "kernels/matmul.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Data -------------------------------------------------------------------------------------------------------- */

static uint32_t seed = 1;

static uint32_t draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Whole numbers -4..4, or reals in -1..1. */
static float draw_value(bool whole)
{
    return whole ? (float)(int)(draw() % 9) - 4 : (float)draw() / (1 << 23) - 1;
}

static double get(const void *base, enum tk_datatype datatype, size_t at)
{
    return datatype == TK_F32 ? ((const float *)base)[at] : tk_bf16_to_f32(((const uint16_t *)base)[at]);
}

static void *filled(size_t count, enum tk_datatype datatype, bool whole)
{
    void *data = malloc(count * 4 + 4);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        float value = draw_value(whole);
        if (datatype == TK_F32)
            ((float *)data)[i] = value;
        else
            ((uint16_t *)data)[i] = tk_bf16_from_f32(value);
    }
    return data;
}

/* ---- The reference ----------------------------------------------------------------------------------------------- */

static double reference_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* An element of C, and `magnitude`, the sum of what was added, each taken positive. */
static double reference(const struct tk_matmul *mm, const void *c, size_t row, size_t column, double *magnitude)
{
    double sum = 0;
    *magnitude = 0;
    for (size_t k = 0; k < mm->k; k++) {
        double product = get(mm->a, mm->in, mm->layout == TK_TN ? k * mm->lda + row : row * mm->lda + k) *
                         get(mm->b, mm->in, mm->layout == TK_NT ? column * mm->ldb + k : k * mm->ldb + column);
        sum += product;
        *magnitude += fabs(product);
    }
    if (mm->beta != 0)
        sum += (double)mm->beta * get(c, mm->out, row * mm->ldc + column);
    if (mm->bias)
        sum += get(mm->bias, mm->in, column);
    double z = mm->z ? get(mm->z, mm->in, row * mm->ldz + column) : 0;
    switch (mm->epilogue) {
    case TK_EPILOGUE_GELU:
        return reference_gelu(sum);
    case TK_EPILOGUE_SILU_GATE:
        return z / (1 + exp(-z)) * sum;
    case TK_EPILOGUE_RESIDUAL:
        return sum + z;
    default:
        return sum;
    }
}

static void compare(const struct tk_matmul *mm, const void *before, bool exact)
{
    double unit = mm->out == TK_F32 ? FLT_EPSILON : 1.0 / 256;
    for (size_t i = 0; i < mm->m; i++)
        for (size_t j = 0; j < mm->ldc; j++) {
            double magnitude, is = get(mm->c, mm->out, i * mm->ldc + j);
            if (j >= mm->n) { /* between the rows nothing may change */
                assert_true(is == get(before, mm->out, i * mm->ldc + j));
                continue;
            }
            double wanted = reference(mm, before, i, j, &magnitude);
            double bound = exact ? 0 : unit * fabs(wanted) + FLT_EPSILON * ((double)mm->k * magnitude / 16 + 8);
            if (!(fabs(is - wanted) <= bound))
                fail_msg("%s m %zu n %zu k %zu %s->%s %s beta %g: c[%zu][%zu] is %.9g, not %.9g +- %.3g",
                         tk_layout_name(mm->layout), mm->m, mm->n, mm->k, tk_datatype_name(mm->in),
                         tk_datatype_name(mm->out), tk_epilogue_name(mm->epilogue), mm->beta, i, j, is, wanted, bound);
        }
}

/* Run with rows `gap` elements further apart than needed. */
static void try_matmul(struct tk_matmul mm, size_t gap, bool whole)
{
    mm.lda = (mm.layout == TK_TN ? mm.m : mm.k) + gap;
    mm.ldb = (mm.layout == TK_NT ? mm.k : mm.n) + gap;
    mm.ldc = mm.ldz = mm.n + gap;
    bool bias = mm.bias != NULL, z = mm.epilogue == TK_EPILOGUE_SILU_GATE || mm.epilogue == TK_EPILOGUE_RESIDUAL;
    void *a = filled((mm.m + mm.k) * mm.lda, mm.in, whole), *b = filled((mm.n + mm.k) * mm.ldb, mm.in, whole);
    void *c = filled(mm.m * mm.ldc, mm.out, whole), *before = malloc(mm.m * mm.ldc * 4 + 4);
    void *bias_data = bias ? filled(mm.n, mm.in, whole) : NULL,
         *z_data = z ? filled(mm.m * mm.ldz, mm.in, whole) : NULL;
    memcpy(before, c, mm.m * mm.ldc * tk_datatype_size(mm.out));
    mm.a = a, mm.b = b, mm.c = c, mm.bias = bias_data, mm.z = z_data;
    assert_int_equal(tk_matmul_host(&mm), TK_OK);
    compare(&mm, before, whole);
    free(a), free(b), free(c), free(before), free(bias_data), free(z_data);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

/* Around the edges of tiles and blocks; whole numbers, so that every order of summing gives the same. */
static void test_sizes(void **state)
{
    (void)state;
    static const size_t ms[] = {0, 1, 5, 6, 7, 95, 96, 97}, ns[] = {0, 1, 15, 16, 17, 511, 512, 513};
    static const size_t ks[] = {0, 1, 2, 31, 255, 256, 257};
    for (int layout = 0; layout < TK_LAYOUT_COUNT; layout++)
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
                for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                    if (ms[i] * ns[j] * ks[l] < 3000000)
                        try_matmul((struct tk_matmul){.m = ms[i],
                                                      .n = ns[j],
                                                      .k = ks[l],
                                                      .layout = (enum tk_layout)layout,
                                                      .in = TK_BF16,
                                                      .out = TK_F32},
                                   l % 3, true);
}

/* More than one block in each direction. */
static void test_blocks(void **state)
{
    (void)state;
    for (int layout = 0; layout < TK_LAYOUT_COUNT; layout++) {
        struct tk_matmul tall = {.m = 3073, .n = 9, .k = 5, .layout = (enum tk_layout)layout, .out = TK_F32};
        struct tk_matmul wide = {.m = 9, .n = 2051, .k = 5, .layout = (enum tk_layout)layout, .out = TK_F32};
        struct tk_matmul deep = {.m = 13, .n = 33, .k = 1031, .layout = (enum tk_layout)layout, .out = TK_F32};
        try_matmul(tall, 0, true);
        try_matmul(wide, 1, true);
        try_matmul(deep, 3, true);
        try_matmul(deep, 3, false);
    }
}

static void test_epilogues(void **state)
{
    (void)state;
    static const float betas[] = {0, 1, -0.5f};
    for (int combination = 0; combination < 4 * TK_LAYOUT_COUNT * TK_EPILOGUE_COUNT * 3 * 2; combination++) {
        int rest = combination;
        struct tk_matmul mm = {.m = 19, .n = 37, .k = 40};
        mm.in = (enum tk_datatype)(rest % 2), rest /= 2;
        mm.out = (enum tk_datatype)(rest % 2), rest /= 2;
        mm.layout = (enum tk_layout)(rest % TK_LAYOUT_COUNT), rest /= TK_LAYOUT_COUNT;
        mm.epilogue = (enum tk_epilogue)(rest % TK_EPILOGUE_COUNT), rest /= TK_EPILOGUE_COUNT;
        mm.beta = betas[rest % 3], rest /= 3;
        mm.bias = rest ? &mm : NULL; /* a mark: try_matmul() makes the data */
        try_matmul(mm, 2, false);
    }
}

/* A NaN shows in the rows and columns that it belongs to, and nowhere else; with beta 0, C's own NaN not at all. */
static void test_nan(void **state)
{
    (void)state;
    float a[2 * 3] = {1, NAN, 1, 1, 1, 1}, b[3 * 2] = {1, 2, 3, 4, 5, 6}, c[4] = {NAN, NAN, NAN, NAN};
    struct tk_matmul mm = {.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = c, .lda = 3, .ldb = 2, .ldc = 2};
    assert_int_equal(tk_matmul_host(&mm), TK_OK);
    assert_true(isnan(c[0]) && isnan(c[1]));
    assert_true(c[2] == 9 && c[3] == 12);
}

/* What is wrong is named, and C stays as it was. */
static void test_errors(void **state)
{
    (void)state;
    float data[16] = {0}, c[4] = {7, 7, 7, 7};
    const struct tk_matmul good = {
        .m = 2, .n = 2, .k = 3, .a = data, .b = data, .c = c, .z = data, .lda = 3, .ldb = 2, .ldc = 2, .ldz = 2};
    struct tk_matmul bad[12];
    static const char *const named[12] = {"layout",    "epilogue", "in ",   "out",   "a is NULL", "b is NULL",
                                          "c is NULL", "lda 2",    "ldb 1", "ldc 1", "z is NULL", "a at"};
    for (int i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].layout = TK_LAYOUT_COUNT;
    bad[1].epilogue = TK_EPILOGUE_COUNT;
    bad[2].in = TK_DATATYPE_COUNT;
    bad[3].out = TK_DATATYPE_COUNT;
    bad[4].a = NULL;
    bad[5].b = NULL;
    bad[6].c = NULL;
    bad[7].lda = 2;
    bad[8].ldb = 1;
    bad[9].ldc = 1;
    bad[10].epilogue = TK_EPILOGUE_RESIDUAL, bad[10].z = NULL;
    bad[11].a = (const char *)data + 2;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(tk_matmul_host(&bad[i]), TK_ERR_ARGUMENT);
        if (!strstr(tk_last_error(), named[i]))
            fail_msg("'%s' does not name %s", tk_last_error(), named[i]);
        assert_true(c[0] == 7 && c[1] == 7 && c[2] == 7 && c[3] == 7);
    }
    assert_int_equal(tk_matmul_host(NULL), TK_ERR_ARGUMENT);
}

/* Every bf16 comes back; what lies between goes to the nearest, ties to even; NaN stays NaN. */
static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 1 << 16; bits++) {
        float value = tk_bf16_to_f32((uint16_t)bits);
        if (isnan(value))
            assert_true(isnan(tk_bf16_to_f32(tk_bf16_from_f32(value))));
        else
            assert_int_equal(tk_bf16_from_f32(value), bits);
    }
    assert_true(tk_bf16_to_f32(tk_bf16_from_f32(1.00390625f)) == 1);         /* a tie, to even: down */
    assert_true(tk_bf16_to_f32(tk_bf16_from_f32(1.01171875f)) == 1.015625f); /* a tie, to even: up */
    assert_true(tk_bf16_to_f32(tk_bf16_from_f32(1.00390637f)) == 1.0078125f);
    assert_true(isinf(tk_bf16_to_f32(tk_bf16_from_f32(FLT_MAX))));
    uint32_t quiet = 0x7f800001; /* a NaN whose upper half alone would be infinity */
    float nan_value;
    memcpy(&nan_value, &quiet, sizeof nan_value);
    assert_true(isnan(tk_bf16_to_f32(tk_bf16_from_f32(nan_value))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_blocks), cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_nan),   cmocka_unit_test(test_errors), cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

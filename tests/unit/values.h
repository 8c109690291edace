/* values.h - random values of either datatype, and their comparison with doubles, for the tests of host kernels. */
#ifndef TESTS_UNIT_VALUES_H
#define TESTS_UNIT_VALUES_H

#include "kernels/bf16.h"
#include "kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint32_t values_seed = 1;

/* In -1..1. */
static inline float values_draw(void)
{
    values_seed = values_seed * 1664525u + 1013904223u;
    return (float)(values_seed >> 8) / (1 << 23) - 1;
}

static inline double values_get(const void *base, enum tk_datatype type, size_t at)
{
    return type == TK_F32 ? (double)((const float *)base)[at] : (double)tk_bf16_to_f32(((const uint16_t *)base)[at]);
}

static inline void values_put(void *base, enum tk_datatype type, size_t at, float value)
{
    if (type == TK_F32)
        ((float *)base)[at] = value;
    else
        ((uint16_t *)base)[at] = tk_bf16_from_f32(value);
}

/* `count` values, centre + spread * draw. */
static inline void *values_new(size_t count, enum tk_datatype type, float centre, float spread)
{
    void *data = malloc(count * sizeof(float) + 1);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        values_put(data, type, i, centre + spread * values_draw());
    return data;
}

/* The same as doubles. */
static inline double *values_doubles(const void *base, enum tk_datatype type, size_t count)
{
    double *data = malloc(count * sizeof *data + 1);
    assert_non_null(data);
    for (size_t i = 0; i < count; i++)
        data[i] = values_get(base, type, i);
    return data;
}

/* Rounding of the datatype, relative. */
static inline double values_unit(enum tk_datatype type)
{
    return type == TK_F32 ? 6e-8 : 4e-3;
}

/* `got` is `want` within `times` roundings to `type` of `scale` or of the value, whichever is larger. */
static inline void values_near(const void *got, enum tk_datatype type, size_t at, double want, double scale,
                               double times)
{
    double value = values_get(got, type, at), size = fabs(want) > scale ? fabs(want) : scale;
    if (!(fabs(value - want) <= times * values_unit(type) * size))
        fail_msg("value %zu: %.9g, not %.9g", at, value, want);
}

/* The derivative of f(arguments) by x[at], by central differences; x is left as it was. */
static inline double values_derivative(double (*f)(const void *), const void *arguments, double *x, size_t at)
{
    const double step = 1e-5;
    double before = x[at];
    x[at] = before + step;
    double above = f(arguments);
    x[at] = before - step;
    double below = f(arguments);
    x[at] = before;
    return (above - below) / (2 * step);
}

#endif

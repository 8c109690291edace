/*
 * pattern.h - test data that every rank can compute for every other: element i of rank r's input is a hash of (r, i,
 * round). The reference of an output is computed from the hashes of all ranks, so that no communication is trusted.
 *
 * Two kinds alternate:
 * - exact: small integers (products: powers of two) of which every partial result is a number of the datatype, in any
 *   order, so the output is compared for equality;
 * - real: fractions that fill the datatype's mantissa, compared within a bound that holds for every order:
 *   |output - reference| <= n x eps x sum over ranks of |x| (products: of |product|; averages: over n), eps the distance
 *   from 1 to the datatype's next number. Minima and maxima, all-gather and integers (which wrap) are equal here, too.
 *
 * Compiled for the host (verify_host.c) and for the GPU (bench_cuda.cu); knows neither MPI nor treering.h, but counts
 * datatypes and operations as treering.h does.
 */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define PATTERN_FUNCTION static __host__ __device__ __forceinline__
#else
#define PATTERN_FUNCTION static inline
#endif

enum pattern_type { PATTERN_F64, PATTERN_F32, PATTERN_F16, PATTERN_BF16, PATTERN_I64, PATTERN_I32, PATTERN_U8 };
enum pattern_op { PATTERN_SUM, PATTERN_PROD, PATTERN_MIN, PATTERN_MAX, PATTERN_AVG };

enum pattern_values {
    PATTERN_SMALL,    /* integers -span/2 .. span/2 (unsigned: 0 .. span - 1) */
    PATTERN_POWER,    /* plus or minus 1/2, 1 or 2; 1 from rank 14 on, so that f16 holds every partial product */
    PATTERN_FRACTION, /* (-1, 1) */
    PATTERN_NEAR_ONE, /* plus or minus 1 + q, |q| <= 1/16 */
    PATTERN_WRAP      /* integers: all bits; odd for products, so that none becomes 0 */
};

struct pattern {
    enum pattern_type type;
    enum pattern_op op;
    enum pattern_values values;
    int nranks;
    uint32_t round;
    uint32_t span; /* PATTERN_SMALL */
    int shift;     /* FRACTION, NEAR_ONE: bits of the hash that are dropped, */
    double scale;  /* and what the rest, taken as a signed integer, is multiplied by */
    double bound;  /* factor of the sum of magnitudes; 0: equality */
    bool reduced;  /* output j = reduction of inputs first + j; else output j = input j % segment of rank j / segment */
    size_t first, segment;
};

/* Fill in `pattern` for a round; real: the second kind. reduced, first and segment are the caller's. */
void pattern_init(struct pattern *pattern, int datatype, int op, bool reduced, int nranks, uint32_t round, bool real);

PATTERN_FUNCTION bool pattern_is_float(enum pattern_type type)
{
    return type <= PATTERN_BF16;
}

/* lowbias32 by C. Wellons, of index and seed. */
PATTERN_FUNCTION uint32_t pattern_hash(uint32_t seed, uint64_t index)
{
    uint32_t h = (uint32_t)index ^ seed ^ (uint32_t)(index >> 32) * 0x9E3779B1u;
    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    return h ^ h >> 16;
}

PATTERN_FUNCTION uint32_t pattern_seed(const struct pattern *p, int rank)
{
    return pattern_hash(p->round * 0x9E3779B1u + 0x5EEDu, (uint64_t)rank);
}

PATTERN_FUNCTION double pattern_float(const struct pattern *p, enum pattern_values values, uint32_t h, int rank)
{
    double sign = h & 1 ? -1.0 : 1.0;
    if (values == PATTERN_SMALL)
        return (double)((int32_t)((uint64_t)h * p->span >> 32) - (int32_t)(p->span / 2));
    if (values == PATTERN_POWER)
        return rank >= 14 ? sign : sign * (0.5 * (double)(1 << ((uint64_t)h * 3 >> 32)));
    if (values == PATTERN_FRACTION)
        return (double)((int32_t)h >> p->shift) * p->scale;
    return sign * (1.0 + (double)((int32_t)h >> p->shift) * p->scale);
}

/* Sign-extended (u8: zero-extended) to 64 bits. */
PATTERN_FUNCTION int64_t pattern_truncate(enum pattern_type type, uint64_t bits)
{
    if (type == PATTERN_I32)
        return (int32_t)(uint32_t)bits;
    return type == PATTERN_U8 ? (int64_t)(bits & 0xFF) : (int64_t)bits;
}

PATTERN_FUNCTION int64_t pattern_integer(const struct pattern *p, uint32_t h)
{
    if (p->values == PATTERN_SMALL) {
        int64_t value = (int64_t)((uint64_t)h * p->span >> 32);
        return p->type == PATTERN_U8 ? value : value - p->span / 2;
    }
    uint64_t bits = h ^ (uint64_t)h * 0x9E3779B97F4A7C15u;
    return pattern_truncate(p->type, p->op == PATTERN_PROD ? bits | 1 : bits);
}

PATTERN_FUNCTION double pattern_combine_float(enum pattern_op op, double a, double b)
{
    if (op == PATTERN_PROD)
        return a * b;
    if (op == PATTERN_MIN)
        return b < a ? b : a;
    if (op == PATTERN_MAX)
        return b > a ? b : a;
    return a + b;
}

PATTERN_FUNCTION int64_t pattern_combine_integer(enum pattern_op op, int64_t a, int64_t b)
{
    if (op == PATTERN_PROD)
        return (int64_t)((uint64_t)a * (uint64_t)b);
    if (op == PATTERN_MIN)
        return b < a ? b : a;
    if (op == PATTERN_MAX)
        return b > a ? b : a;
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* The bits of a float whose value is normal or zero in f16 and has no more mantissa than f16, as f16. */
PATTERN_FUNCTION uint16_t pattern_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7FFFFFFF;
    return (uint16_t)(magnitude ? sign | (magnitude - (112u << 23)) >> 13 : sign);
}

PATTERN_FUNCTION float pattern_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1F;
    uint32_t mantissa = half & 0x3FF;
    if (exponent == 0) { /* zero and subnormal numbers: mantissa x 2^-24 */
        float value = (float)mantissa * 5.9604644775390625e-08f;
        return sign ? -value : value;
    }
    uint32_t bits = sign | (exponent == 31 ? 0xFFu : exponent + 112) << 23 | mantissa << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PATTERN_FUNCTION void pattern_store_float(enum pattern_type type, void *data, size_t i, double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (type == PATTERN_F64)
        ((double *)data)[i] = value;
    else if (type == PATTERN_F32)
        ((float *)data)[i] = single;
    else
        ((uint16_t *)data)[i] = type == PATTERN_F16 ? pattern_to_half(single) : (uint16_t)(bits >> 16);
}

PATTERN_FUNCTION double pattern_load_float(enum pattern_type type, const void *data, size_t i)
{
    if (type == PATTERN_F64)
        return ((const double *)data)[i];
    if (type == PATTERN_F32)
        return (double)((const float *)data)[i];
    if (type == PATTERN_F16)
        return (double)pattern_from_half(((const uint16_t *)data)[i]);
    uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float single;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

PATTERN_FUNCTION void pattern_store_integer(enum pattern_type type, void *data, size_t i, int64_t value)
{
    if (type == PATTERN_I64)
        ((int64_t *)data)[i] = value;
    else if (type == PATTERN_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else
        ((uint8_t *)data)[i] = (uint8_t)value;
}

PATTERN_FUNCTION int64_t pattern_load_integer(enum pattern_type type, const void *data, size_t i)
{
    if (type == PATTERN_I64)
        return ((const int64_t *)data)[i];
    return type == PATTERN_I32 ? (int64_t)((const int32_t *)data)[i] : (int64_t)((const uint8_t *)data)[i];
}

/* Whether an output differs from its reference, given the reduction and the sum of magnitudes. NaN always differs. */
PATTERN_FUNCTION bool pattern_differs_float(const struct pattern *p, double output, double reference, double magnitude)
{
    double n = p->reduced && p->op == PATTERN_AVG ? (double)p->nranks : 1.0;
    if (p->op == PATTERN_PROD)
        magnitude = fabs(reference);
    return !(fabs(output - reference / n) <= p->bound * (magnitude / n));
}

PATTERN_FUNCTION bool pattern_differs_integer(const struct pattern *p, int64_t output, int64_t reference)
{
    if (p->reduced && p->op == PATTERN_AVG)
        reference /= p->nranks;
    return output != pattern_truncate(p->type, (uint64_t)reference);
}

#endif

/* reference.c - inputs of the collectives' tests and what must come of them. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Datatypes --------------------------------------------------------------------------------------------------- */

/* Floats: bits of the mantissa with the leading one, the largest number, the smallest (subnormal) one, and the range of
 * the integers that VALUES_EXACT adds up on at most 32 ranks. */
static const struct {
    int mantissa;
    double largest, smallest;
    int range;
} formats[] = {
    [TR_F64] = {53, DBL_MAX, 0x1p-1074, 1 << 30},
    [TR_F32] = {24, FLT_MAX, 0x1p-149, 1 << 18},
    [TR_F16] = {11, 65504.0, 0x1p-24, 32},
    [TR_BF16] = {8, 0x1.fep127, 0x1p-133, 8},
};

bool reference_is_float(enum tr_datatype datatype)
{
    return datatype == TR_F64 || datatype == TR_F32 || datatype == TR_F16 || datatype == TR_BF16;
}

const char *reference_values_name(enum values values)
{
    static const char *const names[] = {"exact", "real", "special"};
    return names[values];
}

static uint16_t encode_f16(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (magnitude >= 65520.0)
        return sign | 0x7c00;
    if (magnitude < 0x1p-14)
        return (uint16_t)(sign | (int)nearbyint(magnitude * 0x1p24));
    int exponent;
    double fraction = frexp(magnitude, &exponent); /* magnitude = fraction x 2^exponent, fraction in [1/2, 1) */
    return (uint16_t)(sign | (((exponent + 14) << 10) + (int)nearbyint(fraction * 2048.0) - 1024));
}

static double decode_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                       : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                      : ldexp(mantissa, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* `value` has no more mantissa than a float, or overflows. */
static uint16_t encode_bf16(double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double decode_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float single;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

static void store_float(enum tr_datatype datatype, void *to, size_t i, double value)
{
    if (datatype == TR_F64)
        ((double *)to)[i] = value;
    else if (datatype == TR_F32)
        ((float *)to)[i] = (float)value;
    else
        ((uint16_t *)to)[i] = datatype == TR_F16 ? encode_f16(value) : encode_bf16(value);
}

static double load_float(enum tr_datatype datatype, const void *from, size_t i)
{
    if (datatype == TR_F64)
        return ((const double *)from)[i];
    if (datatype == TR_F32)
        return (double)((const float *)from)[i];
    uint16_t bits = ((const uint16_t *)from)[i];
    return datatype == TR_F16 ? decode_f16(bits) : decode_bf16(bits);
}

/* Cut to the datatype, then sign-extended (u8: zero-extended). */
static int64_t wrap(enum tr_datatype datatype, uint64_t value)
{
    if (datatype == TR_I32)
        return (int32_t)(uint32_t)value;
    return datatype == TR_U8 ? (int64_t)(value & 0xff) : (int64_t)value;
}

static void store_integer(enum tr_datatype datatype, void *to, size_t i, int64_t value)
{
    if (datatype == TR_I64)
        ((int64_t *)to)[i] = value;
    else if (datatype == TR_I32)
        ((int32_t *)to)[i] = (int32_t)value;
    else
        ((uint8_t *)to)[i] = (uint8_t)value;
}

static int64_t load_integer(enum tr_datatype datatype, const void *from, size_t i)
{
    if (datatype == TR_I64)
        return ((const int64_t *)from)[i];
    return datatype == TR_I32 ? ((const int32_t *)from)[i] : ((const uint8_t *)from)[i];
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t random_bits(const struct data *data, int rank, size_t i)
{
    return mix((data->seed * 64 + (uint64_t)rank) * 0x9e3779b97f4a7c15u + i);
}

/* Uniform in -range .. range. */
static int pick(uint64_t random, int range)
{
    return (int)((random >> 32) * (2 * (uint64_t)range + 1) >> 32) - range;
}

/* Small integers whose sum over all ranks is divisible by their number: the differences cancel, the common part
 * stays. */
static double divisible(const struct data *data, int rank, size_t i)
{
    int common = pick(random_bits(data, 63, i), 2);
    int mine = pick(random_bits(data, rank, i), 2), next = pick(random_bits(data, (rank + 1) % data->nranks, i), 2);
    return mine - next + common;
}

static double exact_float(const struct data *data, int rank, size_t i)
{
    if (data->op == TR_AVG)
        return divisible(data, rank, i);
    uint64_t random = random_bits(data, rank, i);
    if (data->op != TR_PROD)
        return pick(random, formats[data->datatype].range);
    static const double factors[] = {1.0, -1.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5};
    if (random % 61 == 0)
        return random % 2 ? -0.0 : 0.0;
    return factors[random >> 40 & (rank < 12 ? 7 : 1)]; /* f16 holds 2^12 */
}

static int64_t exact_integer(const struct data *data, int rank, size_t i)
{
    uint64_t random = random_bits(data, rank, i);
    if (data->op == TR_PROD) /* odd, else the product of many ranks is 0; and sometimes 0 */
        random = random % 61 ? random | 1 : 0;
    return wrap(data->datatype, random);
}

/* m bits of mantissa: plus or minus k / 2^m, k < 2^m and odd; for products 1 + k / 2^(m-1), k < 2^(m-4): within 1/8
 * of 1. */
static double real_float(const struct data *data, int rank, size_t i)
{
    uint64_t random = random_bits(data, rank, i);
    int bits = formats[data->datatype].mantissa;
    double sign = random & 1 ? -1.0 : 1.0;
    if (data->op == TR_PROD)
        return sign * (1.0 + ldexp((double)(random >> 1 & ((UINT64_C(1) << (bits - 4)) - 1)), 1 - bits));
    return sign * ldexp((double)(random >> (64 - bits) | 1), -bits);
}

/* Which special values the element's ranks hold; `a` and `b` are the ranks that differ from the rest. */
static double special_float(const struct data *data, int rank, size_t i)
{
    int a = (int)(i / SPECIAL_PATTERNS % (size_t)data->nranks), b = (a + 1) % data->nranks;
    double ordinary = exact_float(data, rank, i);
    switch (i % SPECIAL_PATTERNS) {
    case 0:
        return rank == a ? NAN : ordinary;
    case 1:
        return rank == a ? INFINITY : ordinary;
    case 2:
        return rank == a ? -INFINITY : ordinary;
    case 3:
        return rank == a ? INFINITY : rank == b ? -INFINITY : ordinary;
    case 4:
        return -0.0;
    case 5:
        return rank == a ? -0.0 : 0.0;
    case 6:
        return rank == a ? 0.0 : -0.0;
    case 7: /* an average of numbers that overflow depends on where sums are rounded */
        return data->op == TR_AVG ? ordinary : formats[data->datatype].largest;
    case 8:
        return data->op == TR_PROD ? ordinary : divisible(data, rank, i) * formats[data->datatype].smallest;
    case 9:
        return rank == a ? -NAN : rank == b ? INFINITY : ordinary;
    default:
        return INFINITY;
    }
}

static double float_value(const struct data *data, int rank, size_t i)
{
    switch (data->values) {
    case VALUES_EXACT:
        return exact_float(data, rank, i);
    case VALUES_REAL:
        return real_float(data, rank, i);
    default:
        return special_float(data, rank, i);
    }
}

void reference_fill(const struct data *data, int rank, size_t first, size_t count, void *to)
{
    if (reference_is_float(data->datatype))
        for (size_t i = 0; i < count; i++)
            store_float(data->datatype, to, i, float_value(data, rank, first + i));
    else
        for (size_t i = 0; i < count; i++)
            store_integer(data->datatype, to, i, exact_integer(data, rank, first + i));
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

static double combine_floats(enum tr_op op, double x, double y)
{
    switch (op) {
    case TR_PROD:
        return x * y;
    case TR_MIN:
        return isnan(x) || isnan(y) ? NAN : y < x ? y : x;
    case TR_MAX:
        return isnan(x) || isnan(y) ? NAN : y > x ? y : x;
    default:
        return x + y;
    }
}

static int64_t combine_integers(enum tr_op op, int64_t x, int64_t y)
{
    switch (op) {
    case TR_PROD:
        return (int64_t)((uint64_t)x * (uint64_t)y);
    case TR_MIN:
        return y < x ? y : x;
    case TR_MAX:
        return y > x ? y : x;
    default:
        return (int64_t)((uint64_t)x + (uint64_t)y);
    }
}

static int64_t reduce_integer(const struct data *data, size_t i)
{
    int64_t result = exact_integer(data, 0, i);
    for (int rank = 1; rank < data->nranks; rank++)
        result = combine_integers(data->op, result, exact_integer(data, rank, i));
    result = wrap(data->datatype, (uint64_t)result);
    return data->op == TR_AVG ? result / data->nranks : result;
}

/* The reduction of element i, and the sum (product) of the magnitudes. */
static double reduce_float(const struct data *data, size_t i, double *magnitude)
{
    double result = float_value(data, 0, i);
    *magnitude = fabs(result);
    for (int rank = 1; rank < data->nranks; rank++) {
        double value = float_value(data, rank, i);
        result = combine_floats(data->op, result, value);
        *magnitude = data->op == TR_PROD ? fabs(result) : *magnitude + fabs(value);
    }
    if (data->op != TR_AVG)
        return result;
    *magnitude /= data->nranks;
    return result / data->nranks;
}

static bool has_bound(const struct data *data)
{
    return data->values == VALUES_REAL && data->op != TR_MIN && data->op != TR_MAX;
}

/* What reference.h allows a result to be off, for each unit of the sum of magnitudes. */
static double relative_bound(const struct data *data)
{
    bool is_half = data->datatype == TR_F16 || data->datatype == TR_BF16;
    double u = ldexp(1, -formats[data->datatype].mantissa), v = is_half ? 0x1p-24 : 0x1p-53;
    double roundings = data->nranks - (data->op != TR_AVG);
    return expm1(roundings * log1p(u)) + roundings * v;
}

void reference_reduce(const struct data *data, size_t first, size_t count, struct expectation *to)
{
    double magnitude, relative = has_bound(data) ? relative_bound(data) : 0;
    if (!has_bound(data))
        to->value = to->bound = NULL;
    to->first = first;
    for (size_t i = 0; i < count; i++) {
        if (!reference_is_float(data->datatype)) {
            store_integer(data->datatype, to->bits, i, reduce_integer(data, first + i));
            continue;
        }
        double value = reduce_float(data, first + i, &magnitude);
        store_float(data->datatype, to->bits, i, value);
        if (to->bound) {
            to->value[i] = value;
            to->bound[i] = relative * magnitude;
        }
    }
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

static size_t compare_bounded(const struct data *data, const struct expectation *expected, const void *result,
                              size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(load_float(data->datatype, result, i) - expected->value[i]) <= expected->bound[i]))
            return i;
    return count;
}

/* Whether the ranks hold zeros of both signs there, of which the minimum and the maximum may be either. */
static bool is_mixed_zero(size_t i)
{
    return i % SPECIAL_PATTERNS == 5 || i % SPECIAL_PATTERNS == 6;
}

static bool equals_special(const struct data *data, const struct expectation *expected, const void *result, size_t i)
{
    double want = load_float(data->datatype, expected->bits, i), have = load_float(data->datatype, result, i);
    size_t bytes = tr_datatype_size(data->datatype);
    if (isnan(want))
        return isnan(have);
    if (want == 0 && have == 0 && (data->op == TR_MIN || data->op == TR_MAX) && is_mixed_zero(expected->first + i))
        return true;
    return memcmp((const char *)expected->bits + i * bytes, (const char *)result + i * bytes, bytes) == 0;
}

static size_t compare_special(const struct data *data, const struct expectation *expected, const void *result,
                              size_t count)
{
    size_t i = 0;
    while (i < count && equals_special(data, expected, result, i))
        i++;
    return i;
}

size_t reference_compare(const struct data *data, const struct expectation *expected, const void *result, size_t count)
{
    size_t bytes = tr_datatype_size(data->datatype), i = 0;
    if (expected->bound)
        return compare_bounded(data, expected, result, count);
    if (memcmp(expected->bits, result, count * bytes) == 0)
        return count;
    if (data->values == VALUES_SPECIAL)
        return compare_special(data, expected, result, count);
    while (memcmp((const char *)expected->bits + i * bytes, (const char *)result + i * bytes, bytes) == 0)
        i++;
    return i;
}

void reference_print(enum tr_datatype datatype, const void *elements, size_t i, char *text, size_t bytes)
{
    uint64_t bits = 0;
    size_t width = tr_datatype_size(datatype);
    memcpy(&bits, (const char *)elements + i * width, width);
    if (reference_is_float(datatype))
        snprintf(text, bytes, "%.17g (0x%0*llx)", load_float(datatype, elements, i), (int)(2 * width),
                 (unsigned long long)bits);
    else
        snprintf(text, bytes, "%lld (0x%0*llx)", (long long)load_integer(datatype, elements, i), (int)(2 * width),
                 (unsigned long long)bits);
}

uint64_t reference_hash(const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t hash = count, word;
    for (; count >= sizeof word; at += sizeof word, count -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = mix(hash ^ word) * 0x9e3779b97f4a7c15u;
    }
    word = 0;
    memcpy(&word, at, count);
    return mix(hash ^ word);
}

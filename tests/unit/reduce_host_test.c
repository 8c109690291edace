/*
 * reduce_host_test.c - the n-ary reduce-copy against a naive reference, one element at a time.
 *
 * The reference shares nothing with the code under test: it converts f16 and bf16 by arithmetic on doubles.
 */
#include "collectives/reduce_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SRC = 9, MAX_DST = 3, MAX_COUNT = 5000, SLACK = 128 };

/* ---- Reference --------------------------------------------------------------------------------------------------- */

/* A binary floating-point format: bits of the stored significand, and the exponent of the smallest normal number. */
struct format {
    int fraction, least, exponent_bits;
};
static const struct format f16 = {10, -14, 5};
static const struct format bf16 = {7, -126, 8};

static double decode(const struct format *f, uint16_t bits)
{
    int fraction = bits & ((1 << f->fraction) - 1);
    int exponent = bits >> f->fraction & ((1 << f->exponent_bits) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << f->exponent_bits) - 1)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return copysign(ldexp(fraction, f->least - f->fraction), sign);
    return sign * ldexp(fraction + (1 << f->fraction), f->least - f->fraction + exponent - 1);
}

/* Round to nearest even; NaN becomes the canonical quiet NaN. */
static uint16_t encode(const struct format *f, double value)
{
    int infinity = ((1 << f->exponent_bits) - 1) << f->fraction, exponent;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return (uint16_t)(infinity | 1 << (f->fraction - 1));
    value = fabs(value);
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    frexp(value, &exponent);
    int unit = (value == 0 || exponent - 1 < f->least ? f->least : exponent - 1) - f->fraction;
    double steps = nearbyint(ldexp(value, -unit)); /* 2^fraction and more: normal, and carries into the exponent */
    double bits = steps + ldexp(unit - (f->least - f->fraction), f->fraction);
    return (uint16_t)(sign | (bits < infinity ? (int)bits : infinity));
}

static double get(const void *at, enum tr_datatype type)
{
    uint16_t half;
    float single;
    double full;
    switch (type) {
    case TR_F64:
        memcpy(&full, at, sizeof full);
        return full;
    case TR_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    default:
        memcpy(&half, at, sizeof half);
        return decode(type == TR_F16 ? &f16 : &bf16, half);
    }
}

static void put(void *at, enum tr_datatype type, double value)
{
    float single = (float)value;
    uint16_t half = encode(type == TR_F16 ? &f16 : &bf16, value);
    if (type == TR_F64)
        memcpy(at, &value, sizeof value);
    else if (type == TR_F32)
        memcpy(at, &single, sizeof single);
    else
        memcpy(at, &half, sizeof half);
}

static int64_t get_integer(const void *at, enum tr_datatype type)
{
    int64_t wide;
    int32_t narrow;
    if (type == TR_U8)
        return *(const uint8_t *)at;
    memcpy(&wide, at, type == TR_I64 ? sizeof wide : 0);
    memcpy(&narrow, at, sizeof narrow);
    return type == TR_I64 ? wide : narrow;
}

static void put_integer(void *at, enum tr_datatype type, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    uint8_t byte = (uint8_t)value;
    if (type == TR_I64)
        memcpy(at, &value, sizeof value);
    else if (type == TR_I32)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &byte, sizeof byte);
}

static double combine(double a, double b, enum tr_op op)
{
    if (op == TR_PROD)
        return a * b;
    if (op == TR_SUM || op == TR_AVG)
        return a + b;
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == b)
        return (op == TR_MIN) == (signbit(a) != 0) ? a : b;
    return (op == TR_MIN) == (a < b) ? a : b;
}

static uint64_t combine_integer(int64_t a, int64_t b, enum tr_op op)
{
    if (op == TR_PROD)
        return (uint64_t)a * (uint64_t)b;
    if (op == TR_SUM || op == TR_AVG)
        return (uint64_t)a + (uint64_t)b;
    return (uint64_t)((op == TR_MIN) == (a < b) ? a : b);
}

static void reference_integer(enum tr_datatype type, enum tr_op op, unsigned divisor, void *out, const void *const *src,
                              int nsrc)
{
    char value[8];
    put_integer(value, type, (uint64_t)get_integer(src[0], type));
    for (int k = 1; k < nsrc; k++)
        put_integer(value, type, combine_integer(get_integer(value, type), get_integer(src[k], type), op));
    if (divisor)
        put_integer(value, type, (uint64_t)(get_integer(value, type) / divisor));
    put_integer(out, type, (uint64_t)get_integer(value, type));
}

/* f32, f16 and bf16 in single precision throughout, rounded at the end. */
static void reference(enum tr_datatype type, enum tr_op op, unsigned divisor, void *out, const void *const *src,
                      int nsrc)
{
    if (type >= TR_I64) {
        reference_integer(type, op, divisor, out, src, nsrc);
        return;
    }
    double value = get(src[0], type);
    for (int k = 1; k < nsrc; k++) {
        value = combine(value, get(src[k], type), op);
        value = type == TR_F64 ? value : (double)(float)value;
    }
    if (divisor)
        value = type == TR_F64 ? value / divisor : (double)((float)value / (float)divisor);
    put(out, type, value);
}

static bool is_nan(const void *at, enum tr_datatype type)
{
    return type < TR_I64 && isnan(get(at, type));
}

/* ---- Comparison -------------------------------------------------------------------------------------------------- */

struct shape {
    enum tr_datatype type;
    enum tr_op op;
    unsigned divisor;
    int nsrc, ndst;
    size_t count;
    size_t offset; /* of every buffer from a line, in elements */
    int in_place;  /* dst[0] is this source; -1: none */
    bool stream;
};

static unsigned char *sources[MAX_SRC], *destinations[MAX_DST];
static uint32_t seed = 1;

static uint32_t next_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Random values of moderate size, with some that are special; integers of all bits. */
static void fill(void *at, enum tr_datatype type)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-7, -3e-8, 65504.0};
    uint32_t r = next_random();
    if (type >= TR_I64)
        put_integer(at, type, (uint64_t)next_random() << 40 ^ (uint64_t)next_random() << 20 ^ r);
    else if (r % 16 == 0)
        put(at, type, special[next_random() % 8]);
    else
        put(at, type, ((double)(r % 4001) - 2000.0) / 64.0);
}

static void compare_one(const struct shape *s, size_t i, const unsigned char *const *src, const unsigned char *dst)
{
    size_t element = tr_datatype_size(s->type);
    const void *at[MAX_SRC];
    unsigned char want[8];
    for (int k = 0; k < s->nsrc; k++)
        at[k] = src[k] + i * element;
    reference(s->type, s->op, s->divisor, want, at, s->nsrc);
    if (is_nan(want, s->type) && is_nan(dst + i * element, s->type))
        return;
    if (memcmp(want, dst + i * element, element))
        fail_msg("%s %s of %d sources, divisor %u, element %zu of %zu, offset %zu, in place %d, stream %d differs",
                 tr_datatype_name(s->type), tr_op_name(s->op), s->nsrc, s->divisor, i, s->count, s->offset, s->in_place,
                 s->stream);
}

/* Run one shape; bytes around the destinations must stay as they are. */
static void compare(const struct shape *s)
{
    size_t element = tr_datatype_size(s->type), bytes = s->count * element, shift = s->offset * element;
    static unsigned char saved[MAX_COUNT * 8];
    const unsigned char *src[MAX_SRC], *read[MAX_SRC];
    struct tr_reduce_dst dst[MAX_DST];
    for (int k = 0; k < s->nsrc; k++) {
        src[k] = read[k] = sources[k] + shift;
        for (size_t i = 0; i < s->count; i++)
            fill(sources[k] + shift + i * element, s->type);
    }
    for (int k = 0; k < s->ndst; k++) {
        memset(destinations[k], 0xa5, MAX_COUNT * 8 + SLACK);
        dst[k] = (struct tr_reduce_dst){.address = destinations[k] + shift, .stream = s->stream};
    }
    if (s->in_place >= 0) {
        memcpy(saved, src[s->in_place], bytes);
        read[s->in_place] = saved;
        dst[0].address = sources[s->in_place] + shift;
    }
    tr_reduce_host(tr_reduce_kernel(s->type, s->op), s->divisor, dst, s->ndst, (const void *const *)src, s->nsrc,
                   s->count);
    for (int k = 0; k < s->ndst; k++) {
        const unsigned char *out = dst[k].address;
        for (size_t i = 0; i < s->count; i++)
            compare_one(s, i, read, out);
        if (k == 0 && s->in_place >= 0)
            continue;
        for (size_t i = 0; i < shift; i++)
            assert_int_equal(destinations[k][i], 0xa5);
        for (size_t i = bytes + shift; i < bytes + shift + SLACK / 2; i++)
            assert_int_equal(destinations[k][i], 0xa5);
    }
}

static int setup(void **state)
{
    (void)state;
    for (int k = 0; k < MAX_SRC; k++)
        sources[k] = aligned_alloc(64, MAX_COUNT * 8 + 2 * SLACK);
    for (int k = 0; k < MAX_DST; k++)
        destinations[k] = aligned_alloc(64, MAX_COUNT * 8 + 2 * SLACK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int k = 0; k < MAX_SRC; k++)
        free(sources[k]);
    for (int k = 0; k < MAX_DST; k++)
        free(destinations[k]);
    return 0;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void test_types_and_operations(void **state)
{
    (void)state;
    for (int type = 0; type < TR_DATATYPE_COUNT; type++)
        for (int op = 0; op < TR_OP_COUNT; op++)
            for (int nsrc = 1; nsrc <= MAX_SRC; nsrc++)
                for (int ndst = 1; ndst <= MAX_DST; ndst++)
                    compare(&(struct shape){.type = (enum tr_datatype)type,
                                            .op = (enum tr_op)op,
                                            .divisor = op == TR_AVG ? (unsigned)nsrc : 0,
                                            .nsrc = nsrc,
                                            .ndst = ndst,
                                            .count = 1000 + (size_t)nsrc,
                                            .in_place = -1});
}

static void test_counts(void **state)
{
    static const size_t counts[] = {0,  1,   2,   3,   5,   7,    8,    9,    15,   16,   17,   31,   33,   63,   64,
                                    65, 127, 511, 512, 513, 1021, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4097, 4999};
    (void)state;
    for (int type = 0; type < TR_DATATYPE_COUNT; type++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int nsrc = 1; nsrc <= 3; nsrc++)
                for (int stream = 0; stream < 2; stream++)
                    compare(&(struct shape){.type = (enum tr_datatype)type,
                                            .op = TR_SUM,
                                            .nsrc = nsrc,
                                            .ndst = 1 + stream,
                                            .count = counts[c],
                                            .in_place = -1,
                                            .stream = stream});
}

static void test_alignment(void **state)
{
    (void)state;
    for (int type = 0; type < TR_DATATYPE_COUNT; type++)
        for (size_t offset = 0; offset < 9; offset++)
            for (int stream = 0; stream < 2; stream++)
                compare(&(struct shape){.type = (enum tr_datatype)type,
                                        .op = TR_MAX,
                                        .nsrc = 2 + (int)(offset % 2),
                                        .ndst = 2 - stream,
                                        .count = 1500,
                                        .offset = offset,
                                        .in_place = -1,
                                        .stream = stream});
}

static void test_in_place(void **state)
{
    (void)state;
    for (int type = 0; type < TR_DATATYPE_COUNT; type++)
        for (int nsrc = 1; nsrc <= 5; nsrc++)
            for (int which = 0; which < nsrc; which++)
                for (int ndst = 1; ndst <= 2; ndst++)
                    for (int stream = 0; stream < 2; stream++)
                        compare(&(struct shape){.type = (enum tr_datatype)type,
                                                .op = TR_AVG,
                                                .divisor = which % 2 ? 3 : 0,
                                                .nsrc = nsrc,
                                                .ndst = ndst,
                                                .count = 2500,
                                                .in_place = which,
                                                .stream = stream});
}

/* Every value of a 16-bit format comes through unchanged; a NaN comes out as a quiet NaN of the same sign. */
static void all_values(enum tr_datatype type, const struct format *f)
{
    uint16_t infinity = (uint16_t)(((1 << f->exponent_bits) - 1) << f->fraction);
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t in = (uint16_t)bits, out = 0;
        const void *src[] = {&in, &in};
        struct tr_reduce_dst dst = {.address = &out};
        tr_reduce_host(tr_reduce_kernel(type, TR_MIN), 0, &dst, 1, src, 2, 1);
        if ((in & 0x7fff) <= infinity)
            assert_int_equal(out, in);
        else
            assert_true((out & 0x7fff) > infinity && (out & 1 << (f->fraction - 1)) && (out ^ in) >> 15 == 0);
    }
}

static void test_all_halves(void **state)
{
    (void)state;
    all_values(TR_F16, &f16);
    all_values(TR_BF16, &bf16);
}

/* Sums of random bit patterns: ties, denormals and overflows of the rounding. */
static void test_rounding(void **state)
{
    (void)state;
    for (int round = 0; round < 400000; round++) {
        enum tr_datatype type = round % 2 ? TR_F16 : TR_BF16;
        uint16_t in[2] = {(uint16_t)next_random(), (uint16_t)next_random()}, out, want;
        if (round % 3)
            in[1] = (uint16_t)(in[0] ^ (next_random() & 0x9fff)); /* near each other */
        const void *src[] = {&in[0], &in[1]};
        struct tr_reduce_dst dst = {.address = &out};
        tr_reduce_host(tr_reduce_kernel(type, TR_SUM), 0, &dst, 1, src, 2, 1);
        reference(type, TR_SUM, 0, &want, src, 2);
        if (out != want && !(is_nan(&out, type) && is_nan(&want, type)))
            fail_msg("%s: %04x + %04x gives %04x, not %04x", tr_datatype_name(type), in[0], in[1], out, want);
    }
}

/* 2048 + 1 + 1: rounded after each addition f16 stays at 2048. */
static void test_one_rounding_a_step(void **state)
{
    (void)state;
    uint16_t in[3], out;
    put(&in[0], TR_F16, 2048);
    put(&in[1], TR_F16, 1);
    put(&in[2], TR_F16, 1);
    const void *src[] = {&in[0], &in[1], &in[2]};
    struct tr_reduce_dst dst = {.address = &out};
    tr_reduce_host(tr_reduce_kernel(TR_F16, TR_SUM), 0, &dst, 1, src, 3, 1);
    assert_true(get(&out, TR_F16) == 2050);
}

static void test_signed_zero_and_nan(void **state)
{
    (void)state;
    static const double values[] = {0.0, -0.0, NAN, 1.0, -INFINITY};
    for (int type = TR_F64; type <= TR_BF16; type++)
        for (int op = TR_MIN; op <= TR_MAX; op++)
            for (int a = 0; a < 5; a++)
                for (int b = 0; b < 5; b++) {
                    enum tr_datatype t = (enum tr_datatype)type;
                    unsigned char in[2][8], out[8], want[8];
                    put(in[0], t, values[a]);
                    put(in[1], t, values[b]);
                    const void *src[] = {in[0], in[1]};
                    struct tr_reduce_dst dst = {.address = out};
                    tr_reduce_host(tr_reduce_kernel(t, (enum tr_op)op), 0, &dst, 1, src, 2, 1);
                    reference(t, (enum tr_op)op, 0, want, src, 2);
                    assert_int_equal(is_nan(out, t), is_nan(want, t));
                    if (!is_nan(want, t))
                        assert_memory_equal(out, want, tr_datatype_size(t));
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_operations),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_all_halves),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_one_rounding_a_step),
        cmocka_unit_test(test_signed_zero_and_nan),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("reduce_host", tests, setup, teardown);
}

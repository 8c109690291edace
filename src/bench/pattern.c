/* pattern.c - which values test data has, so that results are exact where they can be, and the bound where not. */
#include "bench/pattern.h"
#include "treering.h"

_Static_assert((int)PATTERN_F64 == TR_F64 && (int)PATTERN_F32 == TR_F32 && (int)PATTERN_F16 == TR_F16 &&
                   (int)PATTERN_BF16 == TR_BF16 && (int)PATTERN_I64 == TR_I64 && (int)PATTERN_I32 == TR_I32 &&
                   (int)PATTERN_U8 == TR_U8,
               "datatypes are counted as in treering.h");
_Static_assert((int)PATTERN_SUM == TR_SUM && (int)PATTERN_PROD == TR_PROD && (int)PATTERN_MIN == TR_MIN &&
                   (int)PATTERN_MAX == TR_MAX && (int)PATTERN_AVG == TR_AVG,
               "operations are counted as in treering.h");

static const struct float_type {
    double epsilon;  /* from 1 to the next number */
    double integers; /* every integer up to this one is a number of the type */
    int fraction_shift;
    double fraction; /* signed (32 - fraction_shift)-bit integers times this are in (-1, 1) and fill the mantissa */
    int near_one_shift;
    double near_one; /* likewise, in [-1/16, 1/16], numbers of the type when 1 is added */
} float_types[] = {
    /* f64: thirds, since 32 random bits alone would leave every sum exact */
    [PATTERN_F64] = {0x1p-52, 0x1p53, 0, 0x1p-31 / 3, 0, 0x1p-35},
    [PATTERN_F32] = {0x1p-23, 0x1p24, 7, 0x1p-24, 12, 0x1p-23},
    [PATTERN_F16] = {0x1p-10, 0x1p11, 21, 0x1p-10, 25, 0x1p-10},
    [PATTERN_BF16] = {0x1p-7, 0x1p8, 24, 0x1p-7, 28, 0x1p-7},
};

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Integers -m .. m whose sums over all ranks are integers of the type, m at most 64. */
static uint32_t small_span(const struct float_type *type, int nranks)
{
    double m = floor(type->integers / nranks);
    m = m > 64 ? 64 : m < 1 ? 1 : m;
    return 2 * (uint32_t)m + 1;
}

static void init_float(struct pattern *p, bool real)
{
    const struct float_type *type = &float_types[p->type];
    bool prod = p->op == PATTERN_PROD;
    bool picks = !p->reduced || p->op == PATTERN_MIN || p->op == PATTERN_MAX;
    if (real) {
        p->values = prod && p->reduced ? PATTERN_NEAR_ONE : PATTERN_FRACTION;
        p->shift = prod && p->reduced ? type->near_one_shift : type->fraction_shift;
        p->scale = prod && p->reduced ? type->near_one : type->fraction;
    } else {
        p->values = prod && p->reduced ? PATTERN_POWER : PATTERN_SMALL;
        p->span = small_span(type, p->nranks);
    }
    bool exact = !real && type->integers >= p->nranks && (p->op != PATTERN_AVG || is_power_of_two(p->nranks));
    p->bound = picks || exact || p->nranks == 1 ? 0 : p->nranks * type->epsilon;
}

/* Sums of u8 stay below 256: Open MPI's vectorised sum saturates (its op/avx component), ours and NCCL's wrap. */
static void init_integer(struct pattern *p)
{
    bool byte_sum = p->type == PATTERN_U8 && p->op == PATTERN_SUM;
    p->values = p->reduced && (p->op == PATTERN_AVG || byte_sum) ? PATTERN_SMALL : PATTERN_WRAP;
    p->span = p->type == PATTERN_U8 ? 255 / (uint32_t)p->nranks + 1 : 2001;
    p->bound = 0;
}

void pattern_init(struct pattern *pattern, int datatype, int op, bool reduced, int nranks, uint32_t round, bool real)
{
    *pattern = (struct pattern){.type = (enum pattern_type)datatype,
                                .op = (enum pattern_op)op,
                                .reduced = reduced,
                                .nranks = nranks,
                                .round = round};
    if (pattern_is_float(pattern->type))
        init_float(pattern, real);
    else
        init_integer(pattern);
}

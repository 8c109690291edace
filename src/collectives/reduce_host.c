/*
 * reduce_host.c - the n-ary reduce-copy on the CPU.
 *
 * The inner loops are plain C that the compiler vectorises, once for each instruction set level; the loader picks. They
 * work on blocks that stay in the first-level cache, so that every source and destination crosses the memory bus once:
 *
 *     acc = src[0] op src[1];  acc = acc op src[2];  ...;  dst = acc op src[n-1]       (a block at a time)
 */
#include "collectives/reduce_host.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* The loops below are worth nothing when not vectorised, which GCC 12 does at -O3 only. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TR_CLONES
#endif

/* Iterations are independent even where the output is one of the inputs: element i is read before it is written. */
#if defined(__clang__)
#define TR_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TR_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TR_INDEPENDENT
#endif

enum { BLOCK_BYTES = 4096, LINE_BYTES = 64 };

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static inline uint32_t f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t f64_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double f64_from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754-2019 minimum and maximum: a NaN wins, and -0 < +0. Equal values differ in the sign of a zero at most. */
static inline float f32_min(float a, float b)
{
    float less = a < b ? a : b;
    float ordered = a == b ? f32_from_bits(f32_bits(a) | f32_bits(b)) : less;
    return a != a || b != b ? a + b : ordered;
}

static inline float f32_max(float a, float b)
{
    float more = a > b ? a : b;
    float ordered = a == b ? f32_from_bits(f32_bits(a) & f32_bits(b)) : more;
    return a != a || b != b ? a + b : ordered;
}

static inline double f64_min(double a, double b)
{
    double less = a < b ? a : b;
    double ordered = a == b ? f64_from_bits(f64_bits(a) | f64_bits(b)) : less;
    return a != a || b != b ? a + b : ordered;
}

static inline double f64_max(double a, double b)
{
    double more = a > b ? a : b;
    double ordered = a == b ? f64_from_bits(f64_bits(a) & f64_bits(b)) : more;
    return a != a || b != b ? a + b : ordered;
}

static inline float bf16_widen(uint16_t half)
{
    return f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t bf16_narrow(float value)
{
    uint32_t bits = f32_bits(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)(value != value ? (bits >> 16) | 0x40u : rounded);
}

/* Both conversions of f16 without branches, after M. Dukhan's FP16 library (github.com/Maratyszcza/FP16, MIT): the
 * exponent is moved by integer addition, and a float operation normalises, rounds and keeps infinities and NaNs. */
static inline float f16_widen(uint16_t half)
{
    uint32_t word = (uint32_t)half << 16;
    uint32_t sign = word & 0x80000000u;
    uint32_t twice = word + word;
    uint32_t normal = f32_bits(f32_from_bits((twice >> 4) + (0xe0u << 23)) * 0x1.0p-112f);
    uint32_t denormal = f32_bits(f32_from_bits((twice >> 17) | (126u << 23)) - 0.5f);
    return f32_from_bits(sign | (twice < (1u << 27) ? denormal : normal));
}

static inline uint16_t f16_narrow(float value)
{
    uint32_t word = f32_bits(value);
    uint32_t twice = word + word;
    float scaled = (f32_from_bits(word & 0x7fffffffu) * 0x1.0p+112f) * 0x1.0p-110f;
    uint32_t bias = twice & 0xff000000u;
    bias = bias < 0x71000000u ? 0x71000000u : bias;
    uint32_t bits = f32_bits(f32_from_bits((bias >> 1) + 0x07800000u) + scaled);
    uint32_t magnitude = ((bits >> 13) & 0x7c00u) + (bits & 0x0fffu);
    uint32_t quiet_nan = 0x7e00u | ((word >> 13) & 0x01ffu);
    return (uint16_t)(((word >> 16) & 0x8000u) | (twice > 0xff000000u ? quiet_nan : magnitude));
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

typedef void binary_fn(void *out, const void *a, const void *b, size_t n);
typedef void unary_fn(void *out, const void *in, size_t n);
typedef void divide_fn(void *values, size_t n, unsigned divisor);

/* out[i] = a[i] op b[i]; `LOAD_A`, `LOAD_B` and `STORE` convert between memory and the type that is computed in. */
#define DEFINE_BINARY(NAME, OUT, A, B, COMPUTE, LOAD_A, LOAD_B, STORE, EXPRESSION)   \
    TR_CLONES static void NAME(void *out_, const void *a_, const void *b_, size_t n) \
    {                                                                                \
        OUT *out = out_;                                                             \
        const A *a = a_;                                                             \
        const B *b = b_;                                                             \
        TR_INDEPENDENT                                                               \
        for (size_t i = 0; i < n; i++) {                                             \
            COMPUTE x = LOAD_A(a[i]), y = LOAD_B(b[i]);                              \
            out[i] = (OUT)STORE(EXPRESSION);                                         \
        }                                                                            \
    }

/* Datatypes that are computed in as they are stored. */
#define DEFINE_PLAIN(NAME, TYPE, EXPRESSION) DEFINE_BINARY(NAME, TYPE, TYPE, TYPE, TYPE, , , , EXPRESSION)

/* f16 and bf16: from memory to memory, memory to f32, f32 and memory to f32, and f32 and memory to memory. */
#define DEFINE_HALF(TYPE, OP, EXPRESSION)                                                                             \
    DEFINE_BINARY(TYPE##_##OP##_only, uint16_t, uint16_t, uint16_t, float, TYPE##_widen, TYPE##_widen, TYPE##_narrow, \
                  EXPRESSION)                                                                                         \
    DEFINE_BINARY(TYPE##_##OP##_first, float, uint16_t, uint16_t, float, TYPE##_widen, TYPE##_widen, , EXPRESSION)    \
    DEFINE_BINARY(TYPE##_##OP##_next, float, float, uint16_t, float, , TYPE##_widen, , EXPRESSION)                    \
    DEFINE_BINARY(TYPE##_##OP##_last, uint16_t, float, uint16_t, float, , TYPE##_widen, TYPE##_narrow, EXPRESSION)

#define DEFINE_UNARY(NAME, OUT, IN, CONVERT)                          \
    TR_CLONES static void NAME(void *out_, const void *in_, size_t n) \
    {                                                                 \
        OUT *out = out_;                                              \
        const IN *in = in_;                                           \
        TR_INDEPENDENT                                                \
        for (size_t i = 0; i < n; i++)                                \
            out[i] = CONVERT(in[i]);                                  \
    }

#define DEFINE_DIVIDE(NAME, TYPE)                                          \
    TR_CLONES static void NAME(void *values_, size_t n, unsigned divisor_) \
    {                                                                      \
        TYPE *values = values_, divisor = (TYPE)divisor_;                  \
        for (size_t i = 0; i < n; i++)                                     \
            values[i] = (TYPE)(values[i] / divisor);                       \
    }

DEFINE_PLAIN(f64_sum, double, x + y)
DEFINE_PLAIN(f64_prod, double, (x * y))
DEFINE_PLAIN(f64_minimum, double, f64_min(x, y))
DEFINE_PLAIN(f64_maximum, double, f64_max(x, y))
DEFINE_PLAIN(f32_sum, float, x + y)
DEFINE_PLAIN(f32_prod, float, (x * y))
DEFINE_PLAIN(f32_minimum, float, f32_min(x, y))
DEFINE_PLAIN(f32_maximum, float, f32_max(x, y))
DEFINE_PLAIN(i64_sum, uint64_t, x + y)
DEFINE_PLAIN(i64_prod, uint64_t, (x * y))
DEFINE_PLAIN(i64_minimum, int64_t, x < y ? x : y)
DEFINE_PLAIN(i64_maximum, int64_t, x > y ? x : y)
DEFINE_PLAIN(i32_sum, uint32_t, x + y)
DEFINE_PLAIN(i32_prod, uint32_t, (x * y))
DEFINE_PLAIN(i32_minimum, int32_t, x < y ? x : y)
DEFINE_PLAIN(i32_maximum, int32_t, x > y ? x : y)
DEFINE_PLAIN(u8_sum, uint8_t, (x + y))
DEFINE_PLAIN(u8_prod, uint8_t, (x * y))
DEFINE_PLAIN(u8_minimum, uint8_t, (x < y ? x : y))
DEFINE_PLAIN(u8_maximum, uint8_t, (x > y ? x : y))

DEFINE_HALF(f16, sum, x + y)
DEFINE_HALF(f16, prod, (x * y))
DEFINE_HALF(f16, minimum, f32_min(x, y))
DEFINE_HALF(f16, maximum, f32_max(x, y))
DEFINE_HALF(bf16, sum, x + y)
DEFINE_HALF(bf16, prod, (x * y))
DEFINE_HALF(bf16, minimum, f32_min(x, y))
DEFINE_HALF(bf16, maximum, f32_max(x, y))

DEFINE_UNARY(f16_load, float, uint16_t, f16_widen)
DEFINE_UNARY(f16_store, uint16_t, float, f16_narrow)
DEFINE_UNARY(bf16_load, float, uint16_t, bf16_widen)
DEFINE_UNARY(bf16_store, uint16_t, float, bf16_narrow)
DEFINE_UNARY(copy_1, uint8_t, uint8_t, )
DEFINE_UNARY(copy_4, uint32_t, uint32_t, )
DEFINE_UNARY(copy_8, uint64_t, uint64_t, )

DEFINE_DIVIDE(f64_divide, double)
DEFINE_DIVIDE(f32_divide, float)
DEFINE_DIVIDE(i64_divide, int64_t)
DEFINE_DIVIDE(i32_divide, int32_t)
DEFINE_DIVIDE(u8_divide, uint8_t)

/* ---- Table ------------------------------------------------------------------------------------------------------- */

struct tr_reduce_kernel {
    size_t element;     /* bytes in memory */
    size_t accumulator; /* bytes while it is summed up */
    binary_fn *only;    /* element = element op element */
    binary_fn *first;   /* accumulator = element op element */
    binary_fn *next;    /* accumulator = accumulator op element */
    binary_fn *last;    /* element = accumulator op element */
    unary_fn *load;     /* accumulator = element */
    divide_fn *divide;  /* accumulator /= divisor */
    unary_fn *store;    /* element = accumulator */
};

#define PLAIN(TYPE, BYTES, OP)                                                                                      \
    {                                                                                                               \
        BYTES, BYTES, TYPE##_##OP, TYPE##_##OP, TYPE##_##OP, TYPE##_##OP, copy_##BYTES, TYPE##_divide, copy_##BYTES \
    }
#define HALF(TYPE, OP)                                                                                      \
    {                                                                                                       \
        2, 4, TYPE##_##OP##_only, TYPE##_##OP##_first, TYPE##_##OP##_next, TYPE##_##OP##_last, TYPE##_load, \
            f32_divide, TYPE##_store                                                                        \
    }

static const struct tr_reduce_kernel kernels[TR_DATATYPE_COUNT][4] = {
    [TR_F64] = {PLAIN(f64, 8, sum), PLAIN(f64, 8, prod), PLAIN(f64, 8, minimum), PLAIN(f64, 8, maximum)},
    [TR_F32] = {PLAIN(f32, 4, sum), PLAIN(f32, 4, prod), PLAIN(f32, 4, minimum), PLAIN(f32, 4, maximum)},
    [TR_F16] = {HALF(f16, sum), HALF(f16, prod), HALF(f16, minimum), HALF(f16, maximum)},
    [TR_BF16] = {HALF(bf16, sum), HALF(bf16, prod), HALF(bf16, minimum), HALF(bf16, maximum)},
    [TR_I64] = {PLAIN(i64, 8, sum), PLAIN(i64, 8, prod), PLAIN(i64, 8, minimum), PLAIN(i64, 8, maximum)},
    [TR_I32] = {PLAIN(i32, 4, sum), PLAIN(i32, 4, prod), PLAIN(i32, 4, minimum), PLAIN(i32, 4, maximum)},
    [TR_U8] = {PLAIN(u8, 1, sum), PLAIN(u8, 1, prod), PLAIN(u8, 1, minimum), PLAIN(u8, 1, maximum)},
};

const struct tr_reduce_kernel *tr_reduce_kernel(enum tr_datatype datatype, enum tr_op op)
{
    _Static_assert(TR_SUM == 0 && TR_PROD == 1 && TR_MIN == 2 && TR_MAX == 3, "the order of the table's columns");
    return &kernels[datatype][op == TR_AVG ? TR_SUM : op];
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* Copy past the caches; whoever publishes the data calls stream_fence() first. */
static void copy_stream(void *dst_, const void *src_, size_t bytes)
{
#ifdef __SSE2__
    char *dst = dst_;
    const char *src = src_;
    size_t head = -(uintptr_t)dst % LINE_BYTES;
    head = head < bytes ? head : bytes;
    memcpy(dst, src, head);
    size_t i = head;
    for (; i + LINE_BYTES <= bytes; i += LINE_BYTES)
        for (size_t j = 0; j < LINE_BYTES; j += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(dst + i + j),
                             _mm_loadu_si128((const __m128i *)(const void *)(src + i + j)));
    memcpy(dst + i, src + i, bytes - i);
#else
    memcpy(dst_, src_, bytes);
#endif
}

static void stream_fence(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* Reduce `n` elements from byte `at` of every source to `out`. */
static void reduce_block(const struct tr_reduce_kernel *kernel, unsigned divisor, void *out, const void *const *src,
                         int nsrc, size_t at, size_t n)
{
    _Alignas(LINE_BYTES) char acc[BLOCK_BYTES];
    if (nsrc == 2 && divisor == 0) {
        kernel->only(out, (const char *)src[0] + at, (const char *)src[1] + at, n);
        return;
    }
    if (nsrc == 1)
        kernel->load(acc, (const char *)src[0] + at, n);
    else
        kernel->first(acc, (const char *)src[0] + at, (const char *)src[1] + at, n);
    int left = divisor == 0 ? nsrc - 1 : nsrc;
    for (int k = 2; k < left; k++)
        kernel->next(acc, acc, (const char *)src[k] + at, n);
    if (divisor == 0) {
        kernel->last(out, acc, (const char *)src[nsrc - 1] + at, n);
    } else {
        kernel->divide(acc, n, divisor);
        kernel->store(out, acc, n);
    }
}

static void store_block(const struct tr_reduce_dst *dst, size_t at, const void *block, size_t bytes)
{
    void *to = (char *)dst->address + at;
    if (to == block)
        return;
    if (dst->stream)
        copy_stream(to, block, bytes);
    else
        memcpy(to, block, bytes);
}

/* Elements until dst[0] stands at a line: a streamed block that begins there has no torn lines inside. */
static size_t elements_to_line(const struct tr_reduce_dst *dst, size_t element)
{
    return dst->stream ? -(uintptr_t)dst->address % LINE_BYTES / element : 0;
}

void tr_reduce_host(const struct tr_reduce_kernel *kernel, unsigned divisor, const struct tr_reduce_dst *dst, int ndst,
                    const void *const *src, int nsrc, size_t count)
{
    size_t element = kernel->element;
    divisor = divisor == 1 ? 0 : divisor;
    bool copy = nsrc == 1 && divisor == 0;
    if (ndst == 1 && !dst->stream && copy) {
        if (dst->address != src[0])
            memcpy(dst->address, src[0], count * element);
        return;
    }
    if (ndst == 1 && !dst->stream && nsrc == 2 && divisor == 0) {
        kernel->only(dst->address, src[0], src[1], count);
        return;
    }

    _Alignas(LINE_BYTES) char result[BLOCK_BYTES];
    size_t block = BLOCK_BYTES / kernel->accumulator;
    size_t n = elements_to_line(dst, element);
    n = n == 0 ? block : n;
    bool streamed = false;
    for (size_t i = 0; i < count; i += n, n = block) {
        n = n < count - i ? n : count - i;
        size_t at = i * element;
        const void *from = dst->stream ? result : (char *)dst->address + at;
        if (copy)
            from = (const char *)src[0] + at;
        else
            reduce_block(kernel, divisor, (void *)(uintptr_t)from, src, nsrc, at, n);
        for (int k = 0; k < ndst; k++) {
            store_block(&dst[k], at, from, n * element);
            streamed |= dst[k].stream;
        }
    }
    if (streamed)
        stream_fence();
}

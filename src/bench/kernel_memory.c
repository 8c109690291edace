/* kernel_memory.c - operands of kernel_bench: memory of either kind, and random values in it. */
#include "bench/bench_cuda.h"
#include "bench/kernel_bench.h"
#include "kernels/bf16.h"
#include "kernels/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum tk_status failed(const struct bench_backend *backend, const char *what)
{
    return tk_error(backend->memory == TR_MEMORY_CUDA ? TK_ERR_CUDA : TK_ERR_MEMORY, "%s: %s", what, backend->error());
}

enum tk_status kernel_alloc(const struct bench_backend *backend, const char *what, size_t bytes, void **memory)
{
    if (backend->alloc(bytes ? bytes : 1, memory))
        return TK_OK;
    return tk_error(TK_ERR_MEMORY, "no %zu bytes for %s: %s; give smaller shapes with -s", bytes, what,
                    backend->error());
}

enum tk_status kernel_move(const struct bench_backend *backend, void *to, const void *from, size_t bytes)
{
    if (backend->memory == TR_MEMORY_HOST)
        memcpy(to, from, bytes);
    else if (!bench_cuda_move(to, from, bytes))
        return failed(backend, "copying operands");
    return TK_OK;
}

enum tk_status kernel_poison(const struct bench_backend *backend, void *memory, size_t bytes)
{
    return backend->poison(memory, bytes) && backend->wait() ? TK_OK : failed(backend, "overwriting results");
}

/* ---- Random values ----------------------------------------------------------------------------------------------- */

/* A prime number of them, drawn once; what is longer repeats them, from a place that the seed says. No row length divides
 * the period. */
enum { PERIOD = 4194301 };

static struct {
    float *f32;
    uint16_t *bf16;
} drawn;

static uint32_t hash(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Box and Muller 1958. */
static float normal(uint32_t i)
{
    float u = ((float)(hash(2 * i + 1) >> 8) + 1) / (1 << 24), v = (float)(hash(2 * i + 2) >> 8) / (1 << 24);
    return sqrtf(-2 * logf(u)) * cosf(6.2831853f * v);
}

static bool draw(void)
{
    if (drawn.bf16)
        return true;
    drawn.f32 = malloc(PERIOD * sizeof *drawn.f32);
    drawn.bf16 = malloc(PERIOD * sizeof *drawn.bf16);
    if (!drawn.f32 || !drawn.bf16)
        return false;
    for (uint32_t i = 0; i < PERIOD; i++) {
        drawn.bf16[i] = tk_bf16_from_f32(normal(i));
        drawn.f32[i] = normal(i);
    }
    return true;
}

static size_t place_of(size_t at, unsigned seed)
{
    return (at + hash(seed)) % PERIOD;
}

float kernel_value(enum tk_datatype datatype, size_t at, unsigned seed)
{
    size_t place = place_of(at, seed);
    return datatype == TK_F32 ? drawn.f32[place] : tk_bf16_to_f32(drawn.bf16[place]);
}

enum tk_status kernel_fill(const struct bench_backend *backend, void *memory, enum tk_datatype datatype, size_t count,
                           unsigned seed)
{
    if (!draw())
        return tk_error(TK_ERR_MEMORY, "no host memory for %d random values", PERIOD);
    size_t size = tk_datatype_size(datatype);
    const char *values = datatype == TK_F32 ? (const char *)drawn.f32 : (const char *)drawn.bf16;
    enum tk_status status = TK_OK;
    for (size_t at = 0; at < count && status == TK_OK;) {
        size_t place = place_of(at, seed), run = PERIOD - place < count - at ? PERIOD - place : count - at;
        status = kernel_move(backend, (char *)memory + at * size, values + place * size, run * size);
        at += run;
    }
    return status;
}

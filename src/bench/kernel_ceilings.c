/* kernel_ceilings.c - the roofline of this machine, in this run: how fast it copies, and how fast a large matmul is. */
#include "bench/bench_cuda.h"
#include "bench/kernel_bench.h"
#include "bench/stats.h"
#include "kernels/error.h"

#include <string.h>

enum { SAMPLES = 9 };

static const size_t copy_bytes_cuda = (size_t)1 << 30, copy_bytes_host = (size_t)256 << 20;

/* Each thread of OpenMP's copies a part. */
static void copy_host(char *to, const char *from, size_t bytes)
{
    const size_t part = (size_t)1 << 20;
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < bytes; at += part)
        memcpy(to + at, from + at, bytes - at < part ? bytes - at : part);
}

static bool copy_once(const struct bench_backend *backend, void *to, const void *from, size_t bytes, double *seconds)
{
    if (!backend->clock_start())
        return false;
    if (backend->memory == TR_MEMORY_HOST)
        copy_host(to, from, bytes);
    else if (!bench_cuda_copy(to, from, bytes))
        return false;
    return backend->clock_stop(seconds);
}

static enum tk_status measure_copy(const struct bench_backend *backend, double *rate)
{
    void *from, *to = NULL;
    double seconds[SAMPLES];
    size_t bytes = backend->memory == TR_MEMORY_HOST ? copy_bytes_host : copy_bytes_cuda;
    enum tk_status status = kernel_alloc(backend, "the copy's source", bytes, &from);
    if (status != TK_OK)
        return status;
    status = kernel_alloc(backend, "the copy's target", bytes, &to);
    for (int i = -2; i < SAMPLES && status == TK_OK; i++) /* two to warm up */
        if (!copy_once(backend, to, from, bytes, &seconds[i < 0 ? 0 : i]))
            status = tk_error(TK_ERR_CUDA, "copying: %s", backend->error());
    if (status == TK_OK)
        *rate = 2 * (double)bytes / stats_of(seconds, SAMPLES).median;
    if (to)
        backend->release(to);
    backend->release(from);
    return status;
}

/* The best contender at one large product. */
static enum tk_status measure_matmul(const struct bench_backend *backend, const struct kernel_options *options,
                                     size_t side, struct kernel_ceilings *ceilings)
{
    struct kernel_options all = *options;
    all.contenders = NULL;
    all.rounds = SAMPLES;
    struct kernel_point point = {.row = &kernel_matmul, .shape = {3, {side, side, side}}, .variant = 1};
    enum tk_status status = kernel_point_run(backend, &all, &point);
    for (int i = 0; i < point.ncontenders && status == TK_OK; i++) {
        const struct kernel_result *result = &point.results[i];
        double rate = 2 * (double)side * (double)side * (double)side / result->time.median;
        if (result->state == BENCH_MEASURED && rate > ceilings->flops) {
            ceilings->flops = rate;
            ceilings->flops_by = result->contender->name;
        }
    }
    return status;
}

enum tk_status kernel_ceilings_measure(const struct bench_backend *backend, const struct kernel_options *options,
                                       struct kernel_ceilings *ceilings)
{
    struct kernel_ceilings measured = {0};
    enum tk_status status = measure_copy(backend, &measured.bytes);
    bool host = backend->memory == TR_MEMORY_HOST;
    if (status == TK_OK)
        status = measure_matmul(backend, options, host ? 768 : 4096, &measured);
    if (status == TK_OK && !host)
        status = measure_matmul(backend, options, 8192, &measured);
    if (status == TK_OK)
        *ceilings = measured;
    return status;
}

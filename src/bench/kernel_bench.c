/*
 * kernel_bench.c - times the kernels of src/kernels beside those of others: the table on standard output.
 *
 * One process, one GPU (or the host's cores). A line a contender:
 *
 *     matmul 4096x768x768 NT: 4.83 Gflop, 14.5 MB at least; at most 624.1 TFLOP/s by the roofline
 *       ours        8.61 us [8.58, 8.66]     561.2 TFLOP/s     89.9%
 *       cublas      8.74 us [8.70, 8.81]     552.8 TFLOP/s     88.6%     ours/cublas 1.015x
 */
#include "bench/kernel_bench.h"
#include "bench/options.h"
#include "bench/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void stop(enum bench_exit code, const char *format, ...) __attribute__((format(printf, 2, 3)));

static _Noreturn void stop(enum bench_exit code, const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fputs("kernel_bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    report_files_remove();
    exit(code);
}

static void stop_on(enum tk_status status, const char *doing)
{
    if (status != TK_OK)
        stop(status == TK_ERR_MEMORY || status == TK_ERR_UNSUPPORTED ? BENCH_EXIT_CANNOT : BENCH_EXIT_FAILED,
             "%s: %s (%s)", doing, tk_last_error(), tk_strerror(status));
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void print_list(void)
{
    for (const struct kernel_row *const *row = kernel_rows; *row; row++) {
        printf("%s: %s\n  memory: %s%s%s\n  shapes (%s): %s\n  variants:", (*row)->name, (*row)->text,
               (*row)->cuda ? "cuda" : "", (*row)->cuda && (*row)->host ? ", " : "", (*row)->host ? "host" : "",
               (*row)->dimensions, (*row)->shapes);
        for (int i = 0; (*row)->variants[i]; i++)
            printf(" %s", (*row)->variants[i]);
        printf("\n  contenders:");
        for (const struct kernel_contender *c = (*row)->contenders; c->name; c++)
            printf(" %s", c->name);
        printf("\n");
    }
}

static double rate_of(const struct kernel_point *point, double seconds)
{
    return point->row->memory_bound ? point->cost.bytes / seconds * 1e-9 : point->cost.flops / seconds * 1e-12;
}

static void print_head(const struct kernel_point *point)
{
    printf("%s ", point->row->name);
    for (int i = 0; i < point->shape.count; i++)
        printf("%s%zu", i ? "x" : "", point->shape.size[i]);
    printf(" %s: %.4g Gflop, %.4g MB at least", point->row->variants[point->variant], point->cost.flops * 1e-9,
           point->cost.bytes * 1e-6);
    if (point->roof > 0)
        printf("; at most %.4g %s by the roofline", rate_of(point, point->roof),
               point->row->memory_bound ? "GB/s" : "TFLOP/s");
    printf("\n");
}

static const struct kernel_result *fastest(const struct kernel_point *point, bool peer)
{
    const struct kernel_result *best = NULL;
    for (int i = 0; i < point->ncontenders; i++) {
        const struct kernel_result *result = &point->results[i];
        if (result->contender->peer == peer && result->state == BENCH_MEASURED &&
            (!best || result->time.median < best->time.median))
            best = result;
    }
    return best;
}

static void print_result(const struct kernel_point *point, const struct kernel_result *result)
{
    const struct bench_stats *time = &result->time;
    printf("  %-14s ", result->contender->name);
    if (result->state == BENCH_NOT_SERVED) {
        printf("not served: %s\n", result->why);
        return;
    }
    if (result->state == BENCH_WRONG_DATA) {
        printf("WRONG: error %.3g times what rounding allows\n", result->error);
        return;
    }
    printf("%10.2f us [%.2f, %.2f] %10.4g %s", time->median * 1e6, time->ci_low * 1e6, time->ci_high * 1e6,
           rate_of(point, time->median), point->row->memory_bound ? "GB/s" : "TFLOP/s");
    if (point->roof > 0)
        printf(" %6.1f%%", 100 * point->roof / time->median);
    const struct kernel_result *ours = fastest(point, false);
    if (result->contender->peer && ours)
        printf("   %s/%s %.3fx", ours->contender->name, result->contender->name, time->median / ours->time.median);
    printf("\n");
}

static void print_ceilings(const struct kernel_ceilings *ceilings)
{
    printf("# this machine copies %.0f GB/s (read plus written)", ceilings->bytes * 1e-9);
    if (ceilings->flops > 0)
        printf(", and multiplies large matrices at %.3g TFLOP/s (%s)", ceilings->flops * 1e-12, ceilings->flops_by);
    printf("\n# time of a call: median over rounds [95%% confidence]; share of what the two ceilings allow; "
           "ours/peer: more than 1 is faster than the peer\n");
    fflush(stdout);
}

/* ---- The run ----------------------------------------------------------------------------------------------------- */

static double roof_of(const struct kernel_cost *cost, const struct kernel_ceilings *ceilings)
{
    double multiplying = ceilings->flops > 0 ? cost->flops / ceilings->flops : 0;
    double moving = ceilings->bytes > 0 ? cost->bytes / ceilings->bytes : 0;
    return multiplying > moving ? multiplying : moving;
}

/* Returns whether some contender was wrong. */
static bool run_point(const struct bench_backend *backend, const struct kernel_options *options,
                      const struct kernel_ceilings *ceilings, struct kernel_point *point)
{
    bool wrong = false;
    point->cost = point->row->cost(backend, &point->shape, point->variant);
    point->roof = roof_of(&point->cost, ceilings);
    stop_on(kernel_point_run(backend, options, point), point->row->name);
    print_head(point);
    for (int i = 0; i < point->ncontenders; i++) {
        print_result(point, &point->results[i]);
        wrong |= point->results[i].state == BENCH_WRONG_DATA;
    }
    fflush(stdout);
    kernel_json_point(point);
    return wrong;
}

static bool run_row(const struct bench_backend *backend, const struct kernel_options *options,
                    const struct kernel_ceilings *ceilings, const struct kernel_row *row, int *points)
{
    bool wrong = false;
    struct kernel_shape shape;
    const char *shapes = options->shapes ? options->shapes : row->shapes;
    for (int i = 0; kernel_shape_at(shapes, i, &shape); i++)
        for (int v = 0; shape.count == kernel_dimension_count(row) && row->variants[v]; v++) {
            struct kernel_point point = {.row = row, .shape = shape, .variant = v};
            if (!kernel_is_listed(options->variants, row->variants[v]))
                continue;
            wrong |= run_point(backend, options, ceilings, &point);
            (*points)++;
        }
    return wrong;
}

static const struct bench_backend *open_backend(const struct kernel_options *options)
{
    const struct bench_backend *backend = options->memory == TR_MEMORY_CUDA ? &backend_cuda : &backend_host;
    if (!backend->open(options->device))
        stop(BENCH_EXIT_CANNOT, "GPU %d cannot be used: %s", options->device, backend->error());
    return backend;
}

int main(int argc, char **argv)
{
    struct kernel_options options = kernel_options_parse(argc, argv);
    struct kernel_ceilings ceilings = {0};
    char why[512];
    bool wrong = false;
    int points = 0;
    if (options.list) {
        print_list();
        return BENCH_EXIT_OK;
    }
    const struct bench_backend *backend = open_backend(&options);
    if (!kernel_json_open(&options, why, sizeof why))
        stop(BENCH_EXIT_FAILED, "%s", why);
    stop_on(kernel_ceilings_measure(backend, &options, &ceilings), "measuring the roofline");
    print_ceilings(&ceilings);
    kernel_json_begin(backend, &options, &ceilings);
    for (const struct kernel_row *const *row = kernel_rows; *row; row++)
        if (kernel_is_listed(options.kernels, (*row)->name) &&
            (backend->memory == TR_MEMORY_CUDA ? (*row)->cuda : (*row)->host))
            wrong |= run_row(backend, &options, &ceilings, *row, &points);
    if (points == 0)
        stop(BENCH_EXIT_CANNOT, "no kernel asked for runs on %s memory with these shapes and variants: see --list",
             tr_memory_name(backend->memory));
    if (!kernel_json_finish(why, sizeof why))
        stop(BENCH_EXIT_FAILED, "%s", why);
    backend->close();
    return wrong ? BENCH_EXIT_WRONG : BENCH_EXIT_OK;
}

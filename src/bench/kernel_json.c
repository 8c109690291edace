/* kernel_json.c - kernel_bench's JSON, described in docs/kernels.md. Raise SCHEMA_VERSION when a field changes its
 * meaning. */
#include "bench/kernel_bench.h"
#include "bench/report.h"
#include "bench/report_json.h"
#include "doctor/probe.h"

#include <unistd.h>

enum { SCHEMA_VERSION = 1 };

static struct report_file file;
static json_t *root, *points; /* NULL: no file asked for */

static const char *const state_names[] = {
    [BENCH_MEASURED] = "measured", [BENCH_WRONG_DATA] = "wrong", [BENCH_NOT_SERVED] = "not_served"};

bool kernel_json_open(const struct kernel_options *options, char *why, size_t size)
{
    return !options->json_path || report_file_open(&file, options->json_path, why, size);
}

static json_t *environment(const struct bench_backend *backend, int device)
{
    static struct bench bench = {.info.ranks_on_device = 1}; /* what json_environment() asks of a run */
    struct doctor_gpu gpu;
    bench.backend = backend;
    gethostname(bench.host, sizeof bench.host - 1);
    if (backend->memory == TR_MEMORY_CUDA && doctor_describe_gpu(device, &gpu)) {
        snprintf(bench.info.device_name, sizeof bench.info.device_name, "%s", gpu.name);
        snprintf(bench.info.device_uuid, sizeof bench.info.device_uuid, "%s", gpu.uuid);
    }
    return json_environment(&bench);
}

void kernel_json_begin(const struct bench_backend *backend, const struct kernel_options *options,
                       const struct kernel_ceilings *ceilings)
{
    if (!file.stream)
        return;
    root = json_object();
    points = json_array();
    json_object_set_new(root, "schema", json_string("treering-kernels"));
    json_object_set_new(root, "schema_version", json_integer(SCHEMA_VERSION));
    json_object_set_new(root, "memory", json_string(tr_memory_name(backend->memory)));
    json_object_set_new(root, "environment", environment(backend, options->device));
    json_object_set_new(root, "options",
                        json_pack("{s:i, s:o, s:i}", "rounds", options->rounds, "iterations",
                                  options->iterations ? json_integer(options->iterations) : json_null(), "seed",
                                  (int)options->seed));
    json_object_set_new(root, "ceilings",
                        json_pack("{s:o, s:o, s:o}", "copy_gbps", json_measure_of(ceilings->bytes * 1e-9),
                                  "matmul_tflops", json_measure_of(ceilings->flops * 1e-12), "matmul_by",
                                  json_text_of(ceilings->flops_by)));
    json_object_set(root, "points", points);
}

static json_t *result_of(const struct kernel_point *point, const struct kernel_result *result)
{
    const struct bench_stats *time = &result->time;
    json_t *object = json_pack("{s:s, s:b, s:s}", "contender", result->contender->name, "peer", result->contender->peer,
                               "state", state_names[result->state]);
    if (result->state == BENCH_NOT_SERVED) {
        json_object_set_new(object, "why", json_text_of(result->why));
        return object;
    }
    /* JSON has no infinity and no NaN */
    json_object_set_new(object, "error_over_bound", result->error <= 1e300 ? json_real(result->error) : json_null());
    if (result->state != BENCH_MEASURED)
        return object;
    json_object_set_new(object, "time_us",
                        json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "n", time->n, "median",
                                  time->median * 1e6, "ci95_low", time->ci_low * 1e6, "ci95_high", time->ci_high * 1e6,
                                  "ci_level", time->ci_level, "min", time->min * 1e6, "p5", time->p5 * 1e6, "p95",
                                  time->p95 * 1e6, "p99", time->p99 * 1e6, "max", time->max * 1e6));
    json_object_set_new(object, "iterations", json_integer(result->iterations));
    json_object_set_new(object, "tflops", json_measure_of(point->cost.flops / time->median * 1e-12));
    json_object_set_new(object, "gbps", json_measure_of(point->cost.bytes / time->median * 1e-9));
    json_object_set_new(object, "roofline_share", json_measure_of(point->roof / time->median));
    return object;
}

void kernel_json_point(const struct kernel_point *point)
{
    if (!root)
        return;
    json_t *shape = json_array(), *results = json_array();
    for (int i = 0; i < point->shape.count; i++)
        json_array_append_new(shape, json_integer((json_int_t)point->shape.size[i]));
    for (int i = 0; i < point->ncontenders; i++)
        json_array_append_new(results, result_of(point, &point->results[i]));
    json_array_append_new(points, json_pack("{s:s, s:s, s:o, s:s, s:f, s:f, s:o, s:o}", "kernel", point->row->name,
                                            "dimensions", point->row->dimensions, "shape", shape, "variant",
                                            point->row->variants[point->variant], "flops", point->cost.flops, "bytes",
                                            point->cost.bytes, "roof_us", json_measure_of(point->roof * 1e6), "results",
                                            results));
}

bool kernel_json_finish(char *why, size_t size)
{
    if (!root)
        return true;
    bool good = json_dumpf(root, file.stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    fputc('\n', file.stream);
    json_decref(points);
    json_decref(root);
    root = NULL;
    if (good)
        return report_file_finish(&file, why, size);
    snprintf(why, size, "cannot write %.200s: free space there, or give another path", file.path);
    return false;
}

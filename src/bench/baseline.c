/* baseline.c - this run against an earlier one. */
#include "bench/baseline.h"
#include "bench/backend.h"
#include "bench/environment.h"
#include "bench/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What can be compared ---------------------------------------------------------------------------------------- */

static bool refuse(char *why, size_t size, const char *path, const char *what, const char *theirs, const char *ours)
{
    snprintf(why, size,
             "--baseline %.200s cannot be compared with: its %s is %s, this run's is %s: give a baseline of "
             "the same kind of run",
             path, what, theirs, ours);
    return false;
}

static bool refuse_number(char *why, size_t size, const char *path, const char *what, int theirs, int ours)
{
    char a[16], b[16];
    snprintf(a, sizeof a, "%d", theirs);
    snprintf(b, sizeof b, "%d", ours);
    return refuse(why, size, path, what, a, b);
}

static const char *yes_or_no(bool flag)
{
    return flag ? "yes" : "no";
}

bool baseline_matches(const struct bench *bench, const char *machine, const struct tr_result_file *file, char *why,
                      size_t size)
{
    const struct bench_options *options = &bench->options;
    const struct tr_machine *base = &file->machine;
    enum tr_memory memory = bench->backend->memory;
    int on_device = memory == TR_MEMORY_CUDA ? bench->info.ranks_on_device : 0;
    if (file->collective != bench->collective->collective)
        return refuse(why, size, file->path, "collective", tr_collective_name(file->collective),
                      tr_collective_name(bench->collective->collective));
    if (base->memory != memory)
        return refuse(why, size, file->path, "memory", tr_memory_name(base->memory), tr_memory_name(memory));
    if (strncmp(base->name, machine, sizeof base->name - 1) != 0)
        return refuse(why, size, file->path, memory == TR_MEMORY_CUDA ? "GPU" : "CPU", base->name, machine);
    if (base->nranks != bench->nranks)
        return refuse_number(why, size, file->path, "number of ranks", base->nranks, bench->nranks);
    if (base->ranks_on_device != on_device)
        return refuse_number(why, size, file->path, "number of ranks a GPU", base->ranks_on_device, on_device);
    if (file->in_place != options->in_place)
        return refuse(why, size, file->path, "-I (in place)", yes_or_no(file->in_place), yes_or_no(options->in_place));
    if (file->registered == options->plain)
        return refuse(why, size, file->path, "-B", file->registered ? "registered" : "plain",
                      options->plain ? "plain" : "registered");
    if (file->graph != (options->graph_launches > 0))
        return refuse(why, size, file->path, "-G (CUDA graph)", yes_or_no(file->graph),
                      yes_or_no(options->graph_launches > 0));
    return true;
}

static const char *machine_name(const struct bench *bench)
{
    static struct environment_fact facts[ENVIRONMENT_MAX];
    if (*bench->info.device_name)
        return bench->info.device_name;
    int n = environment_facts(bench, facts);
    for (int i = 0; i < n; i++)
        if (strcmp(facts[i].key, "cpu") == 0)
            return facts[i].text;
    return "";
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

int baseline_compare(const struct bench_stats *now, const struct tr_result *then, double tolerance)
{
    if (now->median > then->median_us * (1 + tolerance) && now->ci_low > then->ci_high_us)
        return 1;
    if (now->median * (1 + tolerance) < then->median_us && now->ci_high < then->ci_low_us)
        return -1;
    return 0;
}

static const struct tr_result *find(const struct bench *bench, size_t bytes, enum tr_datatype datatype, enum tr_op op,
                                    int contender)
{
    const struct tr_result_file *file = bench->baseline->file;
    for (int i = 0; i < file->nresults; i++) {
        const struct tr_result *result = &file->results[i];
        if (result->bytes == bytes && result->datatype == datatype && (!result->has_op || result->op == op) &&
            result->measured && strcmp(result->contender, bench->contenders[contender].name) == 0)
            return result;
    }
    return NULL;
}

static void keep_loss(struct bench *bench, const struct bench_point *point, int contender, const struct tr_result *then)
{
    struct baseline *baseline = bench->baseline;
    size_t bytes = ((size_t)baseline->nlosses + 1) * sizeof *baseline->losses;
    struct baseline_loss *grown = realloc(baseline->losses, bytes);
    if (!grown)
        bench_die(bench, "no memory for %d losses against the baseline", baseline->nlosses + 1);
    baseline->losses = grown;
    const struct bench_stats *now = &point->results[contender].time;
    bool measured = point->results[contender].state == BENCH_MEASURED;
    grown[baseline->nlosses++] = (struct baseline_loss){
        .point = point,
        .contender = contender,
        .us = measured ? now->median : 0,
        .low_us = measured ? now->ci_low : 0,
        .high_us = measured ? now->ci_high : 0,
        .base_us = then->median_us,
        .base_low_us = then->ci_low_us,
        .base_high_us = then->ci_high_us,
    };
}

static void compare_point(struct bench *bench, const struct bench_point *point)
{
    struct baseline *baseline = bench->baseline;
    if (point->shape.count == 0)
        return;
    for (int c = 0; c < bench->ncontenders; c++) {
        const struct tr_result *then = find(bench, point->shape.bytes, point->datatype, point->op, c);
        const struct bench_result *now = &point->results[c];
        if (!then)
            continue;
        baseline->ncompared++;
        int verdict = now->state == BENCH_MEASURED ? baseline_compare(&now->time, then, bench->options.tolerance) : 1;
        if (verdict > 0)
            keep_loss(bench, point, c, then);
        baseline->nfaster += verdict < 0;
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

static enum bench_exit read_file(struct bench *bench, char *why, size_t size)
{
    bench->baseline = calloc(1, sizeof *bench->baseline);
    if (!bench->baseline)
        bench_die(bench, "no memory for the baseline");
    enum tr_status status = tr_result_file_read(bench->options.baseline_path, &bench->baseline->file);
    if (status != TR_OK) {
        snprintf(why, size, "--baseline: %s", tr_last_error());
        return BENCH_EXIT_FAILED;
    }
    return baseline_matches(bench, machine_name(bench), bench->baseline->file, why, size) ? BENCH_EXIT_OK
                                                                                          : BENCH_EXIT_CANNOT;
}

void baseline_open(struct bench *bench)
{
    char why[1024] = "";
    enum bench_exit code = BENCH_EXIT_OK;
    if (bench->rank == 0 && bench->options.baseline_path)
        code = read_file(bench, why, sizeof why);
    bench_agree(bench, code, why);
}

static bool in_common(const struct bench *bench, size_t bytes, enum tr_datatype datatype, enum tr_op op)
{
    for (int c = 0; c < bench->ncontenders; c++)
        if (find(bench, bytes, datatype, op, c))
            return true;
    return false;
}

/* Whether the sweep will come by something that the baseline has. */
static bool sweep_in_common(const struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    size_t size = bench->options.range.first;
    do {
        struct bench_shape shape = bench->collective->shape(size, tr_datatype_size(datatype), bench->nranks, 0);
        if (shape.count && in_common(bench, shape.bytes, datatype, op))
            return true;
    } while (size_next(&bench->options.range, size, &size));
    return false;
}

static bool any_in_common(const struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    for (int datatype = 0; datatype < TR_DATATYPE_COUNT; datatype++)
        for (int op = 0; op < TR_OP_COUNT; op++)
            if (options->datatypes[datatype] && options->ops[op] &&
                sweep_in_common(bench, (enum tr_datatype)datatype, (enum tr_op)op))
                return true;
    return false;
}

/* Rank 0 knows the baseline. Collective. */
static void require_common(struct bench *bench, bool common)
{
    char why[512];
    snprintf(
        why, sizeof why,
        "--baseline %.200s has no size, datatype, operation and contender in common with this run: give the -b, -e, "
        "-f and -A that it was measured with",
        bench->options.baseline_path ? bench->options.baseline_path : "");
    bench_agree(bench, common ? BENCH_EXIT_OK : BENCH_EXIT_CANNOT, why);
}

void baseline_expect(struct bench *bench)
{
    require_common(bench, !bench->baseline || any_in_common(bench));
}

void baseline_finish(struct bench *bench)
{
    for (int p = 0; bench->baseline && p < bench->npoints; p++)
        compare_point(bench, bench->points[p]);
    require_common(bench, !bench->baseline || bench->baseline->ncompared > 0);
}

void baseline_judge(struct bench *bench)
{
    int nlosses = bench->baseline ? bench->baseline->nlosses : 0;
    MPI_Bcast(&nlosses, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (nlosses == 0)
        return;
    char what[160] = "", size[SIZE_TEXT];
    if (bench->baseline) {
        const struct baseline_loss *first = &bench->baseline->losses[0];
        snprintf(what, sizeof what, "%s at %s took %.2f us, in the baseline %.2f us",
                 bench->contenders[first->contender].name, size_format(first->point->shape.bytes, size), first->us,
                 first->base_us);
    }
    bench_stop(bench, BENCH_EXIT_SLOWER, "slower than the baseline at %d %s: %s%s", nlosses,
               nlosses == 1 ? "point" : "points", what,
               nlosses == 1 ? "" : "; the lines \"# slower\" of the table have them all");
}

void baseline_free(struct baseline *baseline)
{
    if (!baseline)
        return;
    tr_result_file_free(baseline->file);
    free(baseline->losses);
    free(baseline);
}

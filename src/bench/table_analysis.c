/* table_analysis.c - what stands below the table's rows: drift, fits, regret, the baseline. */
#include "bench/baseline.h"
#include "bench/fits.h"
#include "bench/regret.h"
#include "bench/report.h"
#include "bench/table.h"
#include "doctor/nvml.h"

#include <stdlib.h>

void table_anchor(struct bench *bench)
{
    const struct bench_anchors *anchors = &bench->anchors;
    const struct bench_anchor *now = &anchors->list[anchors->n - 1], *first = &anchors->list[0];
    const char *reason = doctor_nvml_reason(now->slowed);
    if (reason)
        printf("# ~ since the last look a GPU's clock was held down, now %d MHz: %s\n", now->sm_mhz_min, reason);
    if (!now->moved)
        return;
    printf("# ~ drift: %s", bench->contenders[anchors->contender].name);
    for (int i = 0; i < anchors->nsizes; i++)
        printf("%s of %zu bytes takes %.2f us, at first %.2f", i ? "," : "", anchors->bytes[i], now->time[i].median,
               first->time[i].median);
    printf(": the sizes since the last look were measured meanwhile\n");
}

/* "2.31 [2.20, 2.44]", "inf" where the time does not grow. */
static void print_interval(const char *name, const struct tr_interval *interval, double scale, const char *unit)
{
    char value[16], low[16], high[16];
    table_number(interval->value * scale, value);
    table_number(interval->low * scale, low);
    table_number(interval->high * scale, high);
    printf(", %s %s [%s, %s]%s", name, value, low, high, unit);
}

static void print_fit(const struct bench *bench, int contender, const struct bench_fit *fit)
{
    char from[SIZE_TEXT], to[SIZE_TEXT];
    printf("#   %-16s", bench->contenders[contender].name);
    if (!fit->known) {
        printf(" not fitted: %s\n", fit->why);
        return;
    }
    printf(" off by %.1f%% in the median, %.1f%% at worst\n", 100 * fit->fit.median_residual,
           100 * fit->fit.largest_residual);
    for (int i = 0; i < fit->fit.nsegments; i++) {
        const struct tr_segment *segment = &fit->fit.segments[i];
        printf("#     %s to %s", size_format((size_t)segment->from_bytes, from),
               size_format((size_t)segment->to_bytes, to));
        print_interval("alpha", &segment->alpha_us, 1, " us");
        print_interval("beta", &segment->beta_gbps, 1, " GB/s");
        print_interval("m_1/2", &segment->half_bytes, 1.0 / 1024, " KiB");
        printf("\n");
    }
}

static void print_regret(const struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    char size[SIZE_TEXT];
    struct regret_summary regret = regret_summarize(bench, datatype, op);
    if (regret.npoints)
        printf("# regret of auto: %.1f%% in the median over %d %s, %.1f%% at worst, at %s; beyond what the "
               "intervals leave in doubt: %.1f%% at worst\n",
               100 * regret.median, regret.npoints, regret.npoints == 1 ? "size" : "sizes", 100 * regret.worst,
               size_format(regret.worst_bytes, size), 100 * regret.worst_low);
}

/* True: a fit was printed; else `why` says what is missing. */
static bool print_fits(const struct bench *bench, enum tr_datatype datatype, enum tr_op op, char *why, size_t size)
{
    struct bench_fit fit;
    bool any = false;
    for (int c = 0; c < bench->ncontenders; c++) {
        if (!fits_compute(bench, c, datatype, op, &fit))
            continue;
        if (fit.known && !any)
            printf("#\n# T = alpha + bytes / beta, fitted to %s%s%s; 95%% intervals; m_1/2 = alpha x beta\n",
                   tr_datatype_name(datatype), bench->collective->reduces ? " " : "",
                   bench->collective->reduces ? tr_op_name(op) : "");
        if (fit.known || any)
            print_fit(bench, c, &fit);
        any |= fit.known;
        snprintf(why, size, "%s", fit.why);
        free(fit.points);
    }
    return any;
}

void table_group(struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    char why[256] = "no memory";
    if (!print_fits(bench, datatype, op, why, sizeof why))
        printf("# no fit of T = alpha + bytes / beta: %s\n", why);
    print_regret(bench, datatype, op);
    fflush(stdout);
}

void table_baseline(const struct bench *bench)
{
    const struct baseline *baseline = bench->baseline;
    char size[SIZE_TEXT];
    if (!baseline)
        return;
    printf("# against %s: %d medians compared, %d faster and %d slower by more than %g%%, intervals apart\n",
           bench->options.baseline_path, baseline->ncompared, baseline->nfaster, baseline->nlosses,
           100 * bench->options.tolerance);
    for (int i = 0; i < baseline->nlosses; i++) {
        const struct baseline_loss *loss = &baseline->losses[i];
        printf("# slower: %s at %s of %s%s%s: ", bench->contenders[loss->contender].name,
               size_format(loss->point->shape.bytes, size), tr_datatype_name(loss->point->datatype),
               bench->collective->reduces ? " " : "", bench->collective->reduces ? tr_op_name(loss->point->op) : "");
        if (loss->us > 0)
            printf("%.2f us [%.2f, %.2f], baseline %.2f us [%.2f, %.2f], %+.1f%%\n", loss->us, loss->low_us,
                   loss->high_us, loss->base_us, loss->base_low_us, loss->base_high_us,
                   100 * (loss->us / loss->base_us - 1));
        else
            printf("no right result, baseline %.2f us\n", loss->base_us);
    }
}

/* baseline.h - this run against an earlier one: which contender became slower, at which size. */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include "bench/bench.h"
#include "model/result_file.h"

/* A contender at a size that is slower than it was, or that was measured then and left wrong elements or was not served
 * now (`us` is then 0). */
struct baseline_loss {
    const struct bench_point *point;
    int contender;
    double us, low_us, high_us;                /* the median now and its interval */
    double base_us, base_low_us, base_high_us; /* and then */
};

struct baseline {
    struct tr_result_file *file;
    int ncompared, nfaster;
    struct baseline_loss *losses;
    int nlosses;
};

/* Whether the file is of the same collective, kind of machine, ranks and way of calling; else why not, and what to do.
 * `machine`: the GPU's name, or the CPU's. */
bool baseline_matches(const struct bench *bench, const char *machine, const struct tr_result_file *file, char *why,
                      size_t size);

/* Whether `now` is slower (sign 1) or faster (-1) than `then`: medians apart by more than the tolerance, and intervals that
 * do not meet, so that noise alone is neither. 0: the same. */
int baseline_compare(const struct bench_stats *now, const struct tr_result *then, double tolerance);

/* Read --baseline and refuse what cannot be compared with. Collective. */
void baseline_open(struct bench *bench);

/* Refuse a baseline that has nothing in common with the sweep to come. Collective; after the sizes and contenders are
 * known. */
void baseline_expect(struct bench *bench);

/* Compare all points; on rank 0 it fills in bench->baseline. Collective; ends the run if nothing could be compared. */
void baseline_finish(struct bench *bench);

/* End the run if something is slower; collective, after the reports. */
void baseline_judge(struct bench *bench);

void baseline_free(struct baseline *baseline); /* NULL is allowed */

#endif

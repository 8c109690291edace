/* report_json.h - the parts of the JSON file, described in docs/results.md. */
#ifndef BENCH_REPORT_JSON_H
#define BENCH_REPORT_JSON_H

#include "bench/bench.h"

#include <jansson.h>

/* ---- Values (report_json.c) -------------------------------------------------------------------------------------- */

/* Text from outside need not be UTF-8; what is not becomes null. */
json_t *json_text_of(const char *text);
json_t *json_size_of(size_t bytes);
/* Null where nothing was measured. */
json_t *json_measure_of(double value);
/* Null where it is not finite. */
json_t *json_finite(double value);
/* Where it was measured: facts that are known, and the variables of the allow-list. */
json_t *json_environment(const struct bench *bench);

/* ---- What was measured (report_json_results.c) ------------------------------------------------------------------- */

json_t *json_points(const struct bench *bench);
json_t *json_anchors(const struct bench *bench);
json_t *json_entry(const struct bench *bench, int rank);

/* ---- What follows from it (report_json_analysis.c) --------------------------------------------------------------- */

json_t *json_fits(const struct bench *bench);
json_t *json_regrets(const struct bench *bench);
json_t *json_baseline(const struct bench *bench);

#endif

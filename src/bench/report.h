/*
 * report.h - where results go: the table on standard output, the JSON file and the CSV file. Only rank 0 reports.
 *
 * Files are opened before anything is measured and written under a temporary name beside the one asked for (a link: beside
 * what it leads to), which they take when they are complete. What is no regular file is written straight to.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench/bench.h"

#include <limits.h>
#include <stdio.h>

struct bench_report {
    /* What was asked for can be written: false, with a sentence, otherwise. Before the run. */
    bool (*open)(struct bench *bench, char *why, size_t size);
    void (*begin)(struct bench *bench); /* everything but the points is known */
    bool (*finish)(struct bench *bench, char *why,
                   size_t size);          /* complete it; false, with a sentence, if that fails */
    void (*abandon)(struct bench *bench); /* remove what is not complete; does nothing after finish() */
};

extern const struct bench_report report_table, report_json, report_csv;

/* All of them, on every rank; collective (they end the run when a report cannot be written) but for abandon. */
void reports_open(struct bench *bench);
void reports_begin(struct bench *bench);
void reports_row(struct bench *bench, const struct bench_point *point);
void reports_group(struct bench *bench, enum tr_datatype datatype, enum tr_op op);
void reports_anchor(struct bench *bench);
void reports_finish(struct bench *bench);
void reports_abandon(struct bench *bench);

/* ---- A file that appears complete or not at all ------------------------------------------------------------------ */

struct report_file {
    const char *path;
    char target[PATH_MAX];    /* the path, links resolved; the complete file's name */
    char temporary[PATH_MAX]; /* its name before; "": written straight to `path` */
    FILE *stream;             /* NULL: none asked for, or finished */
};

bool report_file_open(struct report_file *file, const char *path, char *why, size_t size);
bool report_file_finish(struct report_file *file, char *why, size_t size);
void report_file_abandon(struct report_file *file);

/* Remove the temporary files of all that are open. Safe in a signal handler; the process ends next. */
void report_files_remove(void);

/* Also call this when SIGINT or SIGTERM ends the run while a report is open; it must be async-signal-safe. */
void report_also_remove(void (*remove)(void));

#endif

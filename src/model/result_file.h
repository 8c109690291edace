/*
 * result_file.h - reading the JSON that the benches write (schema "treering-bench", docs/results.md), for fitting, for
 * --baseline and for reports. A file that is malformed, truncated or of another schema is refused with its line and field.
 */
#ifndef TR_RESULT_FILE_H
#define TR_RESULT_FILE_H

#include "model/model.h"

/* One contender at one size. */
struct tr_result {
    enum tr_datatype datatype;
    bool has_op; /* false for an all-gather */
    enum tr_op op;
    size_t bytes; /* of the vector */
    char contender[32];
    bool peer; /* NCCL, MPI */
    enum tr_algorithm algorithm;
    enum tr_protocol protocol; /* AUTO for a peer */
    int channels;              /* 0 for a peer */
    bool measured;             /* false: wrong data or not served; the times are then 0 */
    double median_us, ci_low_us, ci_high_us;
};

struct tr_result_file {
    char path[256];
    enum tr_collective collective;
    struct tr_machine machine;
    bool in_place, registered, graph;
    bool fixed_channels;       /* the numbers of channels were asked for, not chosen for each size */
    int cpus;                  /* of the host; 0: not known */
    struct tr_result *results; /* in the file's order */
    int nresults;
};

/* Errors: SYSTEM (cannot be read), ARGUMENT (with file, line and field), MEMORY. */
enum tr_status tr_result_file_read(const char *path, struct tr_result_file **file);
/* The same of text in memory; `path` is for sentences. Errors: ARGUMENT, MEMORY. */
enum tr_status tr_result_file_parse(const char *path, const char *text, size_t length, struct tr_result_file **file);
void tr_result_file_free(struct tr_result_file *file); /* NULL is allowed */

#endif

/* table.h - the parts of the table on standard output. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "bench/bench.h"

/* A point's row, as soon as it is measured. */
void table_row(struct bench *bench, const struct bench_point *point);

/* Fits and regret of a datatype and operation that are done. */
void table_group(struct bench *bench, enum tr_datatype datatype, enum tr_op op);

/* The last anchor, if it moved or a GPU was held down. */
void table_anchor(struct bench *bench);

/* How this run compares with the baseline, if one was given. */
void table_baseline(const struct bench *bench);

/* At least three digits, where a cell has room for them. */
void table_number(double number, char text[static 16]);

#endif

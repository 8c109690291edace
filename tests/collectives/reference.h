/*
 * reference.h - inputs that every rank can compute for every other, and what a collective must make of them, computed
 * without the library and without communication. Element i of rank r's input is a function of (seed, r, i).
 *
 * VALUES_EXACT    Floats are integers (for products: plus or minus 0, 1/2, 1, 2) so small that every partial result, in
 *                 any order, is a number of the datatype; integers have all bits, so that sums and products wrap. The
 *                 result must be equal bit by bit.
 * VALUES_REAL     Fractions that fill the mantissa. Whatever the order of n ranks, a result is rounded at most k times to
 *                 the datatype, k = n - 1 (averages: n), so |result - reference| <= ((1 + u)^k - 1) sum |x| (products:
 *                 |product|, averages: over n), u half the distance from 1 to the next number; and k v sum |x| more
 *                 for the f32 in which f16 and bf16 are added up, and for the double of the reference. Minima and
 *                 maxima must be equal bit by bit.
 * VALUES_SPECIAL  NaN, infinities, zeros of both signs, the largest and the smallest numbers. A NaN may be any NaN, and
 *                 the minimum and maximum of zeros of both signs either zero; all else must be equal bit by bit.
 */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include "treering.h"

#include <stdbool.h>
#include <stdint.h>

enum values { VALUES_EXACT, VALUES_REAL, VALUES_SPECIAL };

/* VALUES_SPECIAL repeats after so many elements, each time with the special value on another rank. */
enum { SPECIAL_PATTERNS = 11 };

struct data {
    enum tr_datatype datatype;
    enum tr_op op;
    enum values values;
    int nranks;
    uint64_t seed;
};

/* What elements first, first + 1, ... must be. Bit by bit `bits`, or, where bound is not NULL, within bound[i] of
 * value[i]. */
struct expectation {
    size_t first;
    void *bits;
    double *value, *bound;
};

bool reference_is_float(enum tr_datatype datatype);
const char *reference_values_name(enum values values);

/* Elements first .. first + count of rank's input. */
void reference_fill(const struct data *data, int rank, size_t first, size_t count, void *to);

/* What the reduction of elements first .. first + count must give. `to` has room for count elements, and for
 * VALUES_REAL value and bound too; where the result must be equal bit by bit, value and bound become NULL. */
void reference_reduce(const struct data *data, size_t first, size_t count, struct expectation *to);

/* The first of `count` elements of a reduction's result that is not what it must be; `count`: none. */
size_t reference_compare(const struct data *data, const struct expectation *expected, const void *result, size_t count);

/* An element for a message: its value and its bits. */
void reference_print(enum tr_datatype datatype, const void *elements, size_t i, char *text, size_t bytes);

/* A hash of bytes, to compare results over ranks. */
uint64_t reference_hash(const void *bytes, size_t count);

#endif

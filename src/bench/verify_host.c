/* verify_host.c - filling and verifying buffers in host memory, in blocks that stay in the first-level cache. */
#include "bench/verify_host.h"

enum { BLOCK = 512 }; /* elements */

static size_t block_at(size_t done, size_t count)
{
    return count - done < BLOCK ? count - done : BLOCK;
}

/* Inputs first .. first + count of `rank` as doubles. A loop for each kind of values, so that each is vectorised. */
static void make_floats(const struct pattern *p, int rank, size_t first, size_t count, double *values)
{
    uint32_t seed = pattern_seed(p, rank);
    if (p->values == PATTERN_SMALL)
        for (size_t i = 0; i < count; i++)
            values[i] = pattern_float(p, PATTERN_SMALL, pattern_hash(seed, first + i), rank);
    else if (p->values == PATTERN_FRACTION)
        for (size_t i = 0; i < count; i++)
            values[i] = pattern_float(p, PATTERN_FRACTION, pattern_hash(seed, first + i), rank);
    else
        for (size_t i = 0; i < count; i++)
            values[i] = pattern_float(p, p->values, pattern_hash(seed, first + i), rank);
}

static void make_integers(const struct pattern *p, int rank, size_t first, size_t count, int64_t *values)
{
    uint32_t seed = pattern_seed(p, rank);
    for (size_t i = 0; i < count; i++)
        values[i] = pattern_integer(p, pattern_hash(seed, first + i));
}

void verify_host_fill(const struct pattern *pattern, int rank, void *data, size_t count)
{
    double reals[BLOCK];
    int64_t integers[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t length = block_at(done, count);
        if (pattern_is_float(pattern->type)) {
            make_floats(pattern, rank, done, length, reals);
            for (size_t i = 0; i < length; i++)
                pattern_store_float(pattern->type, data, done + i, reals[i]);
        } else {
            make_integers(pattern, rank, done, length, integers);
            for (size_t i = 0; i < length; i++)
                pattern_store_integer(pattern->type, data, done + i, integers[i]);
        }
    }
}

/* Reduce inputs first .. first + count over all ranks. */
static void reduce_floats(const struct pattern *p, size_t first, size_t count, double *reference, double *magnitude)
{
    double values[BLOCK];
    make_floats(p, 0, first, count, reference);
    for (size_t i = 0; i < count; i++)
        magnitude[i] = fabs(reference[i]);
    for (int rank = 1; rank < p->nranks; rank++) {
        make_floats(p, rank, first, count, values);
        for (size_t i = 0; i < count; i++)
            magnitude[i] += fabs(values[i]);
        if (p->op == PATTERN_SUM)
            for (size_t i = 0; i < count; i++)
                reference[i] += values[i];
        else
            for (size_t i = 0; i < count; i++)
                reference[i] = pattern_combine_float(p->op, reference[i], values[i]);
    }
}

static void reduce_integers(const struct pattern *p, size_t first, size_t count, int64_t *reference)
{
    int64_t values[BLOCK];
    make_integers(p, 0, first, count, reference);
    for (int rank = 1; rank < p->nranks; rank++) {
        make_integers(p, rank, first, count, values);
        for (size_t i = 0; i < count; i++)
            reference[i] = pattern_combine_integer(p->op, reference[i], values[i]);
    }
}

static size_t count_wrong_floats(const struct pattern *p, const void *data, size_t at, size_t first, int rank,
                                 size_t count)
{
    double reference[BLOCK], magnitude[BLOCK] = {0};
    if (p->reduced)
        reduce_floats(p, first, count, reference, magnitude);
    else
        make_floats(p, rank, first, count, reference);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += pattern_differs_float(p, pattern_load_float(p->type, data, at + i), reference[i], magnitude[i]);
    return wrong;
}

static size_t count_wrong_integers(const struct pattern *p, const void *data, size_t at, size_t first, int rank,
                                   size_t count)
{
    int64_t reference[BLOCK];
    if (p->reduced)
        reduce_integers(p, first, count, reference);
    else
        make_integers(p, rank, first, count, reference);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += pattern_differs_integer(p, pattern_load_integer(p->type, data, at + i), reference[i]);
    return wrong;
}

/* Outputs at .. at + count, whose inputs start at `first` (of `rank`, where nothing is reduced). */
static size_t count_wrong_run(const struct pattern *p, const void *data, size_t at, size_t first, int rank,
                              size_t count)
{
    size_t wrong = 0;
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t length = block_at(done, count);
        wrong += pattern_is_float(p->type) ? count_wrong_floats(p, data, at + done, first + done, rank, length)
                                           : count_wrong_integers(p, data, at + done, first + done, rank, length);
    }
    return wrong;
}

size_t verify_host_count_wrong(const struct pattern *pattern, const void *data, size_t count)
{
    if (pattern->reduced)
        return count_wrong_run(pattern, data, 0, pattern->first, 0, count);
    size_t wrong = 0;
    for (int rank = 0; rank < pattern->nranks; rank++)
        wrong += count_wrong_run(pattern, data, (size_t)rank * pattern->segment, 0, rank, pattern->segment);
    return wrong;
}

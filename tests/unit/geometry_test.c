/*
 * geometry_test.c - every cut covers the vector exactly once, within the slots, at aligned places: for a grid of programs,
 * sizes, channels and capacities.
 */
#include "collectives/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 1023, 4099, 65536, 1048579, ((size_t)1 << 31) + 5};
static const size_t element_sizes[] = {1, 2, 4, 8};
static const uint32_t channel_counts[] = {1, 2, 5, 32};
static const size_t capacities[] = {16, 48, 128, 2032, 65536};
static const int rank_counts[] = {1, 2, 3, 8};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

struct shape {
    enum tr_collective collective;
    int nranks;
    size_t count, element_bytes;
    struct tr_program program;
    uint32_t channels;
    size_t capacity;
};

static bool has_chunk_per_rank(enum tr_collective collective)
{
    return collective == TR_REDUCE_SCATTER || collective == TR_ALLGATHER;
}

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition))                                                                                      \
            fail_msg("%s: %s, %d ranks, %zu x %zu bytes, %u chunks, %u slots, depth %u, lag %u, %u channels, " \
                     "capacity %zu: total %zu stride %zu tile %zu pieces %u",                                  \
                     #condition, tr_collective_name(s->collective), s->nranks, s->count, s->element_bytes,     \
                     s->program.nchunks, s->program.nslots, s->program.depth, s->program.max_lag, s->channels, \
                     s->capacity, g.total, g.stride, g.tile, g.npieces);                                       \
    } while (0)

/* What all tiles of a chunk hold. */
static size_t tiles_length(const struct tr_geometry *g, size_t chunk)
{
    size_t sum = 0;
    for (size_t p = 0; p < g->npieces; p++)
        for (size_t b = 0; b < g->channels; b++)
            sum += tr_tile_length(g, chunk, p, b);
    return sum;
}

static size_t chunk_length(const struct tr_geometry *g, size_t chunk)
{
    size_t start = chunk * g->stride;
    if (start >= g->total)
        return 0;
    return g->total - start < g->stride ? g->total - start : g->stride;
}

static void check_cut(const struct shape *s, struct tr_geometry g, bool whole)
{
    size_t nchunks = has_chunk_per_rank(s->collective) ? (size_t)s->nranks : s->program.nchunks;
    CHECK(g.channels == s->channels);
    CHECK(g.npieces >= 1);
    CHECK(g.total == (has_chunk_per_rank(s->collective) ? (size_t)s->nranks * s->count : s->count));
    CHECK(nchunks * g.stride >= g.total);
    CHECK(!has_chunk_per_rank(s->collective) || g.stride == s->count);
    CHECK(has_chunk_per_rank(s->collective) || nchunks == 1 || g.stride * s->element_bytes % 128 == 0);
    CHECK(g.tile * s->element_bytes % 16 == 0);
    CHECK(whole || s->capacity < 128 || g.tile * s->element_bytes % 128 == 0);
    CHECK(!whole || g.npieces == 1);
    CHECK(whole || !s->program.nslots || g.tile * s->element_bytes <= s->capacity || g.tile >= g.stride);
    size_t sum = 0;
    for (size_t c = 0; c < nchunks; c++) {
        sum += chunk_length(&g, c);
        CHECK((size_t)g.npieces * g.channels * g.tile >= chunk_length(&g, c));
        if (g.npieces <= 4096)
            CHECK(tiles_length(&g, c) == chunk_length(&g, c));
    }
    CHECK(sum == g.total);
}

static void check_last_piece(const struct shape *s, struct tr_geometry g)
{
    size_t longest = 0;
    for (size_t b = 0; b < g.channels; b++)
        longest += tr_tile_length(&g, 0, g.npieces - 1, b);
    CHECK(s->count == 0 || longest > 0); /* no piece is empty everywhere */
}

static void check_shape(const struct shape *s)
{
    struct tr_geometry cut =
        tr_geometry_cut(s->collective, s->nranks, s->count, s->element_bytes, &s->program, s->channels, s->capacity);
    check_cut(s, cut, false);
    check_last_piece(s, cut);
    check_cut(s, tr_geometry_whole(s->collective, s->nranks, s->count, s->element_bytes, &s->program, s->channels),
              true);
}

static void check_sizes(struct shape s)
{
    for (size_t i = 0; i < LENGTH(counts); i++)
        for (size_t e = 0; e < LENGTH(element_sizes); e++)
            for (size_t b = 0; b < LENGTH(channel_counts); b++)
                for (size_t c = 0; c < LENGTH(capacities); c++) {
                    s.count = counts[i];
                    s.element_bytes = element_sizes[e];
                    s.channels = channel_counts[b];
                    s.capacity = capacities[c];
                    check_shape(&s);
                }
}

static void check_programs(enum tr_collective collective, int nranks)
{
    for (int chunked = 0; chunked < 2; chunked++)
        for (uint16_t slots = 0; slots < 2; slots++)
            for (uint8_t depth = 1; depth <= 2; depth++)
                for (uint16_t lag = 0; lag <= 6; lag += 6) {
                    bool many = chunked || has_chunk_per_rank(collective);
                    struct shape s = {.collective = collective, .nranks = nranks};
                    s.program = (struct tr_program){.nchunks = (uint16_t)(many ? nranks : 1),
                                                    .nslots = slots,
                                                    .depth = depth,
                                                    .max_lag = lag,
                                                    .nranks = (uint8_t)nranks};
                    check_sizes(s);
                }
}

static void test_collective(void **state)
{
    enum tr_collective collective = *(const enum tr_collective *)*state;
    for (size_t n = 0; n < LENGTH(rank_counts); n++)
        check_programs(collective, rank_counts[n]);
}

/* Everything fits: one piece, equal shares of the channels. */
static void test_one_piece(void **state)
{
    (void)state;
    struct tr_program program = {.nchunks = 1, .nslots = 1, .depth = 1, .nranks = 2};
    struct tr_geometry g = tr_geometry_cut(TR_ALLREDUCE, 2, 1024, 4, &program, 4, 4096);
    assert_int_equal(g.npieces, 1);
    assert_int_equal(g.tile, 256);
}

/* One tile's slot less than the vector: two pieces, nearly alike. */
static void test_two_pieces(void **state)
{
    (void)state;
    struct tr_program program = {.nchunks = 1, .nslots = 1, .depth = 1, .nranks = 2};
    struct tr_geometry g = tr_geometry_cut(TR_ALLREDUCE, 2, 1056, 4, &program, 1, 4096);
    assert_int_equal(g.npieces, 2);
    assert_int_equal(g.tile, 544); /* 528 up to a line */
}

/* A program without slots needs no pieces, however long the vector. */
static void test_remote_is_one_piece(void **state)
{
    (void)state;
    struct tr_program program = {.nchunks = 2, .depth = 1, .remote = 1, .nranks = 2};
    assert_int_equal(tr_geometry_cut(TR_ALLREDUCE, 2, (size_t)1 << 32, 4, &program, 8, 0).npieces, 1);
}

/* A pipeline takes more pieces than its slots demand, more of them the longer the vector, and none while it is short. */
static void test_pipeline(void **state)
{
    (void)state;
    struct tr_program program = {.nchunks = 1, .nslots = 1, .depth = 2, .max_lag = 6, .nranks = 8};
    uint32_t before = 1;
    assert_int_equal(tr_geometry_cut(TR_ALLREDUCE, 8, 2048, 4, &program, 1, 1 << 20).npieces, 1);
    for (size_t count = 16384; count <= (size_t)1 << 24; count *= 4) {
        struct tr_geometry g = tr_geometry_cut(TR_ALLREDUCE, 8, count, 4, &program, 1, 1 << 20);
        assert_true(g.npieces > before);
        assert_true(g.tile * 4 >= 8192 && g.tile * 4 <= 1 << 20);
        before = g.npieces;
    }
}

int main(void)
{
    static enum tr_collective collectives[TR_COLLECTIVE_COUNT];
    struct CMUnitTest tests[TR_COLLECTIVE_COUNT + 4];
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++) {
        collectives[c] = (enum tr_collective)c;
        tests[c] =
            (struct CMUnitTest){tr_collective_name(collectives[c]), test_collective, NULL, NULL, &collectives[c]};
    }
    tests[TR_COLLECTIVE_COUNT] = (struct CMUnitTest)cmocka_unit_test(test_one_piece);
    tests[TR_COLLECTIVE_COUNT + 1] = (struct CMUnitTest)cmocka_unit_test(test_two_pieces);
    tests[TR_COLLECTIVE_COUNT + 2] = (struct CMUnitTest)cmocka_unit_test(test_remote_is_one_piece);
    tests[TR_COLLECTIVE_COUNT + 3] = (struct CMUnitTest)cmocka_unit_test(test_pipeline);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * geometry.c - cutting a vector into chunks, pieces and tiles (comm.h defines them). Pure arithmetic.
 *
 * Tiles and, where the collective leaves the choice, chunks start at multiples of 128 bytes from the vector's start, so
 * that full lines move; what capacity forces to be smaller still starts at multiples of 16 bytes.
 */
#include "collectives/comm.h"

enum {
    LINE_BYTES = 128, /* a cache line pair on the CPU, a full NVLink and LL128 line on the GPU */
    PACK_BYTES = 16   /* the widest access of one thread */
};

/* Where latency and transfer of a message take about equally long (m_1/2). A pipeline of L hops that moves S bytes is
 * fastest with tiles of sqrt(S * m_1/2 / L) bytes, from T = (S / tile + L) * (alpha + beta * tile); no tile is smaller. */
static const size_t HALF_BANDWIDTH_BYTES = 8192;

static size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static size_t round_up(size_t value, size_t multiple)
{
    return ceil_div(value, multiple) * multiple;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool has_chunk_per_rank(enum tr_collective collective)
{
    return collective == TR_REDUCE_SCATTER || collective == TR_ALLGATHER;
}

/* Elements of the longest chunk: the stride is rounded up and may reach past a short vector's end. */
static size_t longest_chunk(const struct tr_geometry *g)
{
    return min_size(g->stride, g->total);
}

/* Elements that `bytes` hold; at least one. */
static size_t elements(size_t bytes, size_t element_bytes)
{
    return bytes > element_bytes ? bytes / element_bytes : 1;
}

struct tr_layout tr_schedule_layout(const struct tr_schedule *schedule)
{
    return (struct tr_layout){.nranks = (size_t)schedule->spec.nranks,
                              .nchunks = (size_t)schedule->nchunks,
                              .nslots = (size_t)schedule->nslots,
                              .depth = (size_t)schedule->depth,
                              .max_lag = (size_t)schedule->max_lag};
}

static struct tr_layout program_layout(const struct tr_program *program, int nranks)
{
    return (struct tr_layout){.nranks = (size_t)nranks,
                              .nchunks = program->nchunks,
                              .nslots = program->nslots,
                              .depth = program->depth,
                              .max_lag = program->max_lag};
}

struct tr_geometry tr_layout_whole(const struct tr_layout *layout, enum tr_collective collective, size_t count,
                                   size_t element_bytes, uint32_t channels)
{
    struct tr_geometry g = {.channels = channels, .npieces = 1};
    size_t line = elements(LINE_BYTES, element_bytes);
    if (has_chunk_per_rank(collective)) {
        g.total = layout->nranks * count;
        g.stride = count;
    } else {
        g.total = count;
        g.stride = layout->nchunks > 1 ? round_up(ceil_div(count, layout->nchunks), line) : count;
    }
    g.tile = round_up(ceil_div(longest_chunk(&g), channels), line);
    return g;
}

/* Messages that follow each other along the longest path of a piece; 0: pieces gain nothing from each other. */
static size_t pipeline_hops(const struct tr_layout *layout)
{
    if (layout->max_lag > 0)
        return layout->max_lag;
    return layout->depth > 1 && layout->nranks > 1 ? layout->nranks - 1 : 0;
}

/* The pipeline's best tile in bytes, to the next power of two, for a channel's share of `bytes`. */
static size_t pipeline_tile(size_t bytes, size_t hops)
{
    size_t tile = HALF_BANDWIDTH_BYTES;
    while (tile < bytes / hops * HALF_BANDWIDTH_BYTES / tile)
        tile *= 2;
    return tile;
}

struct tr_geometry tr_layout_cut(const struct tr_layout *layout, enum tr_collective collective, size_t count,
                                 size_t element_bytes, uint32_t channels, size_t capacity)
{
    struct tr_geometry g = tr_layout_whole(layout, collective, count, element_bytes, channels);
    size_t most = g.tile * element_bytes; /* bytes of the largest tile allowed */
    if (layout->nslots > 0)
        most = min_size(most, capacity);
    size_t hops = pipeline_hops(layout);
    if (hops > 0 && most > HALF_BANDWIDTH_BYTES)
        most = min_size(most, pipeline_tile(g.tile * element_bytes, hops));
    if (most == g.tile * element_bytes)
        return g;

    size_t align = most >= LINE_BYTES ? LINE_BYTES : PACK_BYTES;
    size_t largest = elements(most / align * align, element_bytes) * channels; /* elements of a piece of a chunk */
    size_t longest = longest_chunk(&g);
    size_t piece = ceil_div(longest, ceil_div(longest, largest)); /* all pieces nearly alike */
    g.tile = round_up(ceil_div(piece, channels), elements(align, element_bytes));
    g.npieces = (uint32_t)ceil_div(longest, g.tile * channels);
    return g;
}

struct tr_geometry tr_geometry_whole(enum tr_collective collective, int nranks, size_t count, size_t element_bytes,
                                     const struct tr_program *program, uint32_t channels)
{
    struct tr_layout layout = program_layout(program, nranks);
    return tr_layout_whole(&layout, collective, count, element_bytes, channels);
}

struct tr_geometry tr_geometry_cut(enum tr_collective collective, int nranks, size_t count, size_t element_bytes,
                                   const struct tr_program *program, uint32_t channels, size_t capacity)
{
    struct tr_layout layout = program_layout(program, nranks);
    return tr_layout_cut(&layout, collective, count, element_bytes, channels, capacity);
}

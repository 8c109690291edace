/* anchor.c - two fixed calls, measured again and again. */
#include "bench/anchor.h"
#include "bench/buffers.h"
#include "bench/fail.h"
#include "bench/stats.h"
#include "bench/timing.h"
#include "doctor/nvml.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCHES = 7,      /* the interval of the median is then all of them, with a probability of 0.984 */
    MEDIUM = 1 << 20, /* bytes of the longer call */
    APART = 16,       /* it is this many times as long as the short one, or left out */
    COST_SHARE = 10
};
static const double batch_s = 1e-3, oversubscribed_batch_s = 5e-3;
static const double apart_s = 2; /* between two measurements at least, and ten times what one takes */

static struct bench_shape shape_of(const struct bench *bench, size_t bytes)
{
    return bench->collective->shape(bytes, sizeof(float), bench->nranks, bench->rank);
}

/* The least power of two from 8 B on that gives every rank an element. */
static size_t least_bytes(const struct bench *bench)
{
    size_t bytes = 8;
    while (shape_of(bench, bytes).count == 0)
        bytes *= 2;
    return bytes;
}

/* ---- One call ---------------------------------------------------------------------------------------------------- */

static void fill(struct bench *bench, const struct bench_shape *shape)
{
    struct pattern pattern;
    pattern_init(&pattern, TR_F32, TR_SUM, bench->collective->reduces, bench->nranks, 0, false);
    pattern.first = shape->first;
    pattern.segment = shape->count;
    buffers_fill(bench, shape, TR_F32, &pattern);
}

/* The slowest rank's seconds a call. */
static double over_ranks(double seconds)
{
    double most;
    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void plan(struct bench *bench, const struct timing_call *call, int *iterations)
{
    double seconds = INFINITY;
    for (int i = 0; i < 3; i++) {
        double start = MPI_Wtime();
        bench_agree_status(bench, timing_call_once(bench, call), "calling the anchor");
        seconds = fmin(seconds, over_ranks(MPI_Wtime() - start));
    }
    *iterations = timing_fit(bench, bench->oversubscribed ? oversubscribed_batch_s : batch_s, seconds);
}

static struct bench_stats measure(struct bench *bench, int which)
{
    struct bench_anchors *anchors = &bench->anchors;
    struct bench_shape shape = shape_of(bench, anchors->bytes[which]);
    struct timing_call call = {&bench->contenders[anchors->contender], &shape, TR_F32, TR_SUM};
    struct timing_sample sample;
    double samples[BATCHES];
    watchdog_arm(bench, 0, "measuring the anchor");
    fill(bench, &shape);
    if (!anchors->iterations[which])
        plan(bench, &call, &anchors->iterations[which]);
    for (int i = 0; i < BATCHES; i++) {
        enum tr_status status = timing_batch(bench, &call, anchors->iterations[which], NULL, &sample);
        bench_agree_status(bench, status, "measuring the anchor");
        samples[i] = 1e6 * over_ranks(sample.seconds);
    }
    return stats_of(samples, BATCHES);
}

/* ---- The GPUs meanwhile ------------------------------------------------------------------------------------------ */

/* Whether this rank is the lowest on its GPU. */
static bool leads_on_gpu(const struct bench *bench)
{
    for (int r = 0; r < bench->rank; r++)
        if (strcmp(bench->infos[r].device_uuid, bench->info.device_uuid) == 0)
            return false;
    return *bench->info.device_uuid != '\0';
}

static void look_at_gpus(const struct bench *bench, struct bench_anchor *anchor)
{
    struct doctor_card card = {0};
    if (leads_on_gpu(bench))
        doctor_nvml_look_at_clocks(bench->info.device_uuid, &card);
    int mine[3] = {-(card.sm_mhz ? card.sm_mhz : INT_MAX), card.sm_mhz, card.celsius}, most[3];
    MPI_Allreduce(mine, most, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&card.slowed, &anchor->slowed, 1, MPI_UNSIGNED_LONG_LONG, MPI_BOR, MPI_COMM_WORLD);
    anchor->sm_mhz_min = -most[0] == INT_MAX ? 0 : -most[0];
    anchor->sm_mhz_max = most[1];
    anchor->celsius_max = most[2];
}

/* ---- Drift ------------------------------------------------------------------------------------------------------- */

/* Intervals that do not meet: the change is more than the spread of both explains. */
static bool apart(const struct bench_stats *a, const struct bench_stats *b)
{
    return a->ci_low > b->ci_high || b->ci_low > a->ci_high;
}

static void compare(const struct bench *bench, struct bench_anchor *anchor)
{
    const struct bench_anchor *first = &bench->anchors.list[0];
    for (int i = 0; i < bench->anchors.nsizes; i++) {
        double change = fabs(anchor->time[i].median / first->time[i].median - 1);
        anchor->drift = fmax(anchor->drift, change);
        anchor->moved |= change > bench->options.drift_share && apart(&anchor->time[i], &first->time[i]);
    }
}

struct bench_drift bench_drift_of(const struct bench *bench, const struct bench_point *point)
{
    struct bench_drift drift = {0};
    for (int i = point->anchor; i <= point->anchor + 1; i++) {
        if (i < 0 || i >= bench->anchors.n)
            continue;
        drift.share = fmax(drift.share, bench->anchors.list[i].drift);
        drift.moved |= bench->anchors.list[i].moved;
        drift.slowed |= bench->anchors.list[i].slowed;
    }
    return drift;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static bool is_due(const struct bench *bench, bool now)
{
    const struct bench_anchors *anchors = &bench->anchors;
    double since = MPI_Wtime() - bench->began - (anchors->n ? anchors->list[anchors->n - 1].at_s : -INFINITY);
    int due = now || since > fmax(apart_s, COST_SHARE * anchors->cost_s);
    MPI_Bcast(&due, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return due;
}

static struct bench_anchor *add(struct bench *bench)
{
    struct bench_anchors *anchors = &bench->anchors;
    size_t bytes = ((size_t)anchors->n + 1) * sizeof *anchors->list;
    struct bench_anchor *grown = realloc(anchors->list, bytes);
    if (!grown)
        bench_die(bench, "no memory for %d anchors", anchors->n + 1);
    anchors->list = grown;
    grown[anchors->n] = (struct bench_anchor){.at_s = MPI_Wtime() - bench->began};
    return &grown[anchors->n++];
}

bool anchors_measure(struct bench *bench, bool now)
{
    struct bench_anchors *anchors = &bench->anchors;
    if (anchors->nsizes == 0 || !is_due(bench, now))
        return false;
    struct bench_anchor *anchor = add(bench);
    for (int i = 0; i < anchors->nsizes; i++)
        anchor->time[i] = measure(bench, i);
    anchors->cost_s = MPI_Wtime() - bench->began - anchor->at_s;
    look_at_gpus(bench, anchor);
    compare(bench, anchor);
    return true;
}

/* Whether the contender serves a size on every rank: a protocol may carry short vectors alone. Collective. */
static bool serves(struct bench *bench, size_t bytes)
{
    struct bench_shape shape = shape_of(bench, bytes);
    struct timing_call call = {&bench->contenders[bench->anchors.contender], &shape, TR_F32, TR_SUM};
    watchdog_arm(bench, 0, "choosing the anchor");
    fill(bench, &shape);
    enum tr_status status = timing_call_once(bench, &call);
    int refused = status == TR_ERR_UNSUPPORTED, any;
    bench_agree_status(bench, refused ? TR_OK : status, "choosing the anchor");
    MPI_Allreduce(&refused, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return !any;
}

void anchors_open(struct bench *bench)
{
    struct bench_anchors *anchors = &bench->anchors;
    size_t last = bench->options.range.last;
    if (last == 0)
        return;
    size_t bytes[BENCH_ANCHORS] = {least_bytes(bench), shape_of(bench, last < MEDIUM ? last : MEDIUM).bytes};
    for (int i = 0; i < BENCH_ANCHORS; i++)
        if ((i == 0 || bytes[i] >= APART * bytes[0]) && serves(bench, bytes[i]))
            anchors->bytes[anchors->nsizes++] = bytes[i];
    for (int i = 0; i < anchors->nsizes; i++)
        measure(bench, i); /* what a cold machine takes is no measure */
}

void anchors_note(struct bench *bench)
{
    int drifted = 0;
    unsigned long long slowed = 0;
    for (int p = 0; p < bench->npoints; p++) {
        struct bench_drift drift = bench_drift_of(bench, bench->points[p]);
        drifted += drift.moved;
        slowed |= drift.slowed;
    }
    if (drifted)
        bench_note(bench,
                   "%d of %d %s measured while the machine drifted: a fixed call took more than %g%% longer or "
                   "shorter than at first",
                   drifted, bench->npoints, bench->npoints == 1 ? "size was" : "sizes were",
                   100 * bench->options.drift_share);
    if (doctor_nvml_reason(slowed))
        bench_note(bench, "a GPU's clock was held down in this run: %s", doctor_nvml_reason(slowed));
}

void anchors_close(struct bench *bench)
{
    free(bench->anchors.list);
}

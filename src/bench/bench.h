/*
 * bench.h - what one collective's benchmark states (struct bench_collective), and what its driver keeps while it runs.
 *
 * A bench's main() hands its description to bench_main(). The driver's parts, one file each: options, match, launcher, limits,
 * contender, buffers, backend_host and backend_cuda (memory kinds), pattern (test data), timing (one batch), point (one
 * size), stats, random (the order of the contenders), anchor (a fixed call, against drift), entry (who comes late), fits
 * (alpha and beta), regret (of auto), baseline, card (measures of the GPU itself), table, report_json, report_csv,
 * environment, progress, fail (how a run ends).
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "bench/options.h"
#include "bench/random.h"
#include "treering.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a vector of some size is laid out for a collective, on one rank. All in elements but for `bytes`. */
struct bench_shape {
    size_t bytes;      /* of the whole vector, what algbw counts: the size requested, cut to whole elements */
    size_t count;      /* the call's count argument */
    size_t send, recv; /* elements in the send and the receive buffer */
    size_t send_in_place, recv_in_place; /* where they start in the one buffer of an in-place call */
    size_t first; /* index, in the whole vector, of the receive buffer's first element (reductions) */
};

/* One benchmark. */
struct bench_collective {
    enum tr_collective collective;
    const char *program;      /* "allreduce_bench" */
    const char *summary;      /* one sentence for --help */
    const char *size_text;    /* what "size" is, for the table's header */
    const char *busbw_text;   /* the factor from algbw to busbw, for people */
    const char *traffic_text; /* the bytes that all ranks together must read and write, for people */
    bool reduces;             /* takes an operation; otherwise the output is every rank's input, in rank order */
    bool in_place_consumes;   /* an in-place call changes its own input, so a second call computes something else */
    double (*busbw_factor)(int nranks);
    double (*traffic_factor)(int nranks); /* times the size: bytes that all ranks together must read and write */
    struct bench_shape (*shape)(size_t bytes, size_t element_bytes, int nranks, int rank);
    enum tr_status (*call)(const void *send, void *recv, size_t count, enum tr_datatype datatype, enum tr_op op,
                           struct tr_comm *comm, void *stream);
};

extern const struct bench_collective bench_allreduce, bench_reduce_scatter, bench_allgather;

/* Run a benchmark: parse, validate, measure, report. Returns the process's exit code (enum bench_exit). */
int bench_main(const struct bench_collective *collective, int argc, char **argv);

/* Where a contender's buffers come from. */
enum bench_memory {
    BENCH_OWN,    /* tr_mem_alloc(), or plain memory under -B plain: our algorithms, MPI */
    BENCH_PLAIN,  /* malloc(), cudaMalloc(): NCCL */
    BENCH_WINDOW, /* tr_mem_alloc_nccl(): NCCL with symmetric windows */
    BENCH_MEMORY_COUNT
};

/* In place, calls that are not to be checked run in `send`, checked ones in `recv`; both then hold a whole vector. */
struct bench_buffers {
    void *send, *recv;
    bool used;
};

struct bench_contender {
    char name[32]; /* "ring", "ring/LL", "ring/direct/x16" */
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    int channels; /* 0: chosen by size */
    bool peer;    /* another library, to compare with */
    enum bench_memory memory;
};

/* Statistics over samples; a sample is the maximum over ranks of a batch's time, over its calls. Microseconds. */
struct bench_stats {
    int n;
    double median, min, max, p5, p95, p99;
    double ci_low, ci_high; /* interval of the median, by order statistics (stats.h) */
    double ci_level;        /* the probability with which it holds the median: 0.95 and more from n = 6 on */
};

enum bench_state { BENCH_MEASURED, BENCH_WRONG_DATA, BENCH_NOT_SERVED };

struct bench_result {
    enum bench_state state;
    struct bench_stats time;
    double share;             /* half the interval's width over the median; INFINITY: too few samples for 95% */
    bool converged;           /* the share is at most --ci */
    double skew_us;           /* median over rounds of the slowest rank's time less the fastest's, per iteration */
    struct bench_stats entry; /* by batch: how long after the first rank the last one enters; n = 0: no common clock */
    int iterations;           /* calls in a batch, or in the graph that it replays */
    int verified;             /* timed iterations whose output was compared on every rank */
    double wrong;             /* elements, over all ranks and verified iterations; exact below 2^53 */
    struct tr_tuning resolved;
    char *why; /* BENCH_NOT_SERVED: the library's sentence */
};

/* What choosing `auto` costs at a point (regret.h). */
struct bench_regret {
    bool known;
    int best;  /* the best contender of ours besides auto and those that ran the same */
    bool same; /* auto ran what the best of ours ran */
    double auto_us, best_us;
    double value, low; /* T(auto) / T(best) - 1, at least 0; what of it the intervals leave no doubt of */
};

enum { BENCH_ANCHORS = 2 }; /* fixed calls: a short one and a longer one */

/* The fixed calls, measured once more. */
struct bench_anchor {
    double at_s; /* since the sweep began */
    struct bench_stats time[BENCH_ANCHORS];
    double drift;               /* the larger of their changes against the first measurement, a share */
    bool moved;                 /* by more than --drift, and past what their spread explains */
    int sm_mhz_min, sm_mhz_max; /* over the ranks' GPUs; 0: not known */
    int celsius_max;
    unsigned long long slowed; /* why clocks were low: bits of nvmlClocksEventReasons, of any rank's GPU */
};

struct bench_anchors {
    int contender;
    int nsizes; /* 0: no anchor, the sweep has no elements */
    size_t bytes[BENCH_ANCHORS];
    int iterations[BENCH_ANCHORS];
    struct bench_anchor *list;
    int n;
    double cost_s; /* of the last measurement */
};

/* One size, datatype and operation, measured. */
struct bench_point {
    size_t requested;
    struct bench_shape shape;
    enum tr_datatype datatype;
    enum tr_op op;
    bool exact;   /* the first kind of input is compared for equality */
    double bound; /* the second kind: |output - reference| <= bound x sum over ranks of |x| (0: equality) */
    int rounds;
    double began_s;                   /* since the sweep began */
    int anchor;                       /* the last anchor before it; the next one, or the last, came after it */
    struct bench_result *results;     /* by contender */
    int winner, best_ours, best_peer; /* contenders, or -1 */
    double ratio;                     /* the best peer's time over our best's; 0: not both there */
    double traffic_share; /* compulsory traffic of our best over the time over the card's copy rate; 0: not measured */
    struct bench_regret regret;
};

/* Measures of the card, taken in the same run. 0: not measured. */
struct bench_card {
    double copy_rate; /* bytes a second, read plus written, of a device-to-device copy; the other ranks idle */
    size_t copy_bytes;
    double launch_us;       /* host time of launching an 8-byte call of this collective */
    double empty_launch_us; /* host time of launching an empty kernel */
};

enum { BENCH_MAX_NOTES = 24 };

struct bench_backend;
struct bench_place;
struct bench_entry;
struct baseline;

/* A benchmark while it runs. */
struct bench {
    const struct bench_collective *collective;
    struct bench_options options;
    int rank, nranks;
    char host[64];
    struct tr_comm *comm;
    struct tr_comm_info info;
    struct tr_comm_info *infos; /* of every rank, on every rank */
    const struct bench_backend *backend;
    bool oversubscribed; /* more ranks than CPUs, and the ranks do the work themselves */
    struct bench_contender *contenders;
    int ncontenders;
    struct bench_buffers buffers[BENCH_MEMORY_COUNT];
    struct bench_card card;
    char notes[BENCH_MAX_NOTES][512]; /* what a reader of the results must know: contenders left out, say */
    int nnotes;
    char first_wrong[256]; /* where the first wrong elements were; "": nowhere */
    double began;          /* MPI_Wtime() */
    uint64_t seed;         /* of the contenders' order */
    struct random random;
    int *order;        /* of a round */
    bool common_clock; /* the ranks' clocks can be compared: they are on one host */
    struct bench_anchors anchors;
    struct bench_place *places;  /* of every rank, on every rank (place.h) */
    struct bench_entry *entries; /* of every rank, on rank 0, once the sweep is over (entry.h) */
    struct bench_point **points; /* those measured */
    int npoints;
    struct baseline *baseline; /* NULL: none given */
};

/* For programs that measure more than once, `treering tune`, or otherwise, p2p_bench: start MPI and the watchdog; then, as often as they like, set
 * `collective` and `options` and measure, with everything reported as the options say. bench_measure() leaves the struct as
 * bench_start() made it, but for these two; what fails ends the process (fail.h). Collective. */
void bench_start(struct bench *bench, int *argc, char ***argv);
/* Look for what would hang or break later, while that is cheap; ends the run if there is something. */
void bench_check_launch(struct bench *bench);
void bench_measure(struct bench *bench);

/* Keep a sentence for the reports. The same on every rank. */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Algbw of a point: the vector's bytes over the time, GB/s (10^9); busbw: times the collective's factor. */
double bench_algbw(const struct bench_point *point, double us);
double bench_busbw(const struct bench *bench, const struct bench_point *point, double us);

/* Of the anchors around a point: the larger change, whether it counts, and what slowed the GPUs down. */
struct bench_drift {
    double share;
    bool moved;
    unsigned long long slowed;
};
struct bench_drift bench_drift_of(const struct bench *bench, const struct bench_point *point);

#endif

/*
 * p2p.h - what p2p_bench keeps while it runs.
 *
 * Every ordered pair of ranks (from, to) is put through the same tests; a test is a method (how bytes travel), a kind (what
 * is timed) and a size. Its parts, one file each: p2p_options, p2p_turns (which pairs run when), p2p_method (the table of
 * methods), p2p_lane (CPU ranks: messages through shared memory), p2p_sm (GPU ranks: kernels and copy engine, with
 * p2p_cuda.cu), p2p_library (tr_send and MPI_Send), p2p_transport (what lies between two ranks), p2p_measure (rounds,
 * samples, verification), p2p_outlier (pairs slower than their peers), p2p_fit (alpha and beta), p2p_table, p2p_json and
 * p2p_csv. Ends of runs, watchdog, environment and files are the other benches' (fail, environment, report).
 */
#ifndef BENCH_P2P_H
#define BENCH_P2P_H

#include "bench/bench.h"
#include "model/fit.h"

#include <stdint.h>

enum p2p_kind {
    P2P_FLAG,    /* a flag there and back: half of it is the latency */
    P2P_MESSAGE, /* a small message there and back, likewise */
    P2P_ONE_WAY, /* transfers in a row, from one rank to the other */
    P2P_TWO_WAY, /* the same both ways at once, measured once for (i, j) and (j, i) */
    P2P_KIND_COUNT
};
extern const char *const p2p_kind_names[P2P_KIND_COUNT];

static inline bool p2p_is_latency(enum p2p_kind kind)
{
    return kind == P2P_FLAG || kind == P2P_MESSAGE;
}

enum { P2P_MAX_METHODS = 12, P2P_MAX_ROUNDS = 1000, P2P_MAX_GROUPS = 8 };

struct p2p_options {
    struct size_range range;
    bool first_given, last_given;
    size_t message;                /* bytes of P2P_MESSAGE */
    bool methods[P2P_MAX_METHODS]; /* rows of p2p_methods */
    bool methods_given;
    int rounds; /* at most */
    bool rounds_given;
    bool together;
    unsigned seed;
    bool seed_given;
    enum tr_memory memory;
    double timeout_s; /* 0: the library's default */
    const char *json_path, *csv_path;
    bool verbose;
};

struct p2p_method;

struct p2p_test {
    const struct p2p_method *method;
    enum p2p_kind kind;
    size_t bytes; /* 0 for P2P_FLAG */
};

/* What lies between two ranks. */
struct p2p_transport {
    char name[64];                 /* pairs of one name are a group, compared with each other */
    int group;                     /* on rank 0, once gathered */
    int same_gpu;                  /* these four are -1 on the host and where it is not known */
    int nvlink;                    /* NVML says so, or, where it says nothing, the next one does */
    int native_atomics;            /* cudaDevP2PAttrNativeAtomicSupported */
    int performance_rank;          /* cudaDevP2PAttrPerformanceRank */
    char from_bus[24], to_bus[24]; /* PCI bus ids as `from` sees them; "": not visible there */
};

enum p2p_state { P2P_NOT_RUN, P2P_MEASURED, P2P_WRONG };

/* A test of a pair. */
struct p2p_result {
    enum p2p_state state;
    int iterations;          /* transfers in a sample; there and back counts as one */
    struct bench_stats time; /* us a transfer; latencies: half of there and back */
    double wrong;            /* bytes, over all samples; exact below 2^53 */
    int verified;            /* samples whose data were compared */
    bool judged, outlier;    /* judged: there were enough peers to tell */
    double score;            /* modified z-score among its peers */
};

/* T(m) = alpha + m / beta of a pair's one-way transfers by a method. */
struct p2p_fit {
    bool fitted;
    struct tr_interval alpha_us;  /* of the piece with the smallest sizes */
    struct tr_interval beta_gbps; /* of the piece with the largest */
    int npieces;
    double median_residual, largest_residual; /* |T(m) / measured - 1| over the samples */
};

struct p2p {
    struct bench bench; /* for fail.h and environment.h: program, place, communicator, notes */
    struct p2p_options options;
    int rank, nranks;
    MPI_Comm mpi;                           /* for pairs */
    int methods[P2P_MAX_METHODS], nmethods; /* rows of p2p_methods that take part */
    struct p2p_test *tests;
    int ntests;
    int rounds;     /* taken; options.rounds were planned */
    size_t largest; /* bytes of a transfer */
    int *pids;      /* of all ranks */

    /* Memory, p2p_memory.c has the picture. A CPU rank has two slots, so that one is filled while the other is read. */
    size_t slot_bytes, nslots;
    char *area;   /* mapped by all */
    char **areas; /* every rank's, as mapped here */
    char *shared; /* slots in the area */
    char *source, *sink;
    char **sinks; /* CPU ranks: every rank's sink, an address in its own memory */

    /* Messages so far to and from each rank; the flags count them. */
    uint64_t *posted, *taken;

    struct p2p_transport *transports;    /* [to] on a rank; [from * nranks + to] on rank 0 once gathered */
    int groups[P2P_MAX_GROUPS], ngroups; /* on rank 0: index in transports of each group's first pair */
    struct p2p_result *results; /* [to * ntests + test] on a rank; on rank 0 [(from * nranks + to) * ntests + test] */
    struct p2p_fit *fits;       /* [to * nmethods + method], on rank 0 [(from * nranks + to) * nmethods + method] */
    int noutliers;
    double seconds; /* that measuring took */
};

/* On rank 0, after the ranks' results were gathered. */
static inline struct p2p_result *p2p_result_of(const struct p2p *p2p, int from, int to, int test)
{
    return &p2p->results[((size_t)from * (size_t)p2p->nranks + (size_t)to) * (size_t)p2p->ntests + (size_t)test];
}

static inline const struct p2p_fit *p2p_fit_of(const struct p2p *p2p, int from, int to, int method)
{
    return &p2p->fits[((size_t)from * (size_t)p2p->nranks + (size_t)to) * (size_t)p2p->nmethods + (size_t)method];
}

static inline const struct p2p_transport *p2p_transport_of(const struct p2p *p2p, int from, int to)
{
    return &p2p->transports[(size_t)from * (size_t)p2p->nranks + (size_t)to];
}

/* Whether a test is made for the pair: both ways at once is the same for (i, j) and (j, i). */
static inline bool p2p_applies(const struct p2p_test *test, int from, int to)
{
    return from != to && (test->kind != P2P_TWO_WAY || from < to);
}

/* Bytes a second in 10^9, in one direction. */
static inline double p2p_gbps(const struct p2p_test *test, double us)
{
    return us > 0 ? (double)test->bytes / us * 1e-3 : 0;
}

#endif

/* options.h - the benches' command line. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench/sizes.h"
#include "treering.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_collective;

/* The exit codes, listed in --help. */
enum bench_exit {
    BENCH_EXIT_OK = 0,
    BENCH_EXIT_FAILED = 1, /* MPI, CUDA, NCCL, a timeout, an output file */
    BENCH_EXIT_USAGE = 2,
    BENCH_EXIT_WRONG = 3,  /* wrong elements */
    BENCH_EXIT_CANNOT = 4, /* this machine or launch cannot run what was asked for */
    BENCH_EXIT_SLOWER = 5  /* slower than the baseline */
};

enum { OPTIONS_MOST_CHANNELS = 16 };

struct bench_options {
    struct size_range range;
    bool first_given, last_given;
    int iterations; /* in a batch; 0: adapted to the size */
    int rounds;     /* 0: adapted to the size */
    int warmup;
    int checks; /* rounds whose output is verified */
    bool datatypes[TR_DATATYPE_COUNT];
    bool ops[TR_OP_COUNT];
    bool algorithms[TR_ALGORITHM_COUNT];
    bool algorithms_given;
    bool protocols[TR_PROTOCOL_COUNT];
    int graph_launches; /* 0: no graph */
    bool blocking;
    bool in_place;
    enum tr_memory memory;
    bool plain;
    int channels[OPTIONS_MOST_CHANNELS];
    int nchannels;       /* 0: chosen by size */
    double ci_share;     /* a median is known when half its interval is within this share of it */
    double time_limit_s; /* of a point's rounds */
    uint64_t seed;       /* of the contenders' order */
    bool seed_given;
    double drift_share; /* a change of the anchor that counts */
    const char *baseline_path;
    double tolerance; /* how much slower than the baseline is as good */
    double timeout_s; /* 0: the library's default */
    const char *json_path, *csv_path;
    bool verbose;
    bool quiet; /* no table; no option of the command line */
    bool launch_cost;
};

enum options_outcome { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_SHORT_HELP, OPTIONS_VERSION, OPTIONS_BAD };

/* Parse and validate. `loud`: write the sentence about a bad option to stderr. Permutes argv. */
enum options_outcome options_parse(const struct bench_collective *collective, int argc, char **argv, bool loud,
                                   struct bench_options *options);

/* --help, or --usage alone, on standard output. */
void options_help(const struct bench_collective *collective, bool usage_alone);

#endif

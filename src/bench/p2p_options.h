/* p2p_options.h - p2p_bench's command line. */
#ifndef BENCH_P2P_OPTIONS_H
#define BENCH_P2P_OPTIONS_H

#include "bench/p2p.h"

/* Parse and validate. `loud`: write the sentence about a bad option to stderr. Permutes argv. */
enum options_outcome p2p_options_parse(int argc, char **argv, bool loud, struct p2p_options *options);

/* --help, or --usage alone, on standard output. */
void p2p_options_help(bool usage_alone);

/* Fill in what was not given, once the kind of memory and the number of ranks are known. */
void p2p_options_settle(struct p2p_options *options, enum tr_memory memory, int nranks);

#endif

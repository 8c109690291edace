/* p2p_measure.h - rounds of samples over all pairs. */
#ifndef BENCH_P2P_MEASURE_H
#define BENCH_P2P_MEASURE_H

#include "bench/p2p.h"

/* List the tests of the methods that take part. */
void p2p_tests_list(struct p2p *p2p);

/* Measure every test of every pair; afterwards rank 0 has all results, outliers marked, and fits. Collective. */
void p2p_measure(struct p2p *p2p);

#endif

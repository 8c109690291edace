/* p2p_fit.h - T(m) = alpha + m / beta of a pair's transfers in a row (model/fit.h). */
#ifndef BENCH_P2P_FIT_H
#define BENCH_P2P_FIT_H

#include "bench/p2p.h"

/* Fit this rank's pairs, from samples[(to * ntests + test) * options.rounds + round]; what has wrong data, or fewer sizes than a fit
 * takes, is left unfitted. */
void p2p_fit_all(struct p2p *p2p, const double *samples);

#endif

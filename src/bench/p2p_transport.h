/* p2p_transport.h - what lies between two ranks, as the system says. */
#ifndef BENCH_P2P_TRANSPORT_H
#define BENCH_P2P_TRANSPORT_H

#include "bench/p2p.h"

/* Name the transport of every pair; rank 0 gets all. Collective; ends the run on an error. */
void p2p_transports_find(struct p2p *p2p);

#endif

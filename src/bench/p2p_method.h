/*
 * p2p_method.h - how bytes travel from one rank to another: a row of p2p_methods each.
 *
 * A method's functions run on both ranks of a pair at once and record a sentence when they fail. `run` sees the exchange
 * from its rank.
 */
#ifndef BENCH_P2P_METHOD_H
#define BENCH_P2P_METHOD_H

#include "bench/p2p.h"

struct p2p_run {
    const struct p2p_method *method;
    int from, to, peer; /* peer: the other one */
    bool forward;       /* this rank is `from` */
    size_t bytes;
    int iterations;
};

typedef enum tr_status p2p_runner(struct p2p *p2p, const struct p2p_run *run, double *seconds);
typedef enum tr_status p2p_mover(struct p2p *p2p, const struct p2p_run *run, int i);

struct p2p_method {
    const char *name;
    const char *text;          /* who does what, for people */
    enum tr_memory memory;     /* that it is for; AUTO: either */
    enum tr_protocol protocol; /* of tr_send() and tr_recv() */
    /* Whether this launch can use it; false, with the reason. Collective, the same answer on every rank. NULL: yes. */
    bool (*available)(struct p2p *p2p, const struct p2p_method *method, char *why, size_t size);
    /* Whether it carries messages of `bytes`. NULL: of any size. */
    bool (*carries)(struct p2p *p2p, const struct p2p_method *method, size_t bytes);
    char *(*origin)(struct p2p *p2p); /* where the sender's data are, nslots of them; NULL: there are none */
    bool one_origin;                  /* every transfer reads the first slot */
    char *(*target)(struct p2p *p2p); /* where they arrive, nslots x slot_bytes, at the receiver */
    bool one_target;
    p2p_mover *send, *receive; /* the i-th transfer of a run, on its two ranks; p2p_lane and p2p_library */
    /* Time all iterations of a run; *seconds is 0 on a rank that has no clock running. NULL: not measured. */
    p2p_runner *run[P2P_KIND_COUNT];
};

extern const struct p2p_method p2p_methods[];
extern const int p2p_method_count;

/* Choose those that take part, and note the others. Collective. */
void p2p_methods_select(struct p2p *p2p);

/* The rows' names, separated by commas. */
void p2p_methods_list(char *text, size_t size);

/* ---- p2p_lane.c: CPU ranks, through shared memory ---------------------------------------------------------------- */

p2p_runner p2p_lane_there_and_back, p2p_lane_one_way, p2p_lane_two_way;
p2p_mover p2p_store_send, p2p_touch_receive, p2p_load_send, p2p_load_receive, p2p_cma_send, p2p_flag_move;
bool p2p_cma_available(struct p2p *p2p, const struct p2p_method *method, char *why, size_t size);

/* ---- p2p_sm.c: GPU ranks, by kernels and by the copy engine -------------------------------------------------------- */

p2p_runner p2p_sm_flag, p2p_store_message, p2p_load_message;
p2p_runner p2p_store_one_way, p2p_store_two_way, p2p_load_one_way, p2p_load_two_way, p2p_ce_one_way, p2p_ce_two_way;

/* ---- p2p_library.c: tr_send and MPI_Send --------------------------------------------------------------------------- */

p2p_runner p2p_library_there_and_back, p2p_library_one_way, p2p_mpi_two_way;
p2p_mover p2p_treering_send, p2p_treering_receive, p2p_mpi_send, p2p_mpi_receive;
bool p2p_mpi_available(struct p2p *p2p, const struct p2p_method *method, char *why, size_t size);
bool p2p_treering_carries(struct p2p *p2p, const struct p2p_method *method, size_t bytes);

/* ---- p2p_memory.c -------------------------------------------------------------------------------------------------- */

/* Where a sender's and a receiver's data are; methods' origin and target. */
char *p2p_shared(struct p2p *p2p);
char *p2p_source(struct p2p *p2p);
char *p2p_sink(struct p2p *p2p);

#endif

/*
 * simulate.h - the time that a schedule takes on a machine of two levels, by discrete events.
 *
 * The machine. Ranks fill nodes in order. Every rank has one port out and one port in, to the ranks of its node; every
 * node has links to the other nodes, each way, and its l-th rank uses link l modulo their number. A port or link carries
 * beta bytes a second and serves first come, first served. Between the ports nothing is ever full.
 *
 * A message of b bytes from one rank to another
 *
 *     waits for the sender's port (or link) out, holds it for b / beta, and its first byte is there alpha later;
 *     waits for the receiver's port (or link) in, holds it for b / beta, and has then arrived
 *
 * so that one that meets nobody takes alpha + b / beta. An empty one takes alpha.
 *
 * A rank carries out its steps in order, for every piece of the vector, each as follows:
 *
 *     1. wait until the messages that it reads from its mailbox have arrived, what it reads of OUT is written, and the
 *        mailbox slots that it writes have been read by their owners (a slot is used again only then);
 *     2. read IN and OUT of other ranks (registered buffers), one message from each: from its own node and from others at
 *        once, within each from the next rank on and round, each when the one before has left its owner;
 *     3. spend the overhead, once for every chunk that the step spans, and reduce, gamma a byte of the second and later
 *        sources; the slots that it read are free from then on;
 *     4. send one message to each destination on another rank, all at once, in the step's order: those that cross the
 *        same port leave one after the other;
 *     5. the step is over, and the next may begin, when they have left; they arrive alpha later.
 *
 * Copies within a rank cost nothing, and neither does synchronisation alone: that a slot is free again, or that a peer has
 * entered. All ranks begin after `launch_us`, and the call is over when the last step is, and the last message has arrived.
 *
 * This is LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995) with L = alpha, G = 1 / beta, o a step, g = 0, with a
 * gap at the receiver too, and with links that the ranks of a node share.
 */
#ifndef TR_SIMULATE_H
#define TR_SIMULATE_H

#include "collectives/comm.h"

struct tr_level {
    double alpha_us;
    double beta_gbps; /* of a port, or of a link between nodes; INFINITY allowed */
};

struct tr_sim_machine {
    int ranks_per_node; /* as many as there are ranks: one level */
    int links_per_node; /* between nodes */
    struct tr_level inside, between;
    double gamma_gbps; /* bytes reduced a second, INFINITY allowed */
    double launch_us, overhead_us;
};

/* What happened, for pictures and for tests. */
enum tr_sim_kind {
    TR_SIM_STEP, /* from all inputs being there (1.) until its messages have left (5.) */
    TR_SIM_SEND, /* a message from `rank` to `peer`: from its first byte leaving until its last has arrived */
    TR_SIM_READ  /* a message from `peer` to `rank`, which asked for it */
};
struct tr_sim_event {
    enum tr_sim_kind kind;
    int rank, step, piece; /* whose step */
    int peer;              /* of a message; -1 for a step */
    double start_us, end_us;
};
/* Called when the end is known, so not in the order of time. */
typedef void tr_sim_observer(const struct tr_sim_event *event, void *context);

enum { TR_SIM_MAX_RANKS = 4096 };

/* Simulate a vector cut as `geometry` says. `observe` may be NULL. Writes the time until the last rank is done.
 * Errors: ARGUMENT (more ranks, or a machine out of range), MEMORY, INTERNAL (a schedule that deadlocks). */
enum tr_status tr_simulate(const struct tr_schedule *schedule, const struct tr_geometry *geometry, size_t element_bytes,
                           const struct tr_sim_machine *machine, tr_sim_observer *observe, void *context, double *us);

/* Whether the machine's figures make sense for `nranks` ranks: a sentence, or NULL. */
const char *tr_sim_machine_fault(const struct tr_sim_machine *machine, int nranks);

#endif

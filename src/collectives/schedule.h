/*
 * schedule.h - a collective as data: for every rank a list of n-ary reduce-copy steps.
 *
 *     dst[0..ndst) = reduce(src[0..nsrc))      over one chunk of the vector (or `span` neighbouring ones)
 *
 * An algorithm is a pure function that emits steps. It says what moves, never who waits: plan.h derives the waits and
 * check.h proves them. Everything that runs, draws or prices a collective reads this structure.
 *
 * The vector is cut into `nchunks` chunks (allreduce, broadcast, reduce: any cut; reduce-scatter, allgather: one chunk a
 * rank). A long vector is cut further into pieces: the whole step list runs once a piece, and a step with lag L handles
 * piece i-L in iteration i, so that a pipeline (a tree's way up and its way down) is written once and repeats.
 *
 *     iteration   0    1    2    3    4
 *     up, lag 0   p0   p1   p2   p3
 *     down, lag 1      p0   p1   p2   p3
 *
 * Rules that plan_build() relies on and check() enforces:
 * - a BOX slot belongs to the rank in the reference; one rank writes it and its owner reads it, each message exactly
 *   once; the k-th read takes the k-th write. A slot may be used several times within a piece.
 * - a chunk of OUT that one rank writes and another reads (either may be its owner) is written by one step of the call,
 *   and every read of it follows that write.
 * - IN is never written. In place, IN and OUT are the same memory: every read of IN precedes the writes to that chunk.
 */
#ifndef TR_SCHEDULE_H
#define TR_SCHEDULE_H

#include "collectives/buffer.h"
#include "treering.h"

#include <stdbool.h>
#include <stddef.h>

/* Where a step reads or writes. `index` is a chunk of the vector for IN and OUT, a slot number for BOX; in a step that
 * spans several chunks the j-th chunk uses index + j. The IN of an allgather and the OUT of a reduce-scatter hold one
 * chunk, whose index is 0. */
struct tr_ref {
    int rank;
    enum tr_buffer buffer;
    int index;
};

struct tr_step {
    int chunk;  /* first chunk of the vector that the step works on */
    int span;   /* how many neighbouring chunks, >= 1 */
    int lag;    /* iterations behind: iteration i handles piece i - lag */
    bool final; /* the reduction over all ranks is complete here; an average divides now */
    int nsrc;   /* sources, reduced in this order */
    int ndst;   /* destinations, each gets the result */
    int ref;    /* the first source's place in tr_schedule.refs; destinations follow the sources */
};

struct tr_rank_steps {
    struct tr_step *steps; /* in the order in which the rank carries them out */
    int nsteps;
    int capacity;
};

/* What to build. */
struct tr_schedule_spec {
    enum tr_collective collective;
    enum tr_algorithm algorithm;
    int nranks;
    int root;    /* broadcast, reduce; sendrecv: rank 0 sends to rank 1, root is 0 */
    bool remote; /* steps may read and write IN and OUT of other ranks (registered buffers) */
    bool unique; /* every message gets a slot of its own (LL protocols); otherwise few slots, reused */
};

struct tr_schedule {
    struct tr_schedule_spec spec;
    int nchunks; /* chunks of the vector */
    int nslots;  /* mailbox slots a rank, the largest number used + 1 */
    int depth;   /* copies of each slot, used in turn by successive pieces */
    int max_lag;
    struct tr_rank_steps *ranks; /* nranks of them */
    struct tr_ref *refs;
    int nrefs;
    int refs_capacity;
    int emitting;       /* the rank whose step was begun last */
    bool out_of_memory; /* an emit call failed; tr_schedule_build() turns it into TR_ERR_MEMORY */
};

/* Build the schedule of an algorithm. The caller frees it with tr_schedule_free(). Errors: ARGUMENT (rank count, root),
 * UNSUPPORTED (the algorithm does not serve the collective), MEMORY. */
enum tr_status tr_schedule_build(const struct tr_schedule_spec *spec, struct tr_schedule **schedule);
void tr_schedule_free(struct tr_schedule *schedule);

/* A deep copy, for tests that mutate. NULL when memory is short. */
struct tr_schedule *tr_schedule_copy(const struct tr_schedule *schedule);

/* Whether `algorithm` serves `collective` by a schedule of ours. */
bool tr_schedule_exists(enum tr_collective collective, enum tr_algorithm algorithm);

/* Whether a schedule reads or writes IN or OUT of another rank. */
bool tr_schedule_is_remote(const struct tr_schedule *schedule);

/* True where every rank's IN (OUT) holds a single chunk. */
bool tr_collective_in_is_one_chunk(enum tr_collective collective);
bool tr_collective_out_is_one_chunk(enum tr_collective collective);

/* ---- For algorithms: emit steps ---------------------------------------------------------------------------------- */

/* Begin a step of `rank` on `span` chunks from `chunk` on; its sources follow, then its destinations. */
void tr_emit_step(struct tr_schedule *s, int rank, int chunk, int span, int lag);
void tr_emit_src(struct tr_schedule *s, int rank, enum tr_buffer buffer, int index);
void tr_emit_dst(struct tr_schedule *s, int rank, enum tr_buffer buffer, int index);
void tr_emit_final(struct tr_schedule *s);

/* A whole step: one source, one destination, one chunk, no lag. */
void tr_emit_copy(struct tr_schedule *s, int rank, int chunk, struct tr_ref src, struct tr_ref dst);

/* The rank `distance` further round the ring of all ranks (distance may be negative, down to -nranks). */
int tr_rank_after(const struct tr_schedule *s, int rank, int distance);

/* The slot for a message from `sender` when `owner` keeps one slot for each other rank: 0..nranks-2. */
int tr_peer_slot(int sender, int owner);

/* Sources of a reduction over all ranks in rank order: the rank's own IN, and one slot from each other rank. */
void tr_emit_sources_in_rank_order(struct tr_schedule *s, int rank, int chunk, int first_slot);

/* The index under which chunk `c` stands in rank's own IN / OUT for this collective. */
int tr_in_index(const struct tr_schedule *s, int c);
int tr_out_index(const struct tr_schedule *s, int c);

/* The algorithms; each emits every rank's steps and sets nchunks (and depth, where not 1). */
typedef void tr_emit_fn(struct tr_schedule *schedule);
tr_emit_fn tr_ring_allreduce, tr_ring_reduce_scatter, tr_ring_allgather, tr_ring_broadcast, tr_ring_reduce;
tr_emit_fn tr_tree_allreduce, tr_tree_broadcast, tr_tree_reduce;
tr_emit_fn tr_dtree_allreduce, tr_dtree_broadcast, tr_dtree_reduce;
tr_emit_fn tr_oneshot_allreduce, tr_oneshot_reduce_scatter, tr_oneshot_allgather, tr_oneshot_broadcast,
    tr_oneshot_reduce;
tr_emit_fn tr_twoshot_allreduce, tr_twoshot_broadcast, tr_twoshot_reduce;
tr_emit_fn tr_recursive_allreduce, tr_recursive_reduce_scatter, tr_recursive_allgather;
tr_emit_fn tr_sendrecv;

#endif

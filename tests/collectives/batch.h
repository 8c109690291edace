/*
 * batch.h - running many calls of collectives back to back and checking every byte that they could have touched.
 *
 * Each case has a slot in one of two arenas, one from tr_mem_alloc() and one that the library has not heard of:
 *
 *     guard | sendbuf | guard | recvbuf | guard          (in place: guard | the larger buffer | guard)
 *
 * An image of all slots is made in host memory, poison wherever there is no input, and copied to the arena. Then all
 * calls run, the arena is copied back, and all of it must equal the image but for the recvbufs, which must hold what
 * reference.h says. Slots lie at the same offset on every rank, as registered buffers must.
 */
#ifndef TESTS_BATCH_H
#define TESTS_BATCH_H

#include "reference.h"

#include <mpi.h>

/* What many cases have in common: inputs and what must come of them, computed once. */
struct point {
    struct data data;
    size_t count;   /* elements of an all-reduce, broadcast, reduce and of a message */
    size_t segment; /* elements of each rank in a reduce-scatter and all-gather */
    char *input;    /* this rank's, max(count, nranks * segment) elements */
    char *inputs;   /* `longest` elements of every rank, longest = max(count, segment) */
    size_t longest;
    struct expectation whole; /* of the first `count` elements reduced */
    struct expectation own;   /* of this rank's segment reduced */
};

struct test_case {
    enum tr_collective collective;
    struct tr_tuning tuning;
    int root;
    bool in_place, registered;
    size_t in_shift, out_shift; /* elements by which sendbuf and recvbuf are moved off their alignment */
    /* the rest is the batch's */
    size_t begin, in, out, end; /* bytes from the arena's start */
    size_t in_bytes, out_bytes; /* 0: this rank has no such buffer */
    enum tr_status status;
    bool refused; /* too large for its protocol, as it should be */
};

/* Verdicts, one for each collective and algorithm. */
struct tally {
    size_t calls, failures;
    char why[1024]; /* the first failure */
};

/* Where the time goes, seconds. */
struct batch_times {
    double reference, call, copy, check, agree;
};

struct batch;

/* A batch on a communicator; collective, as is all that follows. `mpi` has the same ranks as `comm`. `largest` is the
 * number of bytes of the longest vector that will be used. */
struct batch *batch_new(MPI_Comm mpi, struct tr_comm *comm, size_t largest);
void batch_delete(struct batch *batch);

/* From now on ranks come late to some calls, each to other ones; 0: no longer. */
void batch_set_delays(struct batch *batch, unsigned seed);

/* Later cases are of this point. False: the communicator is broken, nothing more will run. */
bool batch_begin_point(struct batch *batch, const struct data *data, size_t count, size_t segment);
void batch_add(struct batch *batch, const struct test_case *added);
bool batch_end_point(struct batch *batch);

/* How calls become a graph and a graph runs; a CUDA graph is the only kind there is. */
struct capture {
    void (*begin)(void);
    void (*end)(void);
    void (*launch)(void);
};

/* In place of batch_end_point(): make the cases one graph and run it `times` times, each time with other inputs. The
 * cases must fit in one batch and none may be refused. */
bool batch_replay_point(struct batch *batch, int times, const struct capture *capture);

/* Whether this collective is reduced, and whether it has a root. */
bool batch_reduces(enum tr_collective collective);
bool batch_is_rooted(enum tr_collective collective);

const struct tally *batch_tally(const struct batch *batch, enum tr_collective collective, enum tr_algorithm algorithm);
const struct batch_times *batch_times(const struct batch *batch);

#endif

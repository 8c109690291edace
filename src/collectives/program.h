/*
 * program.h - the program of one rank: its part of a plan (plan.h), flat and relocatable, read by the executors. Also read
 * by nvcc, so it includes neither mpi.h nor treering.h.
 */
#ifndef TR_PROGRAM_H
#define TR_PROGRAM_H

#include "collectives/buffer.h"

#include <stddef.h>
#include <stdint.h>

struct tr_program_ref {
    uint8_t rank;
    uint8_t buffer; /* enum tr_buffer */
    uint16_t index;
};

struct tr_program_wait {
    int32_t offset; /* wait until flag(rank) >= position 2 + p * stride + offset; TR_ENTRY waits: see `entry` */
    uint8_t rank;
    uint8_t delta; /* skip while p < delta */
    uint8_t entry; /* non-zero: wait for position 1 */
    uint8_t zero;
};

struct tr_program_step {
    uint16_t chunk, span;
    uint16_t lag;
    uint8_t nsrc, ndst;
    uint16_t ref;          /* into refs: nsrc sources, then ndst destinations */
    uint16_t wait, signal; /* into waits and signals */
    uint8_t nwait, nsignal;
    uint8_t final;
    uint8_t zero[3]; /* up to a multiple of 4: waits follow the steps */
};

/* The header; arrays follow in the order steps, waits, refs, signals, found by the accessors below. */
struct tr_program {
    uint32_t bytes; /* header and arrays, a multiple of 8 */
    uint16_t nsteps, nwaits, nrefs, nsignals;
    uint16_t nchunks, nslots;
    uint16_t max_lag;
    uint8_t depth;
    uint8_t remote; /* reads or writes IN or OUT of other ranks */
    uint8_t nranks, rank;
    uint16_t stride;
    uint16_t entry_signal, exit_wait; /* into signals and waits */
    uint8_t entry_nsignal, exit_nwait;
    uint16_t zero;
    uint32_t zero2;
};

#ifdef __CUDACC__
#define TR_PROGRAM_FUNCTION static inline __host__ __device__
#else
#define TR_PROGRAM_FUNCTION static inline
#endif

#define TR_PROGRAM_ARRAY(program, type, offset) ((const type *)(const void *)((const char *)(program) + (offset)))

TR_PROGRAM_FUNCTION const struct tr_program_step *tr_program_steps(const struct tr_program *p)
{
    return TR_PROGRAM_ARRAY(p, struct tr_program_step, sizeof *p);
}

TR_PROGRAM_FUNCTION const struct tr_program_wait *tr_program_waits(const struct tr_program *p)
{
    return TR_PROGRAM_ARRAY(p, struct tr_program_wait, sizeof *p + p->nsteps * sizeof(struct tr_program_step));
}

TR_PROGRAM_FUNCTION const struct tr_program_ref *tr_program_refs(const struct tr_program *p)
{
    return TR_PROGRAM_ARRAY(p, struct tr_program_ref,
                            sizeof *p + p->nsteps * sizeof(struct tr_program_step) +
                                p->nwaits * sizeof(struct tr_program_wait));
}

TR_PROGRAM_FUNCTION const uint8_t *tr_program_signals(const struct tr_program *p)
{
    return TR_PROGRAM_ARRAY(p, uint8_t,
                            sizeof *p + p->nsteps * sizeof(struct tr_program_step) +
                                p->nwaits * sizeof(struct tr_program_wait) + p->nrefs * sizeof(struct tr_program_ref));
}

#endif

/*
 * exec_host.h - what the parts of the host executor share: the ranks' areas (area_host.c), where they run
 * (place_host.c), waiting (wait_host.c), packets (packet_host.c), writes to private memory (push_host.c) and the
 * program loop (exec_host.c).
 *
 * Each rank owns an area of shared memory that all ranks map; others write into it and its owner reads it:
 *
 *     header | flags [TR_HOST_LANES][nranks] | mailboxes of the collectives | mailboxes of each rank that may send
 *
 * where mailboxes are { LL, LL, DIRECT, DIRECT }: two of each protocol, used in turn by successive calls.
 *
 * The ticks of a domain are one 64-bit count of everything that its ranks ever announced to each other: a call's
 * position p is tick `base + p`, and the next call's base follows its last position. They never wrap, and never-written
 * memory (0) is behind all of them. A packet's flag is its call's base.
 */
#ifndef TR_EXEC_HOST_H
#define TR_EXEC_HOST_H

#include "collectives/comm.h"
#include "collectives/reduce_host.h"
#include "collectives/shm.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    TR_HOST_LINE = 64,
    TR_HOST_APART = 128,         /* what two ranks write lies this far apart: adjacent lines are fetched in pairs */
    TR_PACKET_PAYLOAD = 56,      /* 7 elements of 8 bytes, 14 of 4, ... : no element is cut */
    TR_HOST_SCRATCH = 64 * 1024, /* bytes for unpacked packets */
};

/* A message under LL is a row of packets; the flag is written last and says that the payload is there. */
struct tr_packet {
    _Alignas(TR_HOST_LINE) unsigned char payload[TR_PACKET_PAYLOAD];
    _Atomic uint64_t flag;
};

struct tr_host_flag {
    _Alignas(TR_HOST_APART) _Atomic uint64_t tick;
};

/* Whose flags: of all ranks in the collectives, of the receivers of this rank's sends, of the senders of its
 * receives. */
enum tr_host_lane { TR_LANE_COLLECTIVE, TR_LANE_RECEIVER, TR_LANE_SENDER, TR_HOST_LANES };

struct tr_host_header {
    _Alignas(TR_HOST_APART) _Atomic uint64_t abort; /* 0, or an abort word: see wait_host.c */
    _Alignas(TR_HOST_APART) _Atomic uint64_t calls; /* collective calls that the owner has entered */
    _Atomic uintptr_t out[2]; /* where its OUT lies in its own address space, by the call's parity */
};

enum { TR_MAILBOX_LL, TR_MAILBOX_DIRECT, TR_MAILBOX_COUNT };

/* The ranks of a program, as this rank sees them; all arrays are indexed by the rank in the program. */
struct tr_host_domain {
    uint64_t base;                          /* ticks so far */
    uint64_t calls;                         /* their number's parity chooses the mailboxes */
    int *ranks;                             /* in the communicator */
    _Atomic uint64_t **from, **to;          /* the flag that a rank sets here, and that this rank sets there */
    char **box[TR_MAILBOX_COUNT][2];        /* mailboxes, by protocol and parity */
    size_t mailbox_bytes[TR_MAILBOX_COUNT]; /* of one */
};

struct tr_host {
    struct tr_comm *comm;
    struct tr_shm areas;
    struct tr_host_domain collectives;
    struct tr_host_domain *sends, *receives; /* by peer */
    _Atomic uint64_t *abort;                 /* this rank's own word */
    int *pids;
    bool reaches_private; /* ranks can write into each other's private memory */
    uint64_t probe;       /* the rank before this one writes to it, to find that out */
    bool oversubscribed;  /* ranks share CPUs */
    int spins;            /* looks at a flag before the CPU is given away */
    size_t stream_bytes;  /* vectors from here on are written around the caches: IN and OUT do not fit in them */
    char **in, **out;     /* IN and OUT of the running call by rank */
    char *scratch;
    const struct tr_call *call; /* running, for the sentences */
};

/* What is worth finding out once a program; tr_cached_program.exec_state. */
struct tr_host_code {
    const struct tr_program_step *steps;
    const struct tr_program_wait *waits;
    const struct tr_program_ref *refs;
    const uint8_t *signals;
    size_t pitch; /* bytes from one BOX slot to the next */
};

/* A call while it runs. */
struct tr_host_run {
    struct tr_host *host;
    const struct tr_call *call;
    const struct tr_host_code *code;
    const struct tr_host_domain *domain;
    const struct tr_reduce_kernel *kernel;
    size_t element;
    uint64_t base;
    int sender;                     /* of packets, a rank of the communicator or TR_ANY_RANK */
    char **memory[TR_BUFFER_COUNT]; /* base address of each buffer by rank */
    size_t pitch[TR_BUFFER_COUNT];  /* bytes from one index to the next */
    size_t shift[TR_BUFFER_COUNT];  /* bytes that the current piece adds */
    unsigned divisor;               /* in final steps; 0: none */
    bool push;                      /* OUT of other ranks is private and written through the kernel */
    bool stream;
};

/* Where the current piece of `ref` lies, for the j-th chunk of its step. */
static inline char *tr_host_address(const struct tr_host_run *run, const struct tr_program_ref *ref, size_t j)
{
    return run->memory[ref->buffer][ref->rank] + (ref->index + j) * run->pitch[ref->buffer] + run->shift[ref->buffer];
}

/* ---- area_host.c ------------------------------------------------------------------------------------------------- */

size_t tr_host_area_bytes(int nranks);

/* Make all domains; false: no memory. Free what was made, after a failure too. */
bool tr_host_domains_create(struct tr_host *host);
void tr_host_domains_free(struct tr_host *host);
struct tr_host_domain *tr_host_find_domain(struct tr_host *host, const struct tr_domain *domain);

/* TR_MAILBOX_... of a protocol; the lines of a slot when `slots` share a mailbox, and the payload bytes that it
 * holds. */
int tr_host_mailbox(enum tr_protocol protocol);
size_t tr_host_slot_lines(size_t mailbox_bytes, size_t slots);
size_t tr_host_slot_capacity(enum tr_protocol protocol, const struct tr_domain *domain, size_t slots);

/* ---- place_host.c ------------------------------------------------------------------------------------------------ */

/* Exchange who the ranks are, and fill in what follows from it: pids to stream_bytes. Collective. */
enum tr_status tr_host_meet(struct tr_host *host);

/* ---- wait_host.c ------------------------------------------------------------------------------------------------- */

/* Tell every rank to give up, if nobody has yet. `about` is the rank that it is about, -1 if none. */
enum tr_host_reason { TR_REASON_NONE, TR_REASON_ASKED, TR_REASON_TIMEOUT, TR_REASON_DIED, TR_REASON_FAILED };
void tr_host_abort(struct tr_host *host, enum tr_host_reason reason, int about);

/* The sentence of an abort word that this rank found set. */
enum tr_status tr_host_aborted(const struct tr_host *host);

/* In place of a rank, where a wait does not know for whom: the sender of a packet is not in the reader's program. */
enum { TR_ANY_RANK = -1 };

enum tr_status tr_host_wait_long(struct tr_host *host, const _Atomic uint64_t *tick, uint64_t target, int rank);

/* Tell the CPU that this is a waiting loop. */
static inline void tr_host_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until `rank` (of the communicator, or TR_ANY_RANK) has brought `tick` to `target`; what it wrote before is
 * then visible. */
static inline enum tr_status tr_host_wait(struct tr_host *host, const _Atomic uint64_t *tick, uint64_t target, int rank)
{
    if (atomic_load_explicit(tick, memory_order_acquire) >= target)
        return TR_OK;
    return tr_host_wait_long(host, tick, target, rank);
}

/* ---- push_host.c ------------------------------------------------------------------------------------------------- */

/* Write `bytes` at `data` to `address` in the memory of process `pid`; 0, or an errno. */
int tr_host_write(int pid, uintptr_t address, const void *data, size_t bytes);

/* Find out whether ranks can write into each other's private memory; `next` is where the next rank's probe lies.
 * Collective. Sets reaches_private, alike on all ranks. */
enum tr_status tr_host_push_probe(struct tr_host *host, uintptr_t next);

/* Carry out a copy on `count` elements of its j-th chunk, when the OUT of other ranks is private. */
enum tr_status tr_host_push_step(const struct tr_host_run *run, const struct tr_program_step *step, size_t j,
                                 size_t count);

/* ---- packet_host.c ----------------------------------------------------------------------------------------------- */

/* Carry out a step on `count` elements of its j-th chunk, where BOX holds packets. */
enum tr_status tr_packet_step(const struct tr_host_run *run, const struct tr_program_step *step, size_t j,
                              size_t count);

/* ---- exec_host.c ------------------------------------------------------------------------------------------------- */

/* Whether writing into private memory of other ranks pays, for a call that moves `bytes` in all: for long messages that are
 * only copied, since a system call costs more than a short one. */
bool tr_host_push_pays(enum tr_collective collective, size_t bytes, int nranks);

#endif

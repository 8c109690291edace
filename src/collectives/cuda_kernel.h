/*
 * cuda_kernel.h - what exec_cuda.c (host) and the kernels (device) agree on: the kernels' arguments, the lowered program in
 * them, and the layout of a domain in GPU memory. Plain C, also read by nvcc.
 *
 * A domain, at the same offsets in every rank's memory (in bytes, multiples of 128):
 *
 *     state   one line a channel: epoch, abort                 written by the rank itself (abort: by anyone)
 *     flags   one line a (channel, peer): 64-bit flag           written by that peer
 *     LL      two halves (epoch parity) of packets
 *     LL128   two halves of lines
 *     direct  two halves of plain mailbox slots
 */
#ifndef TR_CUDA_KERNEL_H
#define TR_CUDA_KERNEL_H

#include <stdint.h>

enum {
    TR_CUDA_LINE = 128,        /* bytes between flags, so that no two share a line */
    TR_CUDA_MAX_THREADS = 512, /* a block */
    TR_CUDA_MAX_RANKS = 16,
    TR_CUDA_LL_PACKET = 16, /* bytes: 2 x (4 data, 4 flag) */
    TR_CUDA_LL_PAYLOAD = 8,
    TR_CUDA_LL128_LINE = 128, /* bytes: 120 data, 8 flag */
    TR_CUDA_LL128_PAYLOAD = 120,
    TR_CUDA_COPIES = 8,        /* most steps that are taken together */
    TR_CUDA_FAN_LANES = 8,     /* threads that share a packet in the fan kernel */
    TR_CUDA_SMALL_BLOB = 768,  /* bytes of lowered program that a fan kernel takes */
    TR_CUDA_LARGE_BLOB = 3840, /* and any other: 4 KiB of arguments are the most */
};

/* A channel's state line. */
struct tr_cuda_state {
    uint32_t epoch; /* of the next call; see plan.h */
    uint32_t abort; /* non-zero: give up */
};

/* What the device tells the host when it gives up; in mapped host memory. */
struct tr_cuda_report {
    uint32_t reason; /* enum tr_cuda_reason */
    uint32_t peer;   /* the rank of the program that was waited for */
    uint32_t step;   /* the step that waited, TR_CUDA_AT_EXIT at the exit, TR_CUDA_AT_ENTRY at the entry */
    uint32_t epoch;
    uint32_t collective;
};

enum tr_cuda_reason { TR_CUDA_FINE, TR_CUDA_TIMEOUT, TR_CUDA_ABORTED };
enum { TR_CUDA_AT_EXIT = 0xffff, TR_CUDA_AT_ENTRY = 0xfffe };

/*
 * The lowered program: program.h with absolute addresses, spans spread out into steps of one chunk, lengths in bytes. In the
 * blob follow each other
 *
 *     uint64_t domain[nranks]            each rank's domain, as mapped here
 *     struct tr_cuda_step steps[nsteps]
 *     uint64_t refs[nrefs]               addresses at piece 0, channel 0, even epoch; a mailbox slot has TR_CUDA_BOX set,
 *                                        and a source that is one has the rank that writes it (GPU addresses are shorter)
 *     struct tr_program_wait waits[nwaits]
 *     uint8_t signals[nsignals]          program ranks
 */
#define TR_CUDA_BOX (1ull << 63)
#define TR_CUDA_ADDRESS ((1ull << 56) - 1)
#define TR_CUDA_SENDER_SHIFT 56
#define TR_CUDA_SENDER_MASK 0x7f

struct tr_cuda_step {
    uint64_t bytes;        /* of the chunk, all tiles */
    uint32_t position;     /* that it announces in iteration 0; later ones add the stride */
    uint16_t ref;          /* nsrc sources, then ndst destinations */
    uint16_t wait, signal; /* into waits and signals */
    uint8_t nwait, nsignal;
    uint8_t nsrc, ndst;
    uint8_t lag;
    uint8_t final;
    uint8_t copies; /* LL: this many steps from here on only copy and need not wait for each other, at most 8 */
    uint8_t zero[7];
};

/* Kernel arguments but for the blob. */
struct tr_cuda_call {
    struct tr_cuda_report *report;
    const char *home; /* the state of this rank in the collectives' domain: an abort reaches a send or receive there */
    uint64_t timeout_ns;
    uint64_t tile;          /* bytes of a chunk's tile: channel b of piece p begins at (p * channels + b) * tile */
    uint64_t flags;         /* offset of the flags in a domain */
    uint64_t half_bytes;    /* from a mailbox slot to itself in the other half */
    uint64_t channel_bytes; /* and in the next channel */
    uint32_t slot_bytes;    /* and in its next copy (see depth) */
    uint32_t packets;       /* offset of the LL and LL128 mailboxes in a domain, which lie side by side */
    uint32_t ll_bytes;      /* of LL's */
    uint32_t packet_bytes;  /* of both */
    uint32_t depth;
    uint32_t npieces, channels;
    uint32_t max_channels; /* lines of state to advance */
    uint32_t op;           /* enum tr_op */
    uint32_t average;      /* ranks to divide by in a final step; 0: no division */
    uint32_t collective;
    uint32_t nranks, rank; /* of the program */
    uint32_t stride;       /* positions an iteration */
    uint16_t nsteps, max_lag;
    uint16_t refs, waits, signals; /* offsets in the blob, in bytes */
    uint16_t blob_bytes;           /* a multiple of 8 */
    uint16_t entry_signal, exit_wait;
    uint16_t entry_nsignal, exit_nwait;
};

struct tr_cuda_small_args {
    struct tr_cuda_call call;
    uint64_t blob[TR_CUDA_SMALL_BLOB / 8];
};

struct tr_cuda_large_args {
    struct tr_cuda_call call;
    uint64_t blob[TR_CUDA_LARGE_BLOB / 8];
};

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel (for cudaLaunchKernelExC) of a datatype for an operation and protocol (enum tr_op, enum tr_protocol). `fan`: the
 * LL kernel for short tiles, which takes the small arguments; all others take the large ones. One such function a datatype,
 * in cuda_kernel_<datatype>.cu. */
const void *tr_cuda_kernel_f64(int op, int protocol, int fan);
const void *tr_cuda_kernel_f32(int op, int protocol, int fan);
const void *tr_cuda_kernel_f16(int op, int protocol, int fan);
const void *tr_cuda_kernel_bf16(int op, int protocol, int fan);
const void *tr_cuda_kernel_i64(int op, int protocol, int fan);
const void *tr_cuda_kernel_i32(int op, int protocol, int fan);
const void *tr_cuda_kernel_u8(int op, int protocol, int fan);

#ifdef __cplusplus
}
#endif

#endif

/*
 * kernels.h - what all kernels share: status and its sentence, datatypes, streams.
 *
 * The contract of every kernel, stated once:
 * - X.h declares tk_x(..., stream) for device memory and tk_x_host(...) for host memory: the same arguments, the same
 *   result but for rounding. Functions return an enum tk_status; on a failure tk_last_error() holds the sentence.
 * - Every argument is checked before anything is launched: a failing call has written nothing.
 * - Launchers neither allocate nor synchronise; what a kernel needs besides its operands is the caller's workspace.
 * - Matrices are row-major; a row stride is in elements. Counts are size_t; nothing overflows at 2^31.
 * - `stream` is a cudaStream_t of the current device; NULL is the default stream.
 * - Results are the same from run to run, bit by bit, unless the function says otherwise.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tk_status {
    TK_OK = 0,
    TK_ERR_ARGUMENT,    /* an argument is out of range; tk_last_error() names it */
    TK_ERR_UNSUPPORTED, /* valid, but this build or this device cannot do it */
    TK_ERR_MEMORY,      /* host memory could not be had, or the workspace is too small */
    TK_ERR_CUDA,        /* a CUDA call failed */
    TK_STATUS_COUNT
};

/* A short constant text for a status. Never NULL. */
const char *tk_strerror(enum tk_status status);

/* The sentence left by the calling thread's last failing call; "" when none failed. Valid until its next failing call. */
const char *tk_last_error(void);

/* bf16: the upper half of an f32 (8 bits of exponent, 7 of mantissa); on the host a uint16_t, see bf16.h. */
enum tk_datatype { TK_F32, TK_BF16, TK_DATATYPE_COUNT };

size_t tk_datatype_size(enum tk_datatype datatype); /* bytes; 0 for an invalid datatype */
const char *tk_datatype_name(enum tk_datatype datatype);

#ifdef __cplusplus
}
#endif

#endif

/* error.c - status texts, the calling thread's last sentence, and the library's version. */
#include "collectives/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_texts[TR_STATUS_COUNT] = {
    [TR_OK] = "success",
    [TR_ERR_ARGUMENT] = "invalid argument",
    [TR_ERR_UNSUPPORTED] = "not supported here",
    [TR_ERR_MEMORY] = "out of memory",
    [TR_ERR_MISMATCH] = "arguments differ between ranks",
    [TR_ERR_TIMEOUT] = "timed out waiting for a peer",
    [TR_ERR_ABORTED] = "the communicator was aborted",
    [TR_ERR_CUDA] = "a CUDA call failed",
    [TR_ERR_NCCL] = "an NCCL call failed",
    [TR_ERR_MPI] = "an MPI call failed",
    [TR_ERR_PEER] = "a peer's process has ended",
    [TR_ERR_SYSTEM] = "an operating system call failed",
    [TR_ERR_INTERNAL] = "internal error of the library",
};

static _Thread_local char last_error[TR_ERROR_BYTES];
static _Thread_local char place[96]; /* "rank 3 on node7: ", or "" */

const char *tr_strerror(enum tr_status status)
{
    return (unsigned)status < TR_STATUS_COUNT ? status_texts[status] : "unknown status";
}

const char *tr_last_error(void)
{
    return last_error;
}

/* Formats into a buffer of its own: an argument may be tr_last_error() itself. */
enum tr_status tr_error(enum tr_status status, const char *format, ...)
{
    char sentence[TR_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);

    size_t used = strlen(place);
    memcpy(last_error, place, used);
    size_t length = strnlen(sentence, sizeof last_error - used - 1);
    memcpy(last_error + used, sentence, length);
    last_error[used + length] = '\0';
    return status;
}

enum tr_status tr_error_relay(enum tr_status status, const char *sentence)
{
    size_t length = strnlen(sentence, sizeof last_error - 1);
    memmove(last_error, sentence, length);
    last_error[length] = '\0';
    return status;
}

void tr_error_set_place(int rank, const char *host)
{
    if (rank < 0)
        place[0] = '\0';
    else
        snprintf(place, sizeof place, "rank %d on %.60s: ", rank, host);
}

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *tr_version(void)
{
    return VERSION_TEXT(TR_VERSION_MAJOR, TR_VERSION_MINOR, TR_VERSION_PATCH);
}

/* error.c - status texts, the calling thread's last sentence, and the datatypes' names. */
#include "kernels/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_texts[TK_STATUS_COUNT] = {
    [TK_OK] = "success",
    [TK_ERR_ARGUMENT] = "invalid argument",
    [TK_ERR_UNSUPPORTED] = "not supported here",
    [TK_ERR_MEMORY] = "out of memory",
    [TK_ERR_CUDA] = "a CUDA call failed",
};

static const struct {
    const char *name;
    size_t size;
} datatypes[TK_DATATYPE_COUNT] = {[TK_F32] = {"f32", 4}, [TK_BF16] = {"bf16", 2}};

static _Thread_local char last_error[512];

const char *tk_strerror(enum tk_status status)
{
    return (unsigned)status < TK_STATUS_COUNT ? status_texts[status] : "unknown status";
}

const char *tk_last_error(void)
{
    return last_error;
}

/* Formats into a buffer of its own: an argument may be tk_last_error() itself. */
enum tk_status tk_error(enum tk_status status, const char *format, ...)
{
    char sentence[sizeof last_error];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    memcpy(last_error, sentence, sizeof sentence);
    return status;
}

size_t tk_datatype_size(enum tk_datatype datatype)
{
    return (unsigned)datatype < TK_DATATYPE_COUNT ? datatypes[datatype].size : 0;
}

const char *tk_datatype_name(enum tk_datatype datatype)
{
    return (unsigned)datatype < TK_DATATYPE_COUNT ? datatypes[datatype].name : "?";
}

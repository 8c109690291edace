/* error.h - the sentence behind tk_last_error(). */
#ifndef KERNELS_ERROR_H
#define KERNELS_ERROR_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Record a sentence (printf format, no newline) for the calling thread and return `status`:
 * `return tk_error(TK_ERR_ARGUMENT, "matmul: lda %zu is less than k %zu", lda, k);` */
enum tk_status tk_error(enum tk_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif

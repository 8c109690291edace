/* error.h - the sentence behind tr_last_error(). */
#ifndef TR_ERROR_H
#define TR_ERROR_H

#include "treering.h"

/* Record a sentence (printf format, no newline) for the calling thread and return `status`:
 * `return tr_error(TR_ERR_ARGUMENT, "root %d is not in 0..%d", root, n - 1);` */
enum tr_status tr_error(enum tr_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes of the longest sentence, its end included; longer ones are cut. */
enum { TR_ERROR_BYTES = 1024 };

/* Record a sentence that another rank made (it names its own place) and return `status`. */
enum tr_status tr_error_relay(enum tr_status status, const char *sentence);

/* Put "rank R on HOST: " in front of this thread's later sentences; rank < 0: nothing. */
void tr_error_set_place(int rank, const char *host);

#endif

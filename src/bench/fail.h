/*
 * fail.h - how a run ends: one sentence on stderr, from rank 0 where the ranks can still agree, the same exit code on
 * every rank, and no rank left behind.
 */
#ifndef BENCH_FAIL_H
#define BENCH_FAIL_H

#include "bench/bench.h"

/* End every rank with `code`. Collective; files that are not complete are removed. */
_Noreturn void bench_end(struct bench *bench, enum bench_exit code);

/* As bench_end(), with a sentence from rank 0. Collective: every rank passes the same. */
_Noreturn void bench_stop(struct bench *bench, enum bench_exit code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Collective: return when every rank passed BENCH_EXIT_OK; else end the run with the sentence and code of the first
 * rank that did not. */
void bench_agree(struct bench *bench, enum bench_exit code, const char *sentence);

/* Keep a library call's failure, with its sentence, until the ranks agree: the peers are told to give up, and if one of
 * them is out of reach this rank ends by itself, with the sentence, after a few seconds. TR_OK does nothing. */
void bench_keep_failure(struct bench *bench, enum tr_status status, const char *doing);

/* bench_agree() on the first failure kept, `status` included. Collective. */
void bench_agree_status(struct bench *bench, enum tr_status status, const char *doing);

/* Something failed on this rank alone, between two agreements: say it and end all ranks through MPI_Abort(). */
_Noreturn void bench_die(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Exchange process ids, so that a rank of this host that dies is noticed within seconds, even inside MPI. Collective;
 * right after MPI_Init(). */
void watchdog_start(struct bench *bench);

/* End this rank (and so, through the launcher, all) unless armed again within twice the communicator's timeout, a minute
 * and `seconds` more. `doing`
 * is named in the sentence. */
void watchdog_arm(const struct bench *bench, double seconds, const char *doing);

#endif

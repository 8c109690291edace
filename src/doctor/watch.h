/* watch.h - ends this process, with a sentence, when a step of the doctor makes no progress. */
#ifndef DOCTOR_WATCH_H
#define DOCTOR_WATCH_H

/* Who the sentences come from: this host, and a rank, which is the launcher's until MPI has one. */
void watch_open(const char *program, int rank);

/* A step begins that must end, or the next one begin, within `seconds`. `advice` completes the sentence. */
void watch_step(const char *step, double seconds, const char *advice);
void watch_close(void);

/* End all ranks with exit code 1 and a sentence. */
_Noreturn void watch_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* finding.h - how a check says what it found. */
#ifndef DOCTOR_FINDING_H
#define DOCTOR_FINDING_H

#include "doctor/doctor.h"

/* The verdict and what was found. */
void finding_say(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What to do. */
void finding_advise(struct doctor_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef bool rank_test(const struct doctor *doctor, int rank);

/* The finding is about the ranks that pass the test; returns the first of them, or -1 and leaves the finding as it is. */
int finding_mark(const struct doctor *doctor, struct doctor_finding *finding, rank_test *test);

/* "rank 1 on a", "ranks 0-3, 5 on a and 4 on b"; "" for a finding about the launch as a whole. */
void finding_where(const struct doctor *doctor, const struct doctor_finding *finding, char *text, size_t size);

/* Bytes for people: "64 KiB". */
enum { BYTES_TEXT = 32 };
const char *bytes_text(int64_t bytes, char text[static BYTES_TEXT]);

/* CPUs as the kernel lists them: "0-3,8". */
const char *cpus_text(const cpu_set_t *cpus, char *text, size_t size);

#endif

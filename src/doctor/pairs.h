/* pairs.h - every ordered pair of ranks tries what a communicator would use between them. */
#ifndef DOCTOR_PAIRS_H
#define DOCTOR_PAIRS_H

#include "doctor/doctor.h"

/* Host memory: map, write, read back; write into private memory. Fills doctor->pairs. Collective. */
void doctor_try_host_pairs(struct doctor *doctor);
/* GPU memory, where every rank has a GPU that works: pairs_gpu.c. Collective. */
void doctor_try_gpu_pairs(struct doctor *doctor);

/* Which link a pair has, from what was tried and what the driver says. Not collective. */
void doctor_name_links(struct doctor *doctor);

/* Whether a communicator of these ranks would use GPU memory: each has a GPU that works. */
bool doctor_uses_gpus(const struct doctor *doctor);

/* Rank `from`'s row of doctor->pairs. */
struct doctor_pair *doctor_row(const struct doctor *doctor, int from);

/* Exchange the rows, each filled in by its own rank. Collective. */
void doctor_share_pairs(struct doctor *doctor, const char *step);

/* Note a trial, and the first failure's reason. */
void doctor_note(struct doctor_pair *pair, enum doctor_trial *trial, bool works, const char *why);

#endif

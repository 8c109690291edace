/* meet.h - the ranks exchange what they found, with a deadline that names who is missing. */
#ifndef DOCTOR_MEET_H
#define DOCTOR_MEET_H

#include "doctor/doctor.h"

/* Gather `bytes` of every rank into all[nranks * bytes] on each. Ends the run with exit code 1 if a rank does not come
 * within the doctor's timeout; `step` is what it did not come to. Collective. */
void doctor_meet(const struct doctor *doctor, const char *step, const void *mine, void *all, size_t bytes);

#endif

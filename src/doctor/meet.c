/*
 * meet.c - everybody reports to rank 0, which knows who is missing, and rank 0 tells everybody.
 *
 * MPI_Allgather() would do, but for a rank that does not come: it could only say that somebody is missing.
 */
#include "doctor/meet.h"
#include "collectives/comm.h"
#include "doctor/watch.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_REPORT = 7301, TAG_TELL = 7302 };

/* Poll until all are complete; false at the deadline. Sleeps in between, for ranks may share a CPU. */
static bool await(int n, MPI_Request *requests, double deadline)
{
    for (int done = 0;;) {
        MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            return true;
        if (tr_seconds() > deadline)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

/* "rank 3 (pid 77 on node1)"; before the first meeting nobody knows the pid. */
static int describe(const struct doctor *doctor, int rank, char *text, size_t size)
{
    const struct doctor_facts *facts = doctor->facts ? &doctor->facts[rank] : NULL;
    if (!facts || !facts->pid)
        return snprintf(text, size, "rank %d", rank);
    return snprintf(text, size, "rank %d (pid %d on %s)", rank, facts->pid, facts->host);
}

static _Noreturn void name_missing(const struct doctor *doctor, const char *step, MPI_Request *requests)
{
    char list[512];
    int used = 0, missing = 0;
    for (int r = 1; r < doctor->nranks; r++) {
        int done = 0;
        MPI_Test(&requests[r - 1], &done, MPI_STATUS_IGNORE);
        if (done)
            continue;
        missing++;
        if (used < (int)sizeof list - 100) {
            used += snprintf(list + used, sizeof list - (size_t)used, "%s", missing > 1 ? ", " : "");
            used += describe(doctor, r, list + used, sizeof list - (size_t)used);
        }
    }
    watch_die("'%s': %d of %d ranks did not come within %g s: %s: it is stopped, hangs or has died; look at it with "
              "`ps -eo pid,stat,wchan:30,args` (T: stopped, D: in the driver) and `gdb -p PID`",
              step, missing, doctor->nranks, doctor->timeout_s, list);
}

/* Rank 0: hear everybody, then tell everybody. */
static void lead(const struct doctor *doctor, const char *step, char *all, size_t bytes)
{
    int others = doctor->nranks - 1;
    MPI_Request *requests = malloc((size_t)others * sizeof(MPI_Request) + 1);
    if (!requests)
        watch_die("'%s': no memory to hear %d ranks", step, others);
    for (int r = 1; r <= others; r++)
        MPI_Irecv(all + (size_t)r * bytes, (int)bytes, MPI_BYTE, r, TAG_REPORT, MPI_COMM_WORLD, &requests[r - 1]);
    if (!await(others, requests, tr_seconds() + doctor->timeout_s))
        name_missing(doctor, step, requests);
    for (int r = 1; r <= others; r++)
        MPI_Isend(all, (int)((size_t)doctor->nranks * bytes), MPI_BYTE, r, TAG_TELL, MPI_COMM_WORLD, &requests[r - 1]);
    if (!await(others, requests, tr_seconds() + doctor->timeout_s))
        name_missing(doctor, step, requests);
    free(requests);
}

/* Rank 0 waits for the slowest, then speaks: it gets twice the time, and a moment to say who is missing. */
static void follow(const struct doctor *doctor, const char *step, const void *mine, void *all, size_t bytes)
{
    MPI_Request requests[2];
    char leader[160];
    MPI_Isend(mine, (int)bytes, MPI_BYTE, 0, TAG_REPORT, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(all, (int)((size_t)doctor->nranks * bytes), MPI_BYTE, 0, TAG_TELL, MPI_COMM_WORLD, &requests[1]);
    if (await(2, requests, tr_seconds() + 2 * doctor->timeout_s + 2))
        return;
    describe(doctor, 0, leader, sizeof leader);
    watch_die("'%s': %s did not answer within %g s: it is stopped, hangs or has died; look at it with `ps -eo "
              "pid,stat,wchan:30,args` and `gdb -p PID`",
              step, leader, 2 * doctor->timeout_s + 2);
}

void doctor_meet(const struct doctor *doctor, const char *step, const void *mine, void *all, size_t bytes)
{
    if ((size_t)doctor->nranks > INT_MAX / bytes)
        watch_die("'%s': %d ranks are more than the doctor can hear: run fewer", step, doctor->nranks);
    watch_step(step, 4 * doctor->timeout_s + 10, "MPI itself does not answer: see whether the ranks live");
    if (doctor->rank == 0) {
        memmove(all, mine, bytes);
        lead(doctor, step, all, bytes);
    } else {
        follow(doctor, step, mine, all, bytes);
    }
}

/* tap.c - TAP from a program of several MPI ranks. */
#include "tap.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WHY_BYTES = 2048, NAP_US = 1000 };

static int tests, failures;

static int world_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

double tap_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tap_meet(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        usleep(NAP_US);
}

/* The lowest rank on which the test failed, -1 if none; its reason arrives in why[] on rank 0. */
static int find_failed(bool passed, const char *reason, char *why)
{
    int size, first, rank = world_rank();
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mine = passed ? size : rank;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == size)
        return -1;
    memset(why, 0, WHY_BYTES);
    snprintf(why, WHY_BYTES, "%s", reason ? reason : "");
    if (first != 0 && rank == first)
        MPI_Send(why, WHY_BYTES, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    if (first != 0 && rank == 0)
        MPI_Recv(why, WHY_BYTES, MPI_CHAR, first, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return first;
}

void tap_test(bool passed, const char *why, const char *format, ...)
{
    static char reason[WHY_BYTES];
    int failed = find_failed(passed, why, reason);
    tests++;
    failures += failed >= 0;
    if (world_rank() != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("%sok %d - ", failed >= 0 ? "not " : "", tests);
    vprintf(format, arguments);
    printf("\n");
    if (failed >= 0)
        printf("# on rank %d: %s\n", failed, reason[0] ? reason : "no reason given");
    fflush(stdout);
    va_end(arguments);
}

void tap_skip(const char *why, const char *format, ...)
{
    tests++;
    if (world_rank() != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("ok %d - ", tests);
    vprintf(format, arguments);
    printf(" # SKIP %s\n", why);
    fflush(stdout);
    va_end(arguments);
}

void tap_note(const char *format, ...)
{
    if (world_rank() != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("# ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

int tap_end(void)
{
    tap_meet();
    if (world_rank() == 0)
        printf("1..%d\n", tests);
    fflush(stdout);
    return failures > 0;
}

int tap_skip_all(const char *why)
{
    if (world_rank() == 0)
        printf("1..0 # SKIP %s\n", why);
    fflush(stdout);
    return 0;
}

_Noreturn void tap_bail_out(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("Bail out! rank %d: ", world_rank());
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* watch.c - an alarm whose last words are ready before it rings. */
#include "doctor/watch.h"

#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *program;
    int rank;
    char host[64];
    char last_words[1024];
} watch = {.program = "treering"};

static void on_alarm(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, watch.last_words, strlen(watch.last_words));
    (void)written;
    _exit(1);
}

void watch_open(const char *program, int rank)
{
    watch.program = program;
    watch.rank = rank;
    if (gethostname(watch.host, sizeof watch.host - 1))
        snprintf(watch.host, sizeof watch.host, "unknown host");
}

void watch_step(const char *step, double seconds, const char *advice)
{
    struct sigaction action = {.sa_handler = on_alarm};
    unsigned limit = seconds < 1 ? 1 : seconds < INT_MAX ? (unsigned)seconds : INT_MAX;
    alarm(0);
    snprintf(watch.last_words, sizeof watch.last_words, "%s: rank %d on %s: '%s' hangs, no progress for %u s: %s\n",
             watch.program, watch.rank, watch.host, step, limit, advice);
    sigaction(SIGALRM, &action, NULL);
    alarm(limit);
}

void watch_close(void)
{
    alarm(0);
}

/* MPI_Abort() may itself wait for a launcher that is gone: the alarm stays set. */
_Noreturn void watch_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "%s: rank %d on %s: ", watch.program, watch.rank, watch.host);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    va_end(arguments);
    watch.last_words[0] = '\0';
    alarm(5);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

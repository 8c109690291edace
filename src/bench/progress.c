/* progress.c - one line on the terminal while a long sweep runs. */
#include "bench/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const double apart_s = 0.25;

static struct {
    bool error_shown, output_shown; /* standard error, and output, are read on a terminal */
    bool on_screen;
    double last;
    size_t sizes; /* of the sweep */
} progress;

/* Major numbers of terminals: Documentation/admin-guide/devices.txt of Linux. */
static bool is_terminal(const struct stat *status)
{
    unsigned number = major(status->st_rdev);
    return S_ISCHR(status->st_mode) && (number == 4 || (number >= 136 && number <= 143));
}

/* Whether what this process writes to a descriptor reaches a terminal. mpirun puts a pipe, or a pseudo-terminal of its own,
 * between: then its own descriptor tells. */
static bool reaches_terminal(int fd, bool launched)
{
    char path[64];
    struct stat status;
    if (!launched)
        return isatty(fd);
    if (fstat(fd, &status) != 0 || S_ISREG(status.st_mode))
        return false;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getppid(), fd);
    return stat(path, &status) == 0 && is_terminal(&status);
}

static size_t count_sizes(const struct size_range *range)
{
    size_t n = 1;
    for (size_t size = range->first; size_next(range, size, &size) && n < 1000000;)
        n++;
    return n;
}

void progress_open(const struct bench *bench)
{
    if (bench->rank != 0)
        return;
    bool launched = bench->nranks > 1;
    progress.error_shown = reaches_terminal(STDERR_FILENO, launched);
    progress.output_shown = reaches_terminal(STDOUT_FILENO, launched);
    progress.sizes = count_sizes(&bench->options.range);
}

/* Points of the same datatype and operation that came before. */
static size_t position(const struct bench *bench, const struct bench_point *point)
{
    size_t n = 1;
    for (int i = 0; i < bench->npoints; i++)
        n += bench->points[i]->datatype == point->datatype && bench->points[i]->op == point->op;
    return n;
}

void progress_show(const struct bench *bench, const struct bench_point *point, int samples)
{
    char size[SIZE_TEXT];
    double now = MPI_Wtime();
    if (!progress.error_shown || now - progress.last < apart_s)
        return;
    progress.last = now;
    progress.on_screen = true;
    fprintf(stderr, "\r\033[K%s %s%s%s: size %s (%zu of %zu), round %d of %d contenders, %.0f s",
            bench->collective->program, tr_datatype_name(point->datatype), bench->collective->reduces ? " " : "",
            bench->collective->reduces ? tr_op_name(point->op) : "", size_format(point->requested, size),
            position(bench, point), progress.sizes, samples, bench->ncontenders, now - bench->began);
    fflush(stderr);
}

/* Where both go to the terminal, through the stream that is written to next: the launcher carries them separately. */
void progress_clear(void)
{
    if (!progress.on_screen)
        return;
    progress.on_screen = false;
    FILE *stream = progress.output_shown ? stdout : stderr;
    fputs("\r\033[K", stream);
    fflush(stream);
}

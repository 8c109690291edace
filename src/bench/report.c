/* report.c - all reports at once, and files that appear complete or not at all. */
#include "bench/report.h"
#include "bench/fail.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct bench_report *const reports[] = {&report_table, &report_json, &report_csv};
enum { NREPORTS = sizeof reports / sizeof *reports };

void reports_open(struct bench *bench)
{
    char why[512] = "";
    bool good = true;
    if (bench->rank == 0)
        for (int i = 0; i < NREPORTS && good; i++)
            good = reports[i]->open(bench, why, sizeof why);
    bench_agree(bench, good ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}

void reports_begin(struct bench *bench)
{
    if (bench->rank == 0)
        for (int i = 0; i < NREPORTS; i++)
            reports[i]->begin(bench);
}

void reports_point(struct bench *bench, const struct bench_point *point)
{
    if (bench->rank == 0)
        for (int i = 0; i < NREPORTS; i++)
            reports[i]->point(bench, point);
}

void reports_finish(struct bench *bench)
{
    char why[512] = "";
    bool good = true;
    if (bench->rank == 0)
        for (int i = 0; i < NREPORTS && good; i++)
            good = reports[i]->finish(bench, why, sizeof why);
    bench_agree(bench, good ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}

void reports_abandon(struct bench *bench)
{
    if (bench->rank == 0)
        for (int i = 0; i < NREPORTS; i++)
            reports[i]->abandon(bench);
}

/* ---- A file that appears complete or not at all ------------------------------------------------------------------ */

enum { MOST_FILES = 4 };
static const struct report_file *opened[MOST_FILES]; /* for remove_and_die() alone */

/* SIGINT and SIGTERM (mpirun's, when another rank died) leave no temporary file behind. */
static void remove_and_die(int number)
{
    for (int i = 0; i < MOST_FILES && opened[i]; i++)
        if (opened[i]->stream)
            unlink(opened[i]->temporary);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch(const struct report_file *file)
{
    int i = 0;
    while (i < MOST_FILES - 1 && opened[i])
        i++;
    opened[i] = file;
    struct sigaction action = {.sa_handler = remove_and_die};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool report_file_open(struct report_file *file, const char *path, char *why, size_t size)
{
    file->path = path;
    int length = snprintf(file->temporary, sizeof file->temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length >= (int)sizeof file->temporary)
        errno = ENAMETOOLONG;
    else
        file->stream = fopen(file->temporary, "wx");
    if (file->stream) {
        watch(file);
        return true;
    }
    snprintf(why, size, "cannot write %.200s: %s: give a path in a folder that exists and can be written", path,
             strerror(errno));
    return false;
}

bool report_file_finish(struct report_file *file, char *why, size_t size)
{
    bool good = fflush(file->stream) == 0 && !ferror(file->stream) && fsync(fileno(file->stream)) == 0;
    good = fclose(file->stream) == 0 && good;
    file->stream = NULL;
    if (good && rename(file->temporary, file->path) == 0)
        return true;
    snprintf(why, size, "cannot complete %.200s: %s: free space there, or give another path", file->path,
             strerror(errno));
    unlink(file->temporary);
    return false;
}

void report_file_abandon(struct report_file *file)
{
    if (!file->stream)
        return;
    fclose(file->stream);
    file->stream = NULL;
    unlink(file->temporary);
}

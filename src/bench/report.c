/* report.c - all reports at once, and files that appear complete or not at all. */
#include "bench/report.h"
#include "bench/fail.h"
#include "bench/table.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct bench_report *const reports[] = {&report_json, &report_csv, &report_table};
enum { NREPORTS = sizeof reports / sizeof *reports };

/* The table, the last of them, is left out of a quiet run. */
static int count(const struct bench *bench)
{
    return bench->options.quiet ? NREPORTS - 1 : NREPORTS;
}

void reports_open(struct bench *bench)
{
    char why[512] = "";
    bool good = true;
    if (bench->rank == 0)
        for (int i = 0; i < count(bench) && good; i++)
            good = reports[i]->open(bench, why, sizeof why);
    bench_agree(bench, good ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}

void reports_begin(struct bench *bench)
{
    if (bench->rank == 0)
        for (int i = 0; i < count(bench); i++)
            reports[i]->begin(bench);
}

void reports_row(struct bench *bench, const struct bench_point *point)
{
    if (bench->rank == 0 && !bench->options.quiet)
        table_row(bench, point);
}

void reports_group(struct bench *bench, enum tr_datatype datatype, enum tr_op op)
{
    if (bench->rank == 0 && !bench->options.quiet)
        table_group(bench, datatype, op);
}

void reports_anchor(struct bench *bench)
{
    if (bench->rank == 0 && !bench->options.quiet)
        table_anchor(bench);
}

void reports_finish(struct bench *bench)
{
    char why[512] = "";
    bool good = true;
    if (bench->rank == 0)
        for (int i = 0; i < count(bench) && good; i++)
            good = reports[i]->finish(bench, why, sizeof why);
    bench_agree(bench, good ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}

void reports_abandon(struct bench *bench)
{
    if (bench->rank == 0)
        for (int i = 0; i < count(bench); i++)
            reports[i]->abandon(bench);
}

/* ---- A file that appears complete or not at all ------------------------------------------------------------------ */

enum { MOST_FILES = 4 };
static const struct report_file *opened[MOST_FILES]; /* for report_files_remove() alone */

static void remove_temporary(const struct report_file *file)
{
    if (*file->temporary)
        unlink(file->temporary);
}

void report_files_remove(void)
{
    for (int i = 0; i < MOST_FILES && opened[i]; i++)
        if (opened[i]->stream)
            remove_temporary(opened[i]);
}

static void (*remove_more)(void); /* what else goes; may be NULL */

void report_also_remove(void (*remove)(void))
{
    remove_more = remove;
}

/* SIGINT and SIGTERM (mpirun's, when another rank died) leave no temporary file behind. */
static void remove_and_die(int number)
{
    report_files_remove();
    if (remove_more)
        remove_more();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch(const struct report_file *file)
{
    int i = 0;
    while (i < MOST_FILES - 1 && opened[i] && opened[i] != file)
        i++;
    opened[i] = file;
    struct sigaction action = {.sa_handler = remove_and_die};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Find target and temporary of what is (to be) a regular file. False leaves errno. */
static bool name_files(struct report_file *file, bool exists)
{
    struct stat link;
    if (exists && !realpath(file->path, file->target))
        return false;
    if (!exists && lstat(file->path, &link) == 0) { /* a link that leads nowhere: stat() failed */
        errno = ENOENT;
        return false;
    }
    if (!exists && snprintf(file->target, sizeof file->target, "%s", file->path) >= (int)sizeof file->target) {
        errno = ENAMETOOLONG;
        return false;
    }
    int length = snprintf(file->temporary, sizeof file->temporary, "%s.%ld.tmp", file->target, (long)getpid());
    if (length < (int)sizeof file->temporary)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/* Whether standard output or error goes to this very file, through /dev/stdout, say: it must not be replaced. */
static bool is_own_output(const struct stat *status)
{
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &own) == 0 && own.st_dev == status->st_dev && own.st_ino == status->st_ino)
            return true;
    return false;
}

/* NULL leaves errno. */
static FILE *open_stream(struct report_file *file)
{
    struct stat status;
    bool exists = stat(file->path, &status) == 0;
    *file->temporary = '\0';
    if (exists && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return NULL;
    }
    if (exists && (!S_ISREG(status.st_mode) || is_own_output(&status)))
        return fopen(file->path, "a");
    return name_files(file, exists) ? fopen(file->temporary, "wx") : NULL;
}

bool report_file_open(struct report_file *file, const char *path, char *why, size_t size)
{
    file->path = path;
    file->stream = open_stream(file);
    if (file->stream) {
        watch(file);
        return true;
    }
    snprintf(why, size, "cannot write %.200s: %s: give the path of a file in a folder that exists and can be written",
             path, strerror(errno));
    return false;
}

/* Flush and close; a file's data reach the disk before it takes its name. */
static bool close_stream(struct report_file *file)
{
    bool good = fflush(file->stream) == 0 && !ferror(file->stream);
    if (good && *file->temporary)
        good = fsync(fileno(file->stream)) == 0;
    good = fclose(file->stream) == 0 && good;
    file->stream = NULL;
    return good;
}

bool report_file_finish(struct report_file *file, char *why, size_t size)
{
    if (close_stream(file) && (!*file->temporary || rename(file->temporary, file->target) == 0))
        return true;
    snprintf(why, size, "cannot complete %.200s: %s: free space there, or give another path", file->path,
             strerror(errno));
    remove_temporary(file);
    return false;
}

void report_file_abandon(struct report_file *file)
{
    if (!file->stream)
        return;
    fclose(file->stream);
    file->stream = NULL;
    remove_temporary(file);
}

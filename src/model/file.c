/* file.c - a file that appears complete or not at all. */
#include "model/file.h"
#include "collectives/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum tr_status cannot_write(const char *path, int error)
{
    return tr_error(
        TR_ERR_SYSTEM,
        "cannot write %.300s: %s: give the path of a file in a folder that exists, can be written and has room", path,
        strerror(error));
}

/* 0, or an errno. */
static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, text, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        text += put;
        length -= (size_t)put;
    }
    return 0;
}

/* 0, or an errno. The data reach the disk before the caller gives the file its name. */
static int write_new(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int error = write_all(fd, text, length);
    if (error == 0 && fsync(fd) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

static enum tr_status write_straight(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return cannot_write(path, errno);
    int error = write_all(fd, text, length);
    close(fd);
    return error ? cannot_write(path, error) : TR_OK;
}

static enum tr_status replace(const char *path, const char *target, const char *text, size_t length)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", target, (long)getpid()) >= (int)sizeof temporary)
        return cannot_write(path, ENAMETOOLONG);
    int error = write_new(temporary, text, length);
    if (error == EEXIST)
        return cannot_write(temporary, error);
    if (error == 0 && rename(temporary, target) != 0)
        error = errno;
    if (error == 0)
        return TR_OK;
    unlink(temporary);
    return cannot_write(path, error);
}

enum tr_status tr_file_write(const char *path, const char *text, size_t length)
{
    struct stat status;
    char target[PATH_MAX];
    if (stat(path, &status) != 0) {
        bool leads_nowhere = lstat(path, &status) == 0;
        return leads_nowhere ? cannot_write(path, ENOENT) : replace(path, path, text, length);
    }
    if (!S_ISREG(status.st_mode))
        return write_straight(path, text, length);
    return realpath(path, target) ? replace(path, target, text, length) : cannot_write(path, errno);
}

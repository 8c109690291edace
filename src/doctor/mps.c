/* mps.c - whether the MPS control daemon lives: its socket is there, and somebody listens at it. */
#include "doctor/mps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A connection of another type than the daemon's is refused as such (EPROTOTYPE) and so disturbs nobody, while one to a
 * socket whose owner is gone is refused as refused (unix(7)). */
static enum mps_state ask_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return MPS_ANSWERS;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return MPS_ANSWERS;
    int refused = connect(fd, (const struct sockaddr *)&address, sizeof address) && errno == ECONNREFUSED;
    close(fd);
    return refused ? MPS_DEAD : MPS_ANSWERS;
}

/* A pipe that nobody reads cannot be opened for writing without waiting (fifo(7)). */
static enum mps_state ask_pipe(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENXIO ? MPS_DEAD : MPS_ANSWERS;
    close(fd);
    return MPS_ANSWERS;
}

enum mps_state mps_look(char *folder, size_t size)
{
    const char *wanted = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[512];
    struct stat control;
    snprintf(folder, size, "%s", wanted && *wanted ? wanted : "/tmp/nvidia-mps");
    snprintf(path, sizeof path, "%s/control", folder);
    if (stat(path, &control) != 0)
        return MPS_NONE;
    return S_ISSOCK(control.st_mode) ? ask_socket(path) : S_ISFIFO(control.st_mode) ? ask_pipe(path) : MPS_ANSWERS;
}

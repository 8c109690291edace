/*
 * shm.c - memory files without a name, shared over /proc/PID/fd.
 *
 * Everything that can fail fails here, with a sentence, and not later with a SIGBUS or the kernel's out-of-memory
 * killer: what the host and the control group still have is looked at first, then the pages are allocated.
 */
#include "collectives/shm.h"

#include "collectives/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number in a file such as /sys/fs/cgroup/memory.max, or SIZE_MAX ("max", or no such file). */
static size_t read_number(const char *path)
{
    unsigned long long number;
    FILE *file = fopen(path, "re");
    if (!file)
        return SIZE_MAX;
    int fields = fscanf(file, "%llu", &number);
    fclose(file);
    return fields == 1 ? (size_t)number : SIZE_MAX;
}

/* The sum of the numbers in the lines "NAME NUMBER" of a file that have either name; 0 if there is none. */
static size_t sum_fields(const char *path, const char *name, const char *other)
{
    char line[128], word[64];
    unsigned long long number;
    size_t sum = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %llu", word, &number) == 2 && (!strcmp(word, name) || !strcmp(word, other)))
            sum += (size_t)number;
    fclose(file);
    return sum;
}

/* What the control group (version 2) has left; its file cache counts as free, since the kernel drops it when needed. */
static size_t group_available(void)
{
    size_t most = read_number("/sys/fs/cgroup/memory.max");
    size_t used = read_number("/sys/fs/cgroup/memory.current");
    if (most == SIZE_MAX || used == SIZE_MAX)
        return SIZE_MAX;
    size_t cache = sum_fields("/sys/fs/cgroup/memory.stat", "active_file", "inactive_file");
    used = used > cache ? used - cache : 0;
    return most > used ? most - used : 0;
}

size_t tr_shm_available(void)
{
    size_t kib = sum_fields("/proc/meminfo", "MemAvailable:", "");
    size_t host = kib ? kib * 1024 : SIZE_MAX;
    size_t group = group_available();
    return host < group ? host : group;
}

static size_t round_to_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return bytes > SIZE_MAX - page ? SIZE_MAX / page * page : (bytes + page - 1) / page * page;
}

static enum tr_status check_available(size_t bytes, int nranks, const char *purpose)
{
    size_t available = tr_shm_available();
    if (bytes <= available / (size_t)nranks)
        return TR_OK;
    return tr_error(
        TR_ERR_MEMORY,
        "cannot get %zu bytes of shared memory for %s on each of %d ranks: the host or container has %zu bytes "
        "left in all; use fewer ranks or smaller buffers, or raise the memory limit",
        bytes, purpose, nranks, available);
}

static enum tr_status file_map(int fd, size_t bytes, int rank, void **address)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return tr_error(TR_ERR_MEMORY, "cannot map %zu bytes of rank %d: %s; raise `ulimit -v`, or use smaller buffers",
                        bytes, rank, strerror(errno));
    /* Advice only: a kernel without huge pages for shared memory refuses it, and that is fine. */
    madvise(mapped, bytes, MADV_HUGEPAGE);
    *address = mapped;
    return TR_OK;
}

/* Pages are made through the mapping where the kernel can,
 * because it makes huge ones only there; posix_fallocate() makes what is missing and says whether there was enough. */
enum tr_status tr_shm_file_create(size_t bytes, const char *purpose, int rank, int *fd, void **address)
{
    *fd = memfd_create("treering", MFD_CLOEXEC);
    if (*fd < 0)
        return tr_error(TR_ERR_SYSTEM, "memfd_create for %s failed: %s; free file descriptors, or raise `ulimit -n`",
                        purpose, strerror(errno));
    int error = ftruncate(*fd, (off_t)bytes) ? errno : 0;
    if (!error) {
        enum tr_status status = file_map(*fd, bytes, rank, address);
        if (status != TR_OK)
            return status;
#ifdef MADV_POPULATE_WRITE
        madvise(*address, bytes, MADV_POPULATE_WRITE);
#endif
        error = posix_fallocate(*fd, 0, (off_t)bytes);
    }
    if (!error)
        return TR_OK;
    return tr_error(
        TR_ERR_MEMORY,
        "cannot get %zu bytes of shared memory for %s: %s; free memory, or use fewer ranks or smaller buffers", bytes,
        purpose, strerror(error));
}

enum tr_status tr_shm_file_describe(int fd, struct tr_shm_file *file)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return tr_error(TR_ERR_SYSTEM, "fstat of a memory file failed: %s", strerror(errno));
    *file = (struct tr_shm_file){.pid = getpid(), .fd = fd, .device = status.st_dev, .inode = status.st_ino};
    return TR_OK;
}

static enum tr_status open_error(int rank, const char *path, const char *why)
{
    return tr_error(
        TR_ERR_SYSTEM,
        "cannot open rank %d's shared memory at %s: %s; ranks must run as one user in one PID namespace (start "
        "all of them in the same container, or give the containers the host's PID namespace)",
        rank, path, why);
}

enum tr_status tr_shm_file_map(const struct tr_shm_file *file, size_t bytes, int rank, void **address)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, file->pid, file->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return open_error(rank, path, strerror(errno));
    enum tr_status result;
    if (fstat(fd, &status) != 0 || status.st_dev != file->device || status.st_ino != file->inode)
        result = open_error(rank, path, "another process has this number here");
    else
        result = file_map(fd, bytes, rank, address);
    close(fd);
    return result;
}

/* Map the memory of every other rank. */
static enum tr_status map_peers(const struct tr_shm_file *files, int self, struct tr_shm *shm)
{
    for (int rank = 0; rank < shm->nranks; rank++) {
        if (rank == self)
            continue;
        enum tr_status status = tr_shm_file_map(&files[rank], shm->bytes, rank, &shm->rank[rank]);
        if (status != TR_OK)
            return status;
    }
    return TR_OK;
}

/* Tell the others where the file is, and map theirs. Nobody closes its descriptor before all have opened it. */
static enum tr_status exchange(struct tr_comm *comm, int fd, struct tr_shm_file *files, struct tr_shm *shm)
{
    struct tr_shm_file mine;
    enum tr_status status = tr_comm_agree(comm, tr_shm_file_describe(fd, &mine));
    if (status == TR_OK)
        status = tr_comm_gather(comm, &mine, files, sizeof mine);
    if (status == TR_OK)
        status = tr_comm_agree(comm, map_peers(files, comm->rank, shm));
    return status;
}

enum tr_status tr_shm_create(struct tr_comm *comm, size_t bytes, const char *purpose, struct tr_shm *shm)
{
    int fd = -1;
    struct tr_shm made = {.bytes = round_to_pages(bytes), .nranks = comm->size};
    struct tr_shm_file *files = calloc((size_t)comm->size, sizeof *files);
    made.rank = calloc((size_t)comm->size, sizeof *made.rank);

    enum tr_status status = check_available(made.bytes, comm->size, purpose);
    if (!files || !made.rank)
        status = tr_error(TR_ERR_MEMORY, "no memory for the tables of %d ranks", comm->size);
    status = tr_comm_agree(comm, status); /* all have looked at what is available before anyone takes of it */
    if (status == TR_OK)
        status = tr_comm_agree(comm, tr_shm_file_create(made.bytes, purpose, comm->rank, &fd, &made.rank[comm->rank]));
    if (status == TR_OK)
        status = exchange(comm, fd, files, &made);
    if (fd >= 0)
        close(fd);
    free(files);
    if (status != TR_OK) {
        tr_shm_destroy(&made);
        return status;
    }
    *shm = made;
    return TR_OK;
}

void tr_shm_destroy(struct tr_shm *shm)
{
    for (int rank = 0; shm->rank && rank < shm->nranks; rank++)
        if (shm->rank[rank])
            munmap(shm->rank[rank], shm->bytes);
    free(shm->rank);
    *shm = (struct tr_shm){0};
}

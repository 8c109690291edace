/*
 * shm.h - memory of every rank, mapped by every rank of the communicator.
 *
 * Each rank makes an anonymous memory file (memfd) and the others open it through /proc/PID/fd. Such a file has no
 * name: nothing is left behind however the processes end, and the size of /dev/shm does not matter.
 */
#ifndef TR_SHM_H
#define TR_SHM_H

#include "collectives/comm.h"

/* What a rank tells the others about its file; the device and inode show that the same file was opened. */
struct tr_shm_file {
    int64_t pid, fd;
    uint64_t device, inode;
};

/* Make this rank's file with all its pages, and map it; the descriptor must stay open until the others have mapped the
 * file. What was made before a failure (*fd >= 0, *address) is the caller's to undo. `purpose` as below. */
enum tr_status tr_shm_file_create(size_t bytes, const char *purpose, int rank, int *fd, void **address);
enum tr_status tr_shm_file_describe(int fd, struct tr_shm_file *file);
/* Open and map the file of another rank, `rank`. */
enum tr_status tr_shm_file_map(const struct tr_shm_file *file, size_t bytes, int rank, void **address);

/* Bytes that may still be allocated: what the host has left, or the container if that is less. */
size_t tr_shm_available(void);

struct tr_shm {
    size_t bytes; /* of each rank, a multiple of the page size */
    int nranks;
    void **rank; /* where this process sees each rank's memory; NULL: nothing is mapped */
};

/* Allocate `bytes` (> 0, the same everywhere) on each rank, zeroed and backed by real pages, and map it on all.
 * `purpose` ends a sentence: "cannot get 8 MiB for PURPOSE". Collective: it succeeds or fails on all ranks. Errors:
 * MEMORY, SYSTEM, MPI. */
enum tr_status tr_shm_create(struct tr_comm *comm, size_t bytes, const char *purpose, struct tr_shm *shm);

/* Unmap; safe on a zeroed or failed one. Not collective: the pages go when the last rank has unmapped them. */
void tr_shm_destroy(struct tr_shm *shm);

#endif

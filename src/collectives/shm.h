/*
 * shm.h - memory of every rank, mapped by every rank of the communicator.
 *
 * Each rank makes an anonymous memory file (memfd) and the others open it through /proc/PID/fd. Such a file has no
 * name: nothing is left behind however the processes end, and the size of /dev/shm does not matter.
 */
#ifndef TR_SHM_H
#define TR_SHM_H

#include "collectives/comm.h"

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

/*
 * wait_host.c - waiting for a peer on the host, and what ends a wait other than the peer: an abort, its death, time.
 *
 * An abort word says who gave up, why, and over which rank: reason + (rank << 8) + ((about + 1) << 32). Each rank has
 * one, so that a waiting rank polls memory of its own.
 */
#include "collectives/error.h"
#include "collectives/exec_host.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static const double LOOK_INTERVAL_S = 0.1; /* between looks whether the peer's process is alive */
enum { ROUNDS_PER_CLOCK = 8 };             /* the clock is read once in so many rounds */

static struct tr_host_header *header(const struct tr_host *host, int rank)
{
    return host->areas.rank[rank];
}

void tr_host_abort(struct tr_host *host, enum tr_host_reason reason, int about)
{
    uint64_t word = (uint64_t)reason | (uint64_t)host->comm->rank << 8 | (uint64_t)(about + 1) << 32;
    for (int rank = 0; rank < host->comm->size; rank++) {
        uint64_t none = 0;
        atomic_compare_exchange_strong(&header(host, rank)->abort, &none, word);
    }
}

enum tr_status tr_host_aborted(const struct tr_host *host)
{
    uint64_t word = atomic_load(host->abort);
    int rank = (int)(word >> 8 & 0xffffff), about = (int)(word >> 32) - 1;
    switch ((enum tr_host_reason)(word & 0xff)) {
    case TR_REASON_ASKED:
        return tr_error(TR_ERR_ABORTED, "the communicator was aborted: tr_comm_abort() was called on rank %d", rank);
    case TR_REASON_TIMEOUT:
        if (about == TR_ANY_RANK)
            return tr_error(TR_ERR_ABORTED, "the communicator was aborted by rank %d, which waited in vain", rank);
        return tr_error(TR_ERR_ABORTED,
                        "the communicator was aborted by rank %d, which waited in vain for rank %d (pid %d)", rank,
                        about, host->pids[about]);
    case TR_REASON_DIED:
        return tr_error(TR_ERR_ABORTED,
                        "the communicator was aborted by rank %d, because rank %d (pid %d) has ended; see why it did",
                        rank, about, host->pids[about]);
    default:
        return tr_error(TR_ERR_ABORTED, "the communicator was aborted by rank %d; its own message says why", rank);
    }
}

/* The state of a process as /proc shows it, 'X' when it is gone; if that cannot be found out, it counts as sleeping. */
static char process_state(int pid)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT || errno == ESRCH ? 'X' : 'S';
    const char *end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* pid (name) state ... */
    fclose(file);
    return end && end[1] != '\0' ? end[2] : 'X';
}

static bool has_ended(int pid)
{
    char state = process_state(pid);
    return state == 'Z' || state == 'X';
}

/* The first rank whose process is stopped (by SIGSTOP or a debugger); TR_ANY_RANK: none. */
static int find_stopped(const struct tr_host *host)
{
    for (int r = 0; r < host->comm->size; r++) {
        char state = process_state(host->pids[r]);
        if (state == 'T' || state == 't')
            return r;
    }
    return TR_ANY_RANK;
}

/* The rank that has ended, of all ranks or of the one that is waited for; TR_ANY_RANK: none. */
static int find_ended(const struct tr_host *host, int rank)
{
    if (rank != TR_ANY_RANK)
        return has_ended(host->pids[rank]) ? rank : TR_ANY_RANK;
    for (int r = 0; r < host->comm->size; r++)
        if (has_ended(host->pids[r]))
            return r;
    return TR_ANY_RANK;
}

/* Whom a wait for `rank` is for in the end: in a collective the rank that has entered the fewest calls, if fewer
 * than this one, for `rank` may itself be waiting; else `rank`. */
static int find_late(const struct tr_host *host, int rank)
{
    uint64_t fewest = atomic_load(&header(host, host->comm->rank)->calls);
    for (int r = 0; host->call->domain.sender < 0 && r < host->comm->size; r++) {
        uint64_t calls = atomic_load(&header(host, r)->calls);
        if (calls < fewest) {
            fewest = calls;
            rank = r;
        }
    }
    return rank;
}

static enum tr_status timed_out(struct tr_host *host, int rank, double waited)
{
    const struct tr_comm *comm = host->comm;
    const char *call = tr_collective_name(host->call->collective);
    if (atomic_load(host->abort) != 0)
        return tr_host_aborted(host);
    int stopped = find_stopped(host);
    rank = stopped != TR_ANY_RANK ? stopped : find_late(host, rank);
    tr_host_abort(host, TR_REASON_TIMEOUT, rank);
    if (stopped != TR_ANY_RANK)
        return tr_error(TR_ERR_TIMEOUT,
                        "%s waited %.3g s: rank %d (pid %d on %s) is stopped; send it SIGCONT, or end it", call, waited,
                        stopped, host->pids[stopped], comm->info.host);
    if (rank == TR_ANY_RANK)
        return tr_error(
            TR_ERR_TIMEOUT,
            "%s waited %.3g s for a message: all ranks have entered the call and live, but one does not get on; "
            "look for one that is stopped or passed other arguments",
            call, waited);
    if (host->call->domain.sender >= 0)
        return tr_error(
            TR_ERR_TIMEOUT,
            "%s waited %.3g s for rank %d (pid %d on %s): its process lives, but it has not come to the matching "
            "call; look what it does (two ranks that both send first wait for each other), or raise "
            "TREERING_TIMEOUT",
            call, waited, rank, host->pids[rank], comm->info.host);
    unsigned long long mine = atomic_load(&header(host, comm->rank)->calls);
    unsigned long long its = atomic_load(&header(host, rank)->calls);
    const char *state = its < mine ? "has not entered this call" : "has entered this call, but does not get on";
    return tr_error(
        TR_ERR_TIMEOUT,
        "%s, collective call %llu, waited %.3g s for rank %d (pid %d on %s): its process lives and %s (it is "
        "at call %llu); look what it does, or raise TREERING_TIMEOUT",
        call, mine, waited, rank, host->pids[rank], comm->info.host, state, its);
}

static enum tr_status ended(struct tr_host *host, int rank)
{
    if (atomic_load(host->abort) != 0) /* it gave up, and this rank hears of it late */
        return tr_host_aborted(host);
    tr_host_abort(host, TR_REASON_DIED, rank);
    return tr_error(TR_ERR_PEER, "%s: rank %d (pid %d on %s) has ended while others still wait for it; see why it did",
                    tr_collective_name(host->call->collective), rank, host->pids[rank], host->comm->info.host);
}

enum tr_status tr_host_wait_long(struct tr_host *host, const _Atomic uint64_t *tick, uint64_t target, int rank)
{
    double start = 0, next_look = 0;
    for (unsigned round = 1;; round++) {
        for (int i = 0; i < host->spins; i++) {
            if (atomic_load_explicit(tick, memory_order_acquire) >= target)
                return TR_OK;
            tr_host_pause();
        }
        if (atomic_load_explicit(host->abort, memory_order_relaxed) != 0)
            return tr_host_aborted(host);
        sched_yield();
        if (round % ROUNDS_PER_CLOCK != 0)
            continue;
        double now = tr_seconds();
        if (start == 0)
            start = now;
        if (now < next_look || atomic_load_explicit(tick, memory_order_acquire) >= target)
            continue;
        int gone = next_look == 0 ? TR_ANY_RANK : find_ended(host, rank);
        next_look = now + LOOK_INTERVAL_S;
        if (gone != TR_ANY_RANK)
            return ended(host, gone);
        if (now - start > host->comm->timeout_s)
            return timed_out(host, rank, now - start);
    }
}

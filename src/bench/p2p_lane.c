/*
 * p2p_lane.c - CPU ranks: messages through memory, with a flag that says that one is there and another that it was taken.
 *
 * A transfer that nobody looks at stays in the writer's cache, and a source that nobody changes in the reader's. So a message
 * counts as sent only when its receiver has it: whoever does not copy touches every line, the receiver of a store by
 * reading a word, the sender of a load by writing one anew. Two messages are under way at most, in two slots.
 */
#include "bench/p2p_memory.h"
#include "bench/p2p_method.h"
#include "collectives/comm.h" /* tr_seconds() */
#include "collectives/error.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

enum { LINE = 64, SPINS = 1000, DEFAULT_TIMEOUT_S = 30 };

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static double timeout_of(const struct p2p *p2p)
{
    return p2p->options.timeout_s > 0 ? p2p->options.timeout_s : DEFAULT_TIMEOUT_S;
}

static enum tr_status wait_long(struct p2p *p2p, const _Atomic uint64_t *count, uint64_t target, int peer)
{
    double deadline = tr_seconds() + timeout_of(p2p);
    while (atomic_load_explicit(count, memory_order_acquire) < target) {
        sched_yield();
        enum tr_status status = tr_comm_async_error(p2p->bench.comm);
        if (status != TR_OK)
            return status;
        if (tr_seconds() > deadline)
            return tr_error(TR_ERR_TIMEOUT, "rank %d did not answer within %g s", peer, timeout_of(p2p));
    }
    return TR_OK;
}

static enum tr_status await(struct p2p *p2p, const char *line, uint64_t target, int peer)
{
    const _Atomic uint64_t *count = (const _Atomic uint64_t *)line;
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(count, memory_order_acquire) >= target)
            return TR_OK;
    return wait_long(p2p, count, target, peer);
}

static void announce(char *line, uint64_t count)
{
    atomic_store_explicit((_Atomic uint64_t *)line, count, memory_order_release);
}

/* ---- One message ------------------------------------------------------------------------------------------------- */

static enum tr_status post(struct p2p *p2p, const struct p2p_run *run, int i)
{
    enum tr_status status = run->method->send(p2p, run, i);
    if (status == TR_OK)
        announce(p2p_posted_line(p2p, run->peer, p2p->rank), ++p2p->posted[run->peer]);
    return status;
}

static enum tr_status take(struct p2p *p2p, const struct p2p_run *run, int i)
{
    enum tr_status status = await(p2p, p2p_posted_line(p2p, p2p->rank, run->peer), ++p2p->taken[run->peer], run->peer);
    return status ? status : run->method->receive(p2p, run, i);
}

static void say_taken(struct p2p *p2p, const struct p2p_run *run)
{
    announce(p2p_taken_line(p2p, run->peer, p2p->rank), p2p->taken[run->peer]);
}

/* Until at most `under_way` of this rank's messages are not taken. */
static enum tr_status await_taken(struct p2p *p2p, const struct p2p_run *run, uint64_t under_way)
{
    uint64_t posted = p2p->posted[run->peer];
    return posted <= under_way ? TR_OK
                               : await(p2p, p2p_taken_line(p2p, p2p->rank, run->peer), posted - under_way, run->peer);
}

/* The i-th message of a run, when its slot is free. */
static enum tr_status post_next(struct p2p *p2p, const struct p2p_run *run, int i)
{
    enum tr_status status = await_taken(p2p, run, p2p->nslots - 1);
    return status ? status : post(p2p, run, i);
}

static enum tr_status take_next(struct p2p *p2p, const struct p2p_run *run, int i)
{
    enum tr_status status = take(p2p, run, i);
    if (status == TR_OK)
        say_taken(p2p, run);
    return status;
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

/* The answer says that the message was taken. */
enum tr_status p2p_lane_there_and_back(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    double began = tr_seconds();
    enum tr_status status = TR_OK;
    for (int i = 0; i < run->iterations && status == TR_OK; i++) {
        status = run->forward ? post(p2p, run, i) : take(p2p, run, i);
        if (status == TR_OK)
            status = run->forward ? take(p2p, run, i) : post(p2p, run, i);
    }
    *seconds = run->forward ? tr_seconds() - began : 0;
    say_taken(p2p, run);
    return status;
}

enum tr_status p2p_lane_one_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    double began = tr_seconds();
    enum tr_status status = TR_OK;
    for (int i = 0; i < run->iterations && status == TR_OK; i++)
        status = run->forward ? post_next(p2p, run, i) : take_next(p2p, run, i);
    if (run->forward && status == TR_OK)
        status = await_taken(p2p, run, 0);
    *seconds = run->forward ? tr_seconds() - began : 0;
    return status;
}

enum tr_status p2p_lane_two_way(struct p2p *p2p, const struct p2p_run *run, double *seconds)
{
    double began = tr_seconds();
    enum tr_status status = TR_OK;
    for (int i = 0; i < run->iterations && status == TR_OK; i++) {
        status = post_next(p2p, run, i);
        if (status == TR_OK)
            status = take_next(p2p, run, i);
    }
    if (status == TR_OK)
        status = await_taken(p2p, run, 0);
    *seconds = tr_seconds() - began;
    return status;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

static char *slot(const struct p2p *p2p, char *slots, int i)
{
    return slots + (size_t)i % p2p->nslots * p2p->slot_bytes;
}

/* Bring every line here. */
static void read_lines(const char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE)
        (void)*(const volatile char *)(data + at);
}

/* Make every line this CPU's own, as if it had just been computed; the value stays. */
static void renew_lines(char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE) {
        volatile char *byte = data + at;
        *byte = *byte;
    }
}

enum tr_status p2p_store_send(struct p2p *p2p, const struct p2p_run *run, int i)
{
    memcpy(slot(p2p, p2p_shared_at(p2p, run->peer), i), p2p->source, run->bytes);
    return TR_OK;
}

enum tr_status p2p_touch_receive(struct p2p *p2p, const struct p2p_run *run, int i)
{
    read_lines(slot(p2p, run->method->target(p2p), i), run->bytes);
    return TR_OK;
}

enum tr_status p2p_load_send(struct p2p *p2p, const struct p2p_run *run, int i)
{
    renew_lines(slot(p2p, p2p->shared, i), run->bytes);
    return TR_OK;
}

enum tr_status p2p_load_receive(struct p2p *p2p, const struct p2p_run *run, int i)
{
    memcpy(slot(p2p, p2p->sink, i), slot(p2p, p2p_shared_at(p2p, run->peer), i), run->bytes);
    return TR_OK;
}

enum tr_status p2p_flag_move(struct p2p *p2p, const struct p2p_run *run, int i)
{
    (void)p2p;
    (void)run;
    (void)i;
    return TR_OK;
}

/* ---- Cross-memory attach ----------------------------------------------------------------------------------------- */

/* 0, or an errno. */
static int write_to(int pid, char *to, char *from, size_t bytes)
{
    while (bytes > 0) {
        struct iovec local = {from, bytes}, remote = {to, bytes};
        ssize_t written = process_vm_writev(pid, &local, 1, &remote, 1, 0);
        if (written <= 0)
            return written < 0 ? errno : EFAULT;
        from += written;
        to += written;
        bytes -= (size_t)written;
    }
    return 0;
}

enum tr_status p2p_cma_send(struct p2p *p2p, const struct p2p_run *run, int i)
{
    int error = write_to(p2p->pids[run->peer], slot(p2p, p2p->sinks[run->peer], i), p2p->source, run->bytes);
    if (error == 0)
        return TR_OK;
    return tr_error(error == ESRCH ? TR_ERR_PEER : TR_ERR_SYSTEM,
                    "process_vm_writev of %zu bytes to rank %d (pid %d) failed: %s", run->bytes, run->peer,
                    p2p->pids[run->peer], strerror(error));
}

/* Every rank writes a byte to every other. */
bool p2p_cma_available(struct p2p *p2p, const struct p2p_method *method, char *why, size_t size)
{
    (void)method;
    int error = 0, worst = 0;
    for (int r = 0; r < p2p->nranks && error == 0; r++)
        if (r != p2p->rank)
            error = write_to(p2p->pids[r], p2p->sinks[r], p2p->source, 1);
    MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (worst)
        snprintf(why, size, "process_vm_writev between the ranks fails: %s (see /proc/sys/kernel/yama/ptrace_scope)",
                 strerror(worst));
    return worst == 0;
}

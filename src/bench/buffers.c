/* buffers.c - the buffers that contenders work in. */
#include "bench/buffers.h"
#include "bench/backend.h"
#include "bench/fail.h"
#include "bench/limits.h"

#include <stdio.h>

static enum tr_status alloc_plain(struct bench *bench, size_t bytes, void **ptr)
{
    if (!bench->backend->alloc(bytes, ptr))
        bench_die(bench, "%zu bytes of buffer: %s", bytes, bench->backend->error());
    return TR_OK;
}

static enum tr_status free_plain(struct bench *bench, void *ptr)
{
    bench->backend->release(ptr);
    return TR_OK;
}

static enum tr_status alloc_own(struct bench *bench, size_t bytes, void **ptr)
{
    return bench->options.plain ? alloc_plain(bench, bytes, ptr) : tr_mem_alloc(bench->comm, bytes, ptr);
}

static enum tr_status free_own(struct bench *bench, void *ptr)
{
    return bench->options.plain ? free_plain(bench, ptr) : tr_mem_free(bench->comm, ptr);
}

static enum tr_status alloc_window(struct bench *bench, size_t bytes, void **ptr)
{
    return tr_mem_alloc_nccl(bench->comm, bytes, ptr);
}

static enum tr_status free_window(struct bench *bench, void *ptr)
{
    return tr_mem_free_nccl(bench->comm, ptr);
}

static const struct {
    enum tr_status (*alloc)(struct bench *bench, size_t bytes, void **ptr);
    enum tr_status (*release)(struct bench *bench, void *ptr);
    const char *name;
} kinds[BENCH_MEMORY_COUNT] = {
    [BENCH_OWN] = {alloc_own, free_own, "allocating our buffers"},
    [BENCH_PLAIN] = {alloc_plain, free_plain, "allocating plain buffers"},
    [BENCH_WINDOW] = {alloc_window, free_window, "allocating NCCL's symmetric windows"},
};

void buffers_open(struct bench *bench)
{
    size_t send, recv;
    limits_buffer_bytes(bench, bench->options.range.last, &send, &recv);
    for (int kind = 0; kind < BENCH_MEMORY_COUNT; kind++) {
        struct bench_buffers *set = &bench->buffers[kind];
        if (!set->used)
            continue;
        watchdog_arm(bench, 0, kinds[kind].name);
        bench_agree_status(bench, kinds[kind].alloc(bench, send, &set->send), kinds[kind].name);
        bench_agree_status(bench, kinds[kind].alloc(bench, recv, &set->recv), kinds[kind].name);
    }
}

void buffers_close(struct bench *bench)
{
    for (int kind = 0; kind < BENCH_MEMORY_COUNT; kind++) {
        struct bench_buffers *set = &bench->buffers[kind];
        if (!set->used)
            continue;
        bench_agree_status(bench, kinds[kind].release(bench, set->recv), "freeing buffers");
        bench_agree_status(bench, kinds[kind].release(bench, set->send), "freeing buffers");
        set->used = false;
    }
}

struct buffers_pointers buffers_of(const struct bench *bench, const struct bench_contender *contender,
                                   const struct bench_shape *shape, size_t element_bytes, bool checked)
{
    const struct bench_buffers *set = &bench->buffers[contender->memory];
    if (!bench->options.in_place)
        return (struct buffers_pointers){set->send, set->recv};
    char *base = checked ? set->recv : set->send;
    return (struct buffers_pointers){base + shape->send_in_place * element_bytes,
                                     base + shape->recv_in_place * element_bytes};
}

void buffers_fill(struct bench *bench, const struct bench_shape *shape, enum tr_datatype datatype,
                  const struct pattern *pattern)
{
    for (int kind = 0; kind < BENCH_MEMORY_COUNT; kind++) {
        const struct bench_contender any = {.memory = (enum bench_memory)kind};
        if (!bench->buffers[kind].used)
            continue;
        void *send = buffers_of(bench, &any, shape, tr_datatype_size(datatype), false).send;
        if (!bench->backend->fill(pattern, bench->rank, send, shape->send) || !bench->backend->wait())
            bench_die(bench, "%s", bench->backend->error());
    }
}

/*
 * packet_host.c - steps of the LL protocol on the host.
 *
 * A message is a row of 64-byte packets that carry their own flag, so a reader needs nothing but the data itself. A
 * message without elements is one packet still: its arrival is what makes every rank's exit follow every rank's entry.
 */
#include "collectives/exec_host.h"

#include <string.h>

enum { BLOCK_PACKETS = 32, MAX_SOURCES = UINT8_MAX };

static size_t packets_of(size_t bytes)
{
    return bytes <= TR_PACKET_PAYLOAD ? 1 : (bytes + TR_PACKET_PAYLOAD - 1) / TR_PACKET_PAYLOAD;
}

static inline enum tr_status receive(const struct tr_host_run *run, const struct tr_packet *packet)
{
    return tr_host_wait(run->host, &packet->flag, run->base, run->sender);
}

/* Send `bytes` at `data` as packets. */
static void pack(struct tr_packet *packets, const char *data, size_t bytes, uint64_t flag)
{
    for (; bytes >= TR_PACKET_PAYLOAD; packets++, data += TR_PACKET_PAYLOAD, bytes -= TR_PACKET_PAYLOAD) {
        memcpy(packets->payload, data, TR_PACKET_PAYLOAD);
        atomic_store_explicit(&packets->flag, flag, memory_order_release);
    }
    if (bytes > 0) {
        memcpy(packets->payload, data, bytes);
        atomic_store_explicit(&packets->flag, flag, memory_order_release);
    }
}

/* Receive `bytes` into `data`, which has room for whole packets. The last packet is awaited first: looking at the
 * others while they are written would take their lines away from the writer. */
static enum tr_status unpack(const struct tr_host_run *run, const struct tr_packet *packets, char *data, size_t bytes)
{
    size_t n = packets_of(bytes);
    enum tr_status status = receive(run, &packets[n - 1]);
    for (size_t i = 0; status == TR_OK && i < n; i++) {
        status = receive(run, &packets[i]);
        memcpy(data + i * TR_PACKET_PAYLOAD, packets[i].payload, TR_PACKET_PAYLOAD);
    }
    return status;
}

/* Hand the result of packets [first, ...) of the message, or of that part of the chunk, to every destination. */
static void deliver(const struct tr_host_run *run, const struct tr_program_ref *refs, int ndst, size_t j, size_t first,
                    const char *data, size_t bytes)
{
    for (int k = 0; k < ndst; k++) {
        char *to = tr_host_address(run, &refs[k], j);
        if (refs[k].buffer == TR_BOX)
            pack((struct tr_packet *)(void *)to + first, data, bytes, run->base);
        else if (to + first * TR_PACKET_PAYLOAD != data)
            memcpy(to + first * TR_PACKET_PAYLOAD, data, bytes);
    }
}

/* A message of one packet is reduced where it lies. */
static enum tr_status single_packet(const struct tr_host_run *run, const struct tr_program_step *step, size_t j,
                                    size_t count)
{
    const struct tr_program_ref *refs = run->code->refs + step->ref;
    const void *src[MAX_SOURCES];
    for (int k = 0; k < step->nsrc; k++) {
        src[k] = tr_host_address(run, &refs[k], j);
        if (refs[k].buffer != TR_BOX)
            continue;
        enum tr_status status = receive(run, src[k]);
        if (status != TR_OK)
            return status;
    }
    _Alignas(TR_HOST_LINE) char result[TR_HOST_LINE];
    struct tr_reduce_dst dst = {.address = result};
    tr_reduce_host(run->kernel, step->final ? run->divisor : 0, &dst, 1, src, step->nsrc, count);
    refs += step->nsrc;
    for (int k = 0; k < step->ndst; k++) {
        char *to = tr_host_address(run, &refs[k], j);
        if (refs[k].buffer == TR_BOX)
            pack((struct tr_packet *)(void *)to, result, TR_PACKET_PAYLOAD, run->base);
        else
            memcpy(to, result, count * run->element);
    }
    return TR_OK;
}

/* Collect the sources of packets [first, ...), unpacked ones one behind the other in the scratch memory. */
static enum tr_status collect(const struct tr_host_run *run, const struct tr_program_ref *refs, int nsrc, size_t j,
                              size_t first, size_t bytes, const void **src)
{
    char *scratch = run->host->scratch;
    for (int k = 0; k < nsrc; k++) {
        const char *from = tr_host_address(run, &refs[k], j);
        src[k] = from + first * TR_PACKET_PAYLOAD;
        if (refs[k].buffer != TR_BOX)
            continue;
        enum tr_status status = unpack(run, (const struct tr_packet *)(const void *)from + first, scratch, bytes);
        if (status != TR_OK)
            return status;
        src[k] = scratch;
        scratch += packets_of(bytes) * TR_PACKET_PAYLOAD;
    }
    return TR_OK;
}

enum tr_status tr_packet_step(const struct tr_host_run *run, const struct tr_program_step *step, size_t j, size_t count)
{
    size_t bytes = count * run->element;
    if (bytes <= TR_PACKET_PAYLOAD)
        return single_packet(run, step, j, count);

    const struct tr_program_ref *refs = run->code->refs + step->ref;
    size_t room = TR_HOST_SCRATCH / TR_PACKET_PAYLOAD / (step->nsrc + 1u);
    size_t block = (room < BLOCK_PACKETS ? room : BLOCK_PACKETS) * TR_PACKET_PAYLOAD;
    bool copy = step->nsrc == 1 && !(step->final && run->divisor);
    for (size_t at = 0; at < bytes; at += block) {
        size_t n = bytes - at < block ? bytes - at : block;
        const void *src[MAX_SOURCES];
        enum tr_status status = collect(run, refs, step->nsrc, j, at / TR_PACKET_PAYLOAD, n, src);
        if (status != TR_OK)
            return status;
        struct tr_reduce_dst dst = {.address = run->host->scratch + TR_HOST_SCRATCH};
        if (!copy)
            tr_reduce_host(run->kernel, step->final ? run->divisor : 0, &dst, 1, src, step->nsrc, n / run->element);
        deliver(run, refs + step->nsrc, step->ndst, j, at / TR_PACKET_PAYLOAD, copy ? src[0] : dst.address, n);
    }
    return TR_OK;
}

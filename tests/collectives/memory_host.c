/* memory_host.c - host memory for the tests. */
#include "memory.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const int memory_protocols[] = {TR_PROTOCOL_AUTO, TR_PROTOCOL_LL, TR_PROTOCOL_DIRECT, -1};
const int memory_channels[] = {0, -1};

const char *memory_unavailable(void)
{
    return NULL;
}

enum tr_memory memory_kind(void)
{
    return TR_MEMORY_HOST;
}

void memory_attach(const struct tr_comm *comm)
{
    (void)comm;
}

void *memory_new(size_t bytes)
{
    void *ptr = malloc(bytes);
    if (!ptr)
        tap_bail_out("no %zu bytes of memory", bytes);
    return ptr;
}

void memory_delete(void *ptr)
{
    free(ptr);
}

void *memory_new_image(size_t bytes)
{
    return memory_new(bytes);
}

void memory_delete_image(void *image)
{
    free(image);
}

void *memory_stream(void)
{
    return NULL;
}

void memory_put(void *to, const void *image, size_t bytes)
{
    memcpy(to, image, bytes);
}

void memory_get(void *image, const void *from, size_t bytes)
{
    memcpy(image, from, bytes);
}

void memory_finish(void)
{
}

/* The resident set. */
size_t memory_in_use(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1)
        tap_bail_out("cannot read /proc/self/statm");
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

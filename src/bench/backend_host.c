/* backend_host.c - host memory for the benches. */
#include "bench/backend.h"
#include "bench/verify_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool open_host(int device)
{
    (void)device;
    return true;
}

static void close_host(void)
{
}

static const char *error_host(void)
{
    return "host memory could not be had: run with a smaller -e";
}

static void *stream_host(void)
{
    return NULL;
}

/* A number after `key` in a file of lines "key number unit"; without a key the file's first number. */
static bool read_number(const char *path, const char *key, size_t *number)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char line[256];
    bool found = false;
    size_t skip = strlen(key);
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, key, skip) == 0 && sscanf(line + skip, "%zu", number) == 1;
    fclose(file);
    return found;
}

/* MemAvailable, or what the control group still grants if that is less. */
static bool free_bytes_host(size_t *bytes)
{
    size_t kilobytes, limit, current;
    if (!read_number("/proc/meminfo", "MemAvailable:", &kilobytes))
        return false;
    *bytes = kilobytes * 1024;
    if (read_number("/sys/fs/cgroup/memory.max", "", &limit) &&
        read_number("/sys/fs/cgroup/memory.current", "", &current)) {
        size_t granted = limit > current ? limit - current : 0;
        *bytes = granted < *bytes ? granted : *bytes;
    }
    return true;
}

enum { ALIGNMENT = 4096 };

/* Touched, so that no page is faulted in while a clock runs. */
static bool alloc_host(size_t bytes, void **ptr)
{
    void *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (!memory)
        return false;
    memset(memory, 0, bytes);
    *ptr = memory;
    return true;
}

static bool wait_host(void)
{
    return true;
}

static int64_t entered_ns, started_ns;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static bool enter_host(void)
{
    entered_ns = now();
    return true;
}

static bool entered_host(bool own, int64_t *ns, int64_t *uncertainty_ns)
{
    (void)own;
    *ns = entered_ns;
    *uncertainty_ns = 0;
    return true;
}

static bool clock_start_host(void)
{
    started_ns = now();
    return true;
}

static bool clock_stop_host(double *seconds)
{
    *seconds = 1e-9 * (double)(now() - started_ns);
    return true;
}

static bool fill_host(const struct pattern *pattern, int rank, void *data, size_t count)
{
    verify_host_fill(pattern, rank, data, count);
    return true;
}

static bool poison_host(void *data, size_t bytes)
{
    memset(data, 0xFF, bytes);
    return true;
}

static bool count_wrong_host(const struct pattern *pattern, const void *data, size_t count, size_t *wrong)
{
    *wrong = verify_host_count_wrong(pattern, data, count);
    return true;
}

const struct bench_backend backend_host = {
    .memory = TR_MEMORY_HOST,
    .open = open_host,
    .close = close_host,
    .error = error_host,
    .stream = stream_host,
    .free_bytes = free_bytes_host,
    .alloc = alloc_host,
    .release = free,
    .wait = wait_host,
    .enter = enter_host,
    .entered = entered_host,
    .clock_start = clock_start_host,
    .clock_stop = clock_stop_host,
    .fill = fill_host,
    .poison = poison_host,
    .count_wrong = count_wrong_host,
};

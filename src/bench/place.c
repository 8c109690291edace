/* place.c - where each rank runs. */
#include "bench/place.h"
#include "bench/fail.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value of a line "key: value" of /proc/self/status; "" if there is none. */
static void read_status(const char *key, char *value, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/self/status", "re");
    *value = '\0';
    while (file && *value == '\0' && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *rest = line + strlen(key);
        rest += strspn(rest, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(rest, "\n"), rest);
    }
    if (file)
        fclose(file);
}

void places_gather(struct bench *bench)
{
    struct bench_place mine = {.node = -1, .pid = (int)getpid()};
    unsigned cpu, node;
    read_status("Cpus_allowed_list:", mine.cpus, sizeof mine.cpus);
    read_status("Mems_allowed_list:", mine.memory, sizeof mine.memory);
    if (getcpu(&cpu, &node) == 0)
        mine.node = (int)node;
    bench->places = calloc((size_t)bench->nranks, sizeof *bench->places);
    if (!bench->places)
        bench_die(bench, "no memory for %d ranks' places", bench->nranks);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, bench->places, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
}

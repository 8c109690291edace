/*
 * place_host.c - where the ranks run: which processes they are, whether they share CPUs, and how much cache each has.
 */
#include "collectives/error.h"
#include "collectives/exec_host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPINS_ALONE = 1000, SPINS_OVERSUBSCRIBED = 1 };

/* What a rank tells the others about its process. */
struct process {
    int pid;
    uintptr_t probe; /* the address of its tr_host.probe */
    cpu_set_t cpus;  /* that it may run on */
};

/* Ranks that may run on just the CPUs that rank `self` may run on. */
static int count_alike(const struct process *all, int self, int nranks)
{
    int alike = 0;
    for (int r = 0; r < nranks; r++)
        alike += CPU_EQUAL(&all[r].cpus, &all[self].cpus) != 0;
    return alike;
}

/* Whether ranks have to share a CPU: fewer CPUs than ranks in all, or for some that are bound alike. */
static bool is_oversubscribed(const struct process *all, int nranks)
{
    bool shared = false;
    cpu_set_t any;
    CPU_ZERO(&any);
    for (int r = 0; r < nranks; r++) {
        CPU_OR(&any, &any, &all[r].cpus);
        shared = shared || count_alike(all, r, nranks) > CPU_COUNT(&all[r].cpus);
    }
    return shared || nranks > CPU_COUNT(&any);
}

/* The first word of a file, "" if there is none. */
static void read_word(const char *path, char word[64])
{
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%63s", word) != 1)
        word[0] = '\0';
    if (file)
        fclose(file);
}

/* CPUs in a mask such as "00000000,0000ffff". */
static unsigned count_cpus(const char *mask)
{
    unsigned cpus = 0;
    for (; *mask; mask++) {
        char digit[2] = {*mask, '\0'};
        cpus += (unsigned)__builtin_popcountl(strtoul(digit, NULL, 16));
    }
    return cpus;
}

/* Bytes of the last-level cache that are one rank's when the ranks are spread evenly. From sysfs, since sysconf() adds
 * up what a virtual machine cannot use; 1 MiB where there is nothing to be read. */
static size_t cache_share(int nranks)
{
    char size[64], mask[64];
    read_word("/sys/devices/system/cpu/cpu0/cache/index3/size", size);
    read_word("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_map", mask);
    size_t bytes = strtoul(size, NULL, 10) << 10; /* "32768K" */
    size_t online = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    size_t caches = online / (count_cpus(mask) ? count_cpus(mask) : 1);
    size_t share = bytes * (caches ? caches : 1) / (size_t)nranks;
    share = share < bytes ? share : bytes;
    return share ? share : 1 << 20;
}

enum tr_status tr_host_meet(struct tr_host *host)
{
    struct tr_comm *comm = host->comm;
    struct process mine = {.pid = getpid(), .probe = (uintptr_t)&host->probe};
    struct process *all = calloc((size_t)comm->size, sizeof *all);
    enum tr_status status =
        tr_comm_agree(comm, all ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory for %d ranks", comm->size));
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus))
        CPU_SET(0, &mine.cpus);
    if (status == TR_OK)
        status = tr_comm_gather(comm, &mine, all, sizeof mine);
    if (status == TR_OK) {
        for (int r = 0; r < comm->size; r++)
            host->pids[r] = all[r].pid;
        host->oversubscribed = is_oversubscribed(all, comm->size);
        host->spins = host->oversubscribed ? SPINS_OVERSUBSCRIBED : SPINS_ALONE;
        host->stream_bytes = cache_share(comm->size) / 2;
        status = tr_host_push_probe(host, all[(comm->rank + 1) % comm->size].probe);
    }
    free(all);
    return status;
}

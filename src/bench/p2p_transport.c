/*
 * p2p_transport.c - what lies between two ranks, as the system says.
 *
 * GPU ranks: the same GPU (by UUID); NVLink if NVML says that it joins the two, or if CUDA says that atomics work over the
 * link, which NVLink carries and PCI Express P2P does not. CPU ranks: shared memory, in one package or across two, where both ranks are
 * bound to one.
 */
#include "bench/p2p_transport.h"

#include "bench/backend.h"
#include "bench/fail.h"
#include "bench/p2p_cuda.h"
#include "doctor/nvml.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CPU ranks --------------------------------------------------------------------------------------------------- */

/* The package that this process is bound to; -1: to none, or to several. */
static int own_package(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return -1;
    int package = -1;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set && hwloc_topology_load(topology) == 0 && hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) == 0) {
        hwloc_obj_t covering = hwloc_get_obj_covering_cpuset(topology, set);
        while (covering && covering->type != HWLOC_OBJ_PACKAGE)
            covering = covering->parent;
        if (covering)
            package = (int)covering->logical_index;
    }
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    return package;
}

static void name_host(struct p2p_transport *transport, int mine, int theirs)
{
    const char *where = mine < 0 || theirs < 0 ? "" : mine == theirs ? ", same package" : ", across packages";
    snprintf(transport->name, sizeof transport->name, "shared memory%s", where);
}

static void find_host(struct p2p *p2p)
{
    int mine = own_package();
    int *packages = malloc((size_t)p2p->nranks * sizeof *packages);
    if (!packages)
        bench_die(&p2p->bench, "no memory for the places of %d ranks", p2p->nranks);
    MPI_Allgather(&mine, 1, MPI_INT, packages, 1, MPI_INT, MPI_COMM_WORLD);
    for (int to = 0; to < p2p->nranks; to++)
        if (to != p2p->rank)
            name_host(&p2p->transports[to], mine, packages[to]);
    free(packages);
}

/* ---- GPU ranks --------------------------------------------------------------------------------------------------- */

static const char *gpu_name(const struct p2p_transport *transport)
{
    if (transport->same_gpu)
        return "same GPU";
    if (transport->nvlink < 0)
        return "CUDA P2P, the peer's GPU not visible";
    return transport->nvlink ? "CUDA P2P, NVLink" : "CUDA P2P, PCI Express";
}

static bool find_gpu(const struct p2p *p2p, int to, struct p2p_transport *transport)
{
    const struct tr_comm_info *mine = &p2p->bench.info, *theirs = &p2p->bench.infos[to];
    struct p2p_cuda_link link;
    if (!p2p_cuda_find_link(mine->device, theirs->device_uuid, &link))
        return false;
    transport->same_gpu = strcmp(mine->device_uuid, theirs->device_uuid) == 0;
    if (!transport->same_gpu) {
        bool joined = doctor_nvml_joined(mine->device_uuid, theirs->device_uuid);
        if (joined || link.visible)
            transport->nvlink = joined || link.native_atomics;
        transport->native_atomics = link.visible ? link.native_atomics : -1;
        transport->performance_rank = link.visible ? link.performance_rank : -1;
    }
    snprintf(transport->name, sizeof transport->name, "%s", gpu_name(transport));
    snprintf(transport->from_bus, sizeof transport->from_bus, "%s", link.bus);
    snprintf(transport->to_bus, sizeof transport->to_bus, "%s", link.peer_bus);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* Number the groups of pairs of one name. There are fewer names above than P2P_MAX_GROUPS. */
static void number_groups(struct p2p *p2p)
{
    for (int i = 0; i < p2p->nranks * p2p->nranks; i++) {
        struct p2p_transport *transport = &p2p->transports[i];
        transport->group = -1;
        if (i / p2p->nranks == i % p2p->nranks)
            continue;
        int g = 0;
        while (g < p2p->ngroups && strcmp(p2p->transports[p2p->groups[g]].name, transport->name) != 0)
            g++;
        if (g == p2p->ngroups)
            p2p->groups[p2p->ngroups++] = i;
        transport->group = g;
    }
}

void p2p_transports_find(struct p2p *p2p)
{
    size_t n = (size_t)p2p->nranks, row = n * sizeof *p2p->transports;
    p2p->transports = calloc(p2p->rank == 0 ? n * n : n, sizeof *p2p->transports);
    if (!p2p->transports)
        bench_die(&p2p->bench, "no memory for the transports of %d ranks", p2p->nranks);
    for (int to = 0; to < p2p->nranks; to++)
        p2p->transports[to] =
            (struct p2p_transport){.same_gpu = -1, .nvlink = -1, .native_atomics = -1, .performance_rank = -1};
    if (p2p->bench.backend->memory == TR_MEMORY_HOST)
        find_host(p2p);
    else
        for (int to = 0; to < p2p->nranks; to++)
            if (to != p2p->rank && !find_gpu(p2p, to, &p2p->transports[to]))
                bench_die(&p2p->bench, "%s", p2p_cuda_error());
    if (p2p->rank == 0) {
        MPI_Gather(MPI_IN_PLACE, 0, MPI_BYTE, p2p->transports, (int)row, MPI_BYTE, 0, MPI_COMM_WORLD);
        number_groups(p2p);
    } else
        MPI_Gather(p2p->transports, (int)row, MPI_BYTE, NULL, 0, MPI_BYTE, 0, MPI_COMM_WORLD);
}

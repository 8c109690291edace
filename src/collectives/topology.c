/*
 * topology.c - where a rank runs: the machine in one line, and the binding of ranks to cores.
 *
 * A rank is bound only by whoever is first: never where the launcher already bound it to part of the machine, never two
 * ranks to one core, and never by a communicator that knows only some of the processes on the host. Binding is a matter
 * of the process, so the first communicator that binds does so for all later ones.
 */
#include "collectives/comm.h"
#include "collectives/error.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The process's view of the machine, loaded once. */
static struct {
    pthread_mutex_t lock;
    hwloc_topology_t topology; /* NULL: not loaded */
    bool bound;                /* by this library */
} machine = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Components that ask vendors' libraries take seconds and wake GPUs; PCI alone tells where a GPU sits. */
static const char *const slow_components[] = {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"};

static enum tr_status load_machine(void)
{
    if (machine.topology)
        return TR_OK;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology))
        return tr_error(TR_ERR_SYSTEM, "hwloc_topology_init failed; check the installation of hwloc");
    for (size_t i = 0; i < sizeof slow_components / sizeof *slow_components; i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, slow_components[i]);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return tr_error(TR_ERR_SYSTEM, "hwloc_topology_load failed; check that /sys and /proc are mounted");
    }
    machine.topology = topology;
    return TR_OK;
}

/* PCI display controllers (class 03xx), NVIDIA's compute cards among them. */
static int count_gpus(hwloc_topology_t topology)
{
    int gpus = 0;
    for (hwloc_obj_t pci = hwloc_get_next_pcidev(topology, NULL); pci; pci = hwloc_get_next_pcidev(topology, pci))
        gpus += pci->attr->pcidev.class_id >> 8 == 0x03 && pci->attr->pcidev.vendor_id == 0x10de;
    return gpus;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static void describe_machine(hwloc_topology_t topology, char *text, size_t bytes)
{
    int packages = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
    int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    int pus = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    int gpus = count_gpus(topology);
    snprintf(text, bytes, "%d package%s, %d NUMA node%s, %d core%s, %d PU%s, %d NVIDIA GPU%s", packages,
             plural(packages), nodes, plural(nodes), cores, plural(cores), pus, plural(pus), gpus, plural(gpus));
}

/* "Intel(R) Xeon(R) ...", as /proc/cpuinfo has it. */
static void describe_cpu(hwloc_topology_t topology, char *text, size_t bytes)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *name = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    snprintf(text, bytes, "%s", name ? name : "");
}

/* ---- Which of the host's processes this is ----------------------------------------------------------------------- */

struct local {
    int rank, size; /* among the processes that were started on this host; size 0: not known */
};

static int number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : -1;
}

/* What launchers say of the processes on a host. */
static const struct {
    const char *rank, *size;
} launchers[] = {
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
};

static struct local find_local(const struct tr_comm *comm)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        struct local local = {number(launchers[i].rank), number(launchers[i].size)};
        if (local.rank >= 0 && local.rank < local.size)
            return local;
    }
    int world = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    return comm->size == world ? (struct local){comm->rank, comm->size} : (struct local){0, 0};
}

/* ---- Choosing a cpuset ------------------------------------------------------------------------------------------- */

/* The PUs of the NUMA nodes next to a GPU; the whole machine where hwloc does not know the GPU. */
static hwloc_const_cpuset_t near_gpu(hwloc_topology_t topology, const char *bus_id)
{
    hwloc_obj_t pci = bus_id ? hwloc_get_pcidev_by_busidstring(topology, bus_id) : NULL;
    hwloc_obj_t parent = pci ? hwloc_get_non_io_ancestor_obj(topology, pci) : NULL;
    return parent && !hwloc_bitmap_iszero(parent->cpuset) ? parent->cpuset
                                                          : hwloc_topology_get_topology_cpuset(topology);
}

/* What every rank tells the others, so that those who share a cpuset can divide it. */
struct sharing {
    unsigned first_pu, last_pu;
};

/* This rank's place among the ranks with the same cpuset. */
static enum tr_status find_sharers(struct tr_comm *comm, hwloc_const_cpuset_t set, struct local *place)
{
    struct sharing mine = {(unsigned)hwloc_bitmap_first(set), (unsigned)hwloc_bitmap_last(set)};
    struct sharing *all = malloc((size_t)comm->size * sizeof *all);
    enum tr_status status = all ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory to compare bindings");
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = tr_comm_gather(comm, &mine, all, sizeof mine);
    *place = (struct local){0, 0};
    for (int r = 0; status == TR_OK && r < comm->size; r++)
        if (!memcmp(&all[r], &mine, sizeof mine)) {
            place->rank += r < comm->rank;
            place->size++;
        }
    free(all);
    return status;
}

static int count_inside(hwloc_topology_t topology, hwloc_const_cpuset_t set, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, type);
    return n > 0 ? n : 0;
}

/* The share-th of `shares` equal parts of the cores (or, where ranks outnumber cores, of the PUs) in `set`. */
static void take_share(hwloc_topology_t topology, hwloc_const_cpuset_t set, struct local place, hwloc_bitmap_t share)
{
    hwloc_obj_type_t type = count_inside(topology, set, HWLOC_OBJ_CORE) >= place.size ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int units = count_inside(topology, set, type);
    hwloc_bitmap_zero(share);
    for (int i = place.rank * units / place.size; i < (place.rank + 1) * units / place.size; i++) {
        hwloc_obj_t unit = hwloc_get_obj_inside_cpuset_by_type(topology, set, type, (unsigned)i);
        if (unit)
            hwloc_bitmap_or(share, share, unit->cpuset);
    }
}

/* ---- Binding ----------------------------------------------------------------------------------------------------- */

/* "0-3 (why)" */
static void say_binding(struct tr_comm *comm, hwloc_const_cpuset_t set, const char *why)
{
    char list[60];
    hwloc_bitmap_list_snprintf(list, sizeof list, set);
    snprintf(comm->info.binding, sizeof comm->info.binding, "%s (%s)", list, why);
}

/* Why this rank is to stay as it is; NULL: it may be bound. */
static const char *reason_to_stay(const struct tr_comm *comm, hwloc_const_cpuset_t current, struct local local)
{
    hwloc_const_cpuset_t whole = hwloc_topology_get_topology_cpuset(machine.topology);
    if (machine.bound)
        return "bound by Treering";
    if (comm->config.no_bind)
        return "as started: config.no_bind is set";
    if (!hwloc_bitmap_isincluded(whole, current))
        return "bound by the launcher";
    if (!local.size)
        return "not bound: not all processes of the host are in the communicator";
    return NULL;
}

/* Bind to the share of the `local` processes, or near the GPU. */
static void bind_share(struct tr_comm *comm, hwloc_const_cpuset_t set, struct local place, const char *why)
{
    int pus = count_inside(machine.topology, set, HWLOC_OBJ_PU);
    if (place.size > pus) {
        snprintf(comm->info.binding, sizeof comm->info.binding, "not bound: %d rank%s on %d PU%s", place.size,
                 plural(place.size), pus, plural(pus));
        return;
    }
    hwloc_bitmap_t share = hwloc_bitmap_alloc();
    if (!share)
        return;
    take_share(machine.topology, set, place, share);
    if (!hwloc_set_cpubind(machine.topology, share, HWLOC_CPUBIND_PROCESS)) {
        machine.bound = true;
        say_binding(comm, share, why);
    } else {
        say_binding(comm, hwloc_topology_get_topology_cpuset(machine.topology), "not bound: the system refused");
    }
    hwloc_bitmap_free(share);
}

/* On the host every process gets its share of the machine. Near a GPU those that sit at the same NUMA nodes divide them,
 * if the communicator holds all processes of the host; otherwise they share them. */
static void bind_rank(struct tr_comm *comm, const char *bus_id, struct local local, struct local sharers,
                      hwloc_const_cpuset_t set)
{
    hwloc_bitmap_t current = hwloc_bitmap_alloc();
    if (!current || hwloc_get_cpubind(machine.topology, current, HWLOC_CPUBIND_PROCESS)) {
        snprintf(comm->info.binding, sizeof comm->info.binding, "unknown: the system does not say");
        hwloc_bitmap_free(current);
        return;
    }
    const char *why = reason_to_stay(comm, current, local);
    if (why)
        say_binding(comm, current, why);
    else if (!bus_id)
        bind_share(comm, set, local, "share of the machine's cores");
    else if (local.size == comm->size)
        bind_share(comm, set, sharers, "near the GPU");
    else
        bind_share(comm, set, (struct local){0, 1}, "near the GPU, shared");
    hwloc_bitmap_free(current);
}

enum tr_status tr_topology_near(const char *bus_id, cpu_set_t *near)
{
    pthread_mutex_lock(&machine.lock);
    enum tr_status status = load_machine();
    if (status == TR_OK &&
        hwloc_cpuset_to_glibc_sched_affinity(machine.topology, near_gpu(machine.topology, bus_id), near, sizeof *near))
        status = tr_error(TR_ERR_SYSTEM, "hwloc does not say which CPUs are near GPU %s", bus_id);
    pthread_mutex_unlock(&machine.lock);
    return status;
}

enum tr_status tr_topology_bind(struct tr_comm *comm, const char *bus_id)
{
    pthread_mutex_lock(&machine.lock);
    enum tr_status status = tr_comm_agree(comm, load_machine());
    struct local sharers;
    hwloc_const_cpuset_t set = NULL;
    if (status == TR_OK) {
        describe_machine(machine.topology, comm->info.topology, sizeof comm->info.topology);
        describe_cpu(machine.topology, comm->info.cpu_name, sizeof comm->info.cpu_name);
        set = near_gpu(machine.topology, bus_id);
        status = find_sharers(comm, set, &sharers);
    }
    if (status == TR_OK)
        bind_rank(comm, bus_id, find_local(comm), sharers, set);
    pthread_mutex_unlock(&machine.lock);
    return status;
}

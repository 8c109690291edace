/* facts.c - what a rank can tell about itself without CUDA and without a peer. */
#include "bench/launcher.h"
#include "collectives/comm.h"
#include "collectives/shm.h"
#include "doctor/doctor.h"
#include "doctor/nccl_version.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/magic.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* ---- The host ---------------------------------------------------------------------------------------------------- */

static void collect_place(struct doctor_facts *facts)
{
    if (gethostname(facts->host, sizeof facts->host - 1))
        snprintf(facts->host, sizeof facts->host, "unknown host");
    tr_describe_place(facts->place, sizeof facts->place, facts->host);
}

/* The number of a namespace of this process, 0 if the kernel does not tell. */
static uint64_t namespace_of(const char *kind)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* The first number in a file. */
static int read_int(const char *path, int fallback)
{
    int number;
    FILE *file = fopen(path, "re");
    if (!file)
        return fallback;
    if (fscanf(file, "%d", &number) != 1)
        number = fallback;
    fclose(file);
    return number;
}

static void collect_process(struct doctor_facts *facts)
{
    facts->pid = getpid();
    facts->user = (int)geteuid();
    facts->pid_namespace = namespace_of("pid");
    facts->ipc_namespace = namespace_of("ipc");
    facts->ptrace_scope = read_int("/proc/sys/kernel/yama/ptrace_scope", 0);
}

static int count_infiniband(void)
{
    DIR *folder = opendir("/sys/class/infiniband");
    int count = 0;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static void collect_memory(struct doctor_facts *facts)
{
    struct statfs shm;
    struct rlimit locked;
    facts->shm_bytes = facts->shm_free = -1;
    if (statfs("/dev/shm", &shm) == 0 && shm.f_type == TMPFS_MAGIC) {
        facts->shm_bytes = (int64_t)shm.f_blocks * shm.f_bsize;
        facts->shm_free = (int64_t)shm.f_bavail * shm.f_bsize;
    }
    size_t available = tr_shm_available();
    facts->memory_available = available > INT64_MAX ? INT64_MAX : (int64_t)available;
    facts->locked_limit = DOCTOR_UNLIMITED;
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
        facts->locked_limit = (int64_t)locked.rlim_cur;
    facts->infiniband = count_infiniband();
}

/* ---- CPUs -------------------------------------------------------------------------------------------------------- */

/* CPUs that a control group (version 2) grants, from its "QUOTA PERIOD" in microseconds; 0: it does not limit. */
static double quota_of(const char *folder)
{
    char path[600];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    int fields = file ? fscanf(file, "%lf %lf", &quota, &period) : 0;
    if (file)
        fclose(file);
    return fields == 2 && period > 0 ? quota / period : 0;
}

static const char group_root[] = "/sys/fs/cgroup";

/* The least quota of this process's control group and those above it. */
static double find_quota(void)
{
    char line[512] = "", folder[560];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::", 3) != 0)
        line[0] = '\0';
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof folder, "%s%s", group_root, strlen(line) > 3 ? line + 3 : "");
    double least = 0;
    while (strlen(folder) >= sizeof group_root - 1) {
        double quota = quota_of(folder);
        if (quota > 0 && (least <= 0 || quota < least))
            least = quota;
        *strrchr(folder, '/') = '\0';
    }
    return least;
}

static void collect_cpus(struct doctor_facts *facts)
{
    facts->cpus_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    facts->cpu_quota = find_quota();
    if (sched_getaffinity(0, sizeof facts->cpus, &facts->cpus))
        CPU_ZERO(&facts->cpus);
}

/* ---- GPUs, as far as variables and files tell --------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Kinds of --gpu-bind that leave a task part of the GPUs (srun(1)). */
static const char *const narrow_binds[] = {"closest", "single:", "map_gpu:", "mask_gpu:", "per_task:"};

static bool is_narrow(const char *bind)
{
    if (starts_with(bind, "verbose,"))
        bind += strlen("verbose,");
    for (size_t i = 0; i < sizeof narrow_binds / sizeof *narrow_binds; i++)
        if (starts_with(bind, narrow_binds[i]))
            return true;
    return false;
}

/* --gpus-per-task binds each task to its own GPUs, unless --gpu-bind says otherwise (srun(1)). */
static void collect_slurm(struct doctor_facts *facts)
{
    const char *bind = getenv("SLURM_GPU_BIND"), *per_task = getenv("SLURM_GPUS_PER_TASK");
    const char *tres = getenv("SLURM_TRES_PER_TASK");
    bool asks = per_task && *per_task;
    bool tres_asks = tres && strstr(tres, "gpu");
    if (bind && is_narrow(bind))
        snprintf(facts->slurm_binding, sizeof facts->slurm_binding, "SLURM_GPU_BIND=%.64s", bind);
    else if (asks && !(bind && *bind))
        snprintf(facts->slurm_binding, sizeof facts->slurm_binding, "SLURM_GPUS_PER_TASK=%.64s", per_task);
    else if (tres_asks && !(bind && *bind))
        snprintf(facts->slurm_binding, sizeof facts->slurm_binding, "SLURM_TRES_PER_TASK=%.64s", tres);
}

static void collect_variables(struct doctor_facts *facts)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(facts->visible_gpus, sizeof facts->visible_gpus, "%s", visible ? visible : "");
    collect_slurm(facts);
    facts->mps = mps_look(facts->mps_folder, sizeof facts->mps_folder);
}

void doctor_facts_collect(struct doctor_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    collect_place(facts);
    collect_process(facts);
    collect_memory(facts);
    collect_cpus(facts);
    collect_variables(facts);
    facts->cuda_aware = -1;
    doctor_nccl_versions(&facts->nccl_compiled, &facts->nccl_loaded, facts->nccl_path, sizeof facts->nccl_path);
}

/* Open MPI's extension, where this MPI has it. */
typedef int query_cuda_support(void);

void doctor_facts_collect_mpi(struct doctor_facts *facts, const char *program, int nranks)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    snprintf(facts->mpi, sizeof facts->mpi, "%.*s", (int)strcspn(version, ",\n"), version);
    void *query = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    if (query)
        facts->cuda_aware = ((query_cuda_support *)query)() != 0;
    if (launcher_agrees(program, nranks, facts->launcher, sizeof facts->launcher))
        facts->launcher[0] = '\0';
}

/* environment.c - where results were measured. */
#include "bench/environment.h"

#include "bench/backend.h"
#include "bench/bench_cuda.h"
#include "bench/revision.h"
#include "doctor/mps.h"
#include "doctor/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- Variables --------------------------------------------------------------------------------------------------- */

/* What changes where ranks run, how they talk, and how fast. */
static const char *const allowed[] = {
    "CUDA_CACHE_DISABLE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "NVIDIA_VISIBLE_DEVICES",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_MCA_btl",
    "OMPI_MCA_coll",
    "OMPI_MCA_hwloc_base_binding_policy",
    "OMPI_MCA_mtl",
    "OMPI_MCA_osc",
    "OMPI_MCA_pml",
    "OMPI_MCA_rmaps_base_oversubscribe",
    "PMI_SIZE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPU_BIND",
    "SLURM_CPU_BIND_TYPE",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_TASK",
    "SLURM_JOB_NUM_NODES",
    "SLURM_MEM_BIND",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_STEP_NUM_TASKS",
};
static const char *const allowed_prefixes[] = {"CUDA_MPS_",      "MALLOC_", "NCCL_",     "OMPI_MCA_btl_",
                                               "OMPI_MCA_coll_", "OMP_",    "TREERING_", "UCX_"};

static bool is_allowed(const char *entry, size_t name_length)
{
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (strlen(allowed[i]) == name_length && strncmp(entry, allowed[i], name_length) == 0)
            return true;
    for (size_t i = 0; i < sizeof allowed_prefixes / sizeof *allowed_prefixes; i++)
        if (strncmp(entry, allowed_prefixes[i], strlen(allowed_prefixes[i])) == 0)
            return true;
    return false;
}

bool environment_variable(int i, char *name, size_t size, const char **value)
{
    for (char **entry = environ; *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        if (!is_allowed(*entry, length) || i-- > 0)
            continue;
        snprintf(name, size, "%.*s", (int)length, *entry);
        *value = (*entry)[length] ? *entry + length + 1 : "";
        return true;
    }
    return false;
}

bool environment_has_mps(void)
{
    char folder[512];
    return mps_look(folder, sizeof folder) == MPS_ANSWERS;
}

/* ---- Facts ------------------------------------------------------------------------------------------------------- */

/* The rest of the line of `path` that starts with `key` ("": the first line), without separator and quotes; "" if there
 * is none. */
static void read_line(const char *path, const char *key, char *text, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    *text = '\0';
    while (file && *text == '\0' && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *rest = line + strlen(key);
        rest += strspn(rest, " \t:=\"");
        snprintf(text, size, "%.*s", (int)strcspn(rest, "\"\n"), rest);
    }
    if (file)
        fclose(file);
}

struct facts {
    struct environment_fact *facts;
    int n;
};

static struct environment_fact *add(struct facts *list, const char *key)
{
    struct environment_fact *fact = &list->facts[list->n++];
    *fact = (struct environment_fact){.key = key};
    return fact;
}

static void add_text(struct facts *list, const char *key, const char *text)
{
    snprintf(add(list, key)->text, sizeof list->facts->text, "%s", text);
}

static void add_number(struct facts *list, const char *key, double number)
{
    struct environment_fact *fact = add(list, key);
    fact->is_number = true;
    fact->number = number;
}

static void add_file(struct facts *list, const char *key, const char *path, const char *line_key)
{
    char text[512];
    read_line(path, line_key, text, sizeof text);
    if (*text)
        add_text(list, key, text);
}

/* Settings of the kernel that a time depends on, as it writes them. */
static const struct {
    const char *key, *path;
} settings[] = {
    {"cpu_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
    {"cpu_khz_least", "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_min_freq"},
    {"cpu_khz_most", "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"},
    {"cpu_boost", "/sys/devices/system/cpu/cpufreq/boost"},
    {"cpu_no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"},
    {"smt", "/sys/devices/system/cpu/smt/control"},
    {"clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
    {"numa_balancing", "/proc/sys/kernel/numa_balancing"},
    {"huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"},
    {"load_at_start", "/proc/loadavg"},
};

static void add_host(struct facts *list, const struct bench *bench)
{
    struct utsname system;
    uname(&system);
    add_text(list, "host", bench->host);
    add_text(list, "kernel", system.release);
    add_text(list, "machine", system.machine);
    add_file(list, "os", "/etc/os-release", "PRETTY_NAME");
    add_file(list, "cpu", "/proc/cpuinfo", "model name");
    add_number(list, "cpus_online", (double)sysconf(_SC_NPROCESSORS_ONLN));
    add_file(list, "cpu_mhz", "/proc/cpuinfo", "cpu MHz");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        add_file(list, settings[i].key, settings[i].path, "");
    add_file(list, "memory_total", "/proc/meminfo", "MemTotal");
    add_text(list, "topology", bench->info.topology);
    add_text(list, "binding_rank0", bench->info.binding);
}

/* Clocks now, and why they are low, of rank 0's GPU. */
static void add_card(struct facts *list, const struct bench *bench)
{
    struct doctor_card card;
    doctor_nvml_look_at_clocks(bench->info.device_uuid, &card);
    if (!card.known)
        return;
    add_number(list, "gpu_sm_clock_mhz", card.sm_mhz);
    add_number(list, "gpu_memory_clock_mhz", card.memory_mhz);
    add_number(list, "gpu_celsius", card.celsius);
    const char *reason = doctor_nvml_reason(card.slowed);
    if (reason)
        add_text(list, "gpu_slowed_by", reason);
}

static void add_cuda(struct facts *list, const struct bench *bench)
{
    struct bench_cuda_versions versions = {0};
    if (bench->backend->memory != TR_MEMORY_CUDA || !bench_cuda_get_versions(&versions))
        return;
    add_text(list, "gpu", bench->info.device_name);
    add_text(list, "gpu_uuid_rank0", bench->info.device_uuid);
    add_number(list, "gpu_memory_bytes", (double)versions.memory_bytes);
    add_number(list, "gpu_sm_clock_max_mhz", versions.sm_clock_khz / 1000.0);
    add_number(list, "gpu_memory_clock_max_mhz", versions.memory_clock_khz / 1000.0);
    add_card(list, bench);
    add_number(list, "gpus_visible", bench_cuda_device_count());
    add_number(list, "ranks_on_gpu_rank0", bench->info.ranks_on_device);
    add_number(list, "mps", environment_has_mps());
    add_number(list, "cuda_driver", versions.driver);
    add_number(list, "cuda_runtime", versions.runtime);
    add_file(list, "nvidia_driver", "/proc/driver/nvidia/version", "NVRM version");
}

static void add_software(struct facts *list, const struct bench *bench)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, "\n")] = '\0';
    add_text(list, "mpi", mpi);
    if (bench->info.nccl_version)
        add_number(list, "nccl", bench->info.nccl_version);
    add_text(list, "treering", tr_version());
    add_text(list, "git_revision", TR_GIT_REVISION);
    add_text(list, "auto_chooses_from", bench->info.model);
    add_text(list, "compiler", __VERSION__);
}

static void add_time(struct facts *list)
{
    char text[64];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    add_text(list, "date", text);
}

int environment_facts(const struct bench *bench, struct environment_fact facts[static ENVIRONMENT_MAX])
{
    struct facts list = {.facts = facts};
    add_time(&list);
    add_host(&list, bench);
    add_cuda(&list, bench);
    add_software(&list, bench);
    return list.n;
}

/* checks.c - the table of checks. Adding one is adding a row. */
#include "doctor/checks.h"

#include <stdlib.h>

const struct doctor_row doctor_rows[] = {
    {"launcher", "launcher", check_launcher, false}, /* the benches look themselves, before they have options */
    {"hosts", "hosts", check_hosts, true},
    {"user", "user", check_user, true},
    {"pid_namespace", "PID namespace", check_pid_namespace, true},
    {"ipc_namespace", "IPC namespace", check_ipc_namespace, true},
    {"memory", "memory", check_memory, true},
    {"dev_shm", "/dev/shm", check_dev_shm, false}, /* MPI has taken its part of it when the benches could look */
    {"locked_memory", "locked memory", check_locked_memory, true},
    {"cpu_share", "CPUs", check_cpu_share, true},
    {"cpu_affinity", "affinity", check_affinity, true},
    {"gpu_affinity", "near the GPU", check_near_gpu, false},
    {"gpus", "GPUs", check_gpus, false},
    {"gpu_binding", "GPU binding", check_gpu_binding, false},
    {"gpu_sharing", "ranks a GPU", check_gpu_sharing, false},
    {"mps", "MPS", check_mps, true},
    {"gpu_memory", "GPU memory", check_gpu_memory, false},
    {"nvlink", "NVLink", check_nvlink, false},
    {"clocks", "clocks", check_clocks, false},
    {"cuda_versions", "CUDA", check_cuda_versions, false},
    {"nccl", "NCCL", check_nccl, true},
    {"mpi", "MPI", check_mpi, true},
    {"cuda_aware_mpi", "CUDA-aware MPI", check_cuda_aware, false},
    {"shared_memory", "shared memory", check_shared_memory, false},
    {"private_writes", "private writes", check_private_writes, false},
    {"peer_access", "peer access", check_peer_access, false},
    {"gpu_pairs", "CUDA IPC", check_gpu_pairs, false},
    {"transport", "transport", check_transport, false},
};
const int doctor_nrows = sizeof doctor_rows / sizeof *doctor_rows;

void doctor_findings_free(struct doctor_finding *findings)
{
    for (int i = 0; findings && i < doctor_nrows; i++)
        free(findings[i].ranks);
    free(findings);
}

struct doctor_finding *doctor_judge(const struct doctor *doctor)
{
    struct doctor_finding *findings = calloc((size_t)doctor_nrows, sizeof *findings);
    for (int i = 0; findings && i < doctor_nrows; i++) {
        findings[i].ranks = calloc((size_t)doctor->nranks, sizeof *findings[i].ranks);
        if (!findings[i].ranks) {
            doctor_findings_free(findings);
            return NULL;
        }
        doctor_rows[i].check(doctor, &findings[i]);
    }
    return findings;
}

enum doctor_verdict doctor_worst(const struct doctor_finding *findings)
{
    enum doctor_verdict worst = DOCTOR_OK;
    for (int i = 0; i < doctor_nrows; i++)
        if (findings[i].verdict > worst)
            worst = findings[i].verdict;
    return worst == DOCTOR_NOT_APPLICABLE ? DOCTOR_OK : worst;
}

/* check_process.c - whether the ranks' processes may reach each other: user, namespaces, ptrace. */
#include "doctor/checks.h"

#include <inttypes.h>

static bool is_another_user(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].user != doctor->facts[0].user;
}

void check_user(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, is_another_user);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "all ranks run as user %d", doctor->facts[0].user);
        return;
    }
    finding_say(finding, DOCTOR_PROBLEM, "runs as user %d and rank 0 as %d: they may not open each other's memory",
                doctor->facts[first].user, doctor->facts[0].user);
    finding_advise(finding, "start all ranks as one user");
}

static bool has_other_pids(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].pid_namespace != doctor->facts[0].pid_namespace;
}

/* Ranks open each other's memory as /proc/PID/fd/N. */
void check_pid_namespace(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, has_other_pids);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "one (pid:[%" PRIu64 "])", doctor->facts[0].pid_namespace);
        return;
    }
    finding_say(finding, DOCTOR_PROBLEM,
                "another PID namespace (pid:[%" PRIu64 "]) than rank 0's (pid:[%" PRIu64
                "]): shared memory and CUDA IPC "
                "between them fail",
                doctor->facts[first].pid_namespace, doctor->facts[0].pid_namespace);
    finding_advise(finding,
                   "start all ranks in one container, or the containers with --pid=host (Kubernetes: hostPID or "
                   "shareProcessNamespace)");
}

static bool has_other_ipc(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].ipc_namespace != doctor->facts[0].ipc_namespace;
}

void check_ipc_namespace(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, has_other_ipc);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "one (ipc:[%" PRIu64 "])", doctor->facts[0].ipc_namespace);
        return;
    }
    finding_say(finding, DOCTOR_WARNING,
                "another IPC namespace (ipc:[%" PRIu64
                "]) than rank 0's: MPS and NCCL's shared memory do not work across",
                doctor->facts[first].ipc_namespace);
    finding_advise(finding, "start all ranks in one container, or the containers with --ipc=host");
}

/* ---- process_vm_writev() ----------------------------------------------------------------------------------------- */

static bool cannot_write_private(const struct doctor *doctor, int rank)
{
    for (int r = 0; r < doctor->nranks; r++)
        if (doctor->pairs[(size_t)rank * (size_t)doctor->nranks + (size_t)r].private_ == DOCTOR_FAILS)
            return true;
    return false;
}

void check_private_writes(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (doctor->nranks == 1) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "one rank");
        return;
    }
    int first = finding_mark(doctor, finding, cannot_write_private);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "process_vm_writev() works between all ranks that share memory");
        return;
    }
    finding_say(finding, DOCTOR_WARNING,
                "may not write into other ranks' private memory (process_vm_writev; kernel.yama.ptrace_scope is %d): "
                "long messages between CPU ranks are copied twice",
                doctor->facts[first].ptrace_scope);
    finding_advise(finding, "sysctl kernel.yama.ptrace_scope=0, or in a container --cap-add=SYS_PTRACE");
}

/* check_cpu.c - the CPUs that the ranks may run on: enough of them, and the right ones. */
#include "doctor/checks.h"
#include "doctor/pairs.h"

#include <string.h>

/* CPUs that a rank and the others of its host may run on together. */
static cpu_set_t cpus_of_host(const struct doctor *doctor, int rank, int *nranks)
{
    cpu_set_t any;
    CPU_ZERO(&any);
    *nranks = 0;
    for (int r = 0; r < doctor->nranks; r++) {
        if (strcmp(doctor->facts[r].host, doctor->facts[rank].host) != 0)
            continue;
        CPU_OR(&any, &any, &doctor->facts[r].cpus);
        ++*nranks;
    }
    return any;
}

/* CPUs' worth of time for the ranks of a host. */
static double cpus_worth(const struct doctor *doctor, int rank, int *nranks)
{
    cpu_set_t any = cpus_of_host(doctor, rank, nranks);
    double cpus = CPU_COUNT(&any), quota = doctor->facts[rank].cpu_quota;
    return quota > 0 && quota < cpus ? quota : cpus;
}

static bool has_less_than_a_cpu(const struct doctor *doctor, int rank)
{
    int nranks;
    return cpus_worth(doctor, rank, &nranks) < nranks;
}

void check_cpu_share(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, has_less_than_a_cpu), nranks;
    double cpus = cpus_worth(doctor, first < 0 ? 0 : first, &nranks);
    double quota = doctor->facts[first < 0 ? 0 : first].cpu_quota;
    finding_say(finding, first < 0 ? DOCTOR_OK : DOCTOR_WARNING, "%d rank%s on %g CPUs%s%s", nranks,
                nranks == 1 ? "" : "s", cpus, quota > 0 ? " (a control group limits CPU time)" : "",
                first < 0 ? "" : ": they take turns, latencies are the scheduler's");
    if (first >= 0)
        finding_advise(finding, "run at most %g ranks a host, or grant more CPUs (srun -c, docker --cpus)",
                       cpus < 1 ? 1.0 : (double)(int)cpus);
}

/* ---- Affinity ---------------------------------------------------------------------------------------------------- */

/* Ranks of the host that may run on just the same CPUs. */
static int ranks_alike(const struct doctor *doctor, int rank)
{
    int alike = 0;
    for (int r = 0; r < doctor->nranks; r++)
        alike += strcmp(doctor->facts[r].host, doctor->facts[rank].host) == 0 &&
                 CPU_EQUAL(&doctor->facts[r].cpus, &doctor->facts[rank].cpus);
    return alike;
}

static bool is_crowded(const struct doctor *doctor, int rank)
{
    return ranks_alike(doctor, rank) > CPU_COUNT(&doctor->facts[rank].cpus) &&
           CPU_COUNT(&doctor->facts[rank].cpus) < doctor->facts[rank].cpus_online;
}

static bool is_bound(const struct doctor *doctor, int rank)
{
    return CPU_COUNT(&doctor->facts[rank].cpus) < doctor->facts[rank].cpus_online;
}

void check_affinity(const struct doctor *doctor, struct doctor_finding *finding)
{
    char cpus[128];
    int first = finding_mark(doctor, finding, is_crowded);
    if (first >= 0) {
        finding_say(finding, DOCTOR_WARNING, "%d ranks are bound to CPU %s while the host has %d",
                    ranks_alike(doctor, first), cpus_text(&doctor->facts[first].cpus, cpus, sizeof cpus),
                    doctor->facts[first].cpus_online);
        finding_advise(finding, "mpirun --bind-to core --map-by core, or --bind-to none and leave it to Treering; srun "
                                "--cpu-bind=cores");
        return;
    }
    int bound = 0;
    for (int r = 0; r < doctor->nranks; r++)
        bound += is_bound(doctor, r);
    cpus_text(&doctor->facts[0].cpus, cpus, sizeof cpus);
    if (bound)
        finding_say(finding, DOCTOR_OK, "the launcher bound %d of %d ranks, rank 0 to CPUs %s", bound, doctor->nranks,
                    cpus);
    else
        finding_say(finding, DOCTOR_OK, "not bound (CPUs %s); a communicator binds its ranks where it can", cpus);
}

static bool is_far(const struct doctor *doctor, int rank)
{
    cpu_set_t both;
    CPU_AND(&both, &doctor->facts[rank].cpus, &doctor->facts[rank].near_gpu);
    return CPU_COUNT(&doctor->facts[rank].near_gpu) > 0 && CPU_COUNT(&both) == 0;
}

void check_near_gpu(const struct doctor *doctor, struct doctor_finding *finding)
{
    char cpus[96], near[96];
    if (!doctor_uses_gpus(doctor)) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "the ranks use host memory");
        return;
    }
    int first = finding_mark(doctor, finding, is_far);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "every rank may run next to its GPU; rank 0's is near CPUs %s",
                    cpus_text(&doctor->facts[0].near_gpu, near, sizeof near));
        return;
    }
    finding_say(finding, DOCTOR_WARNING, "bound to CPUs %s, and the GPU is near %s: launches and copies cross the host",
                cpus_text(&doctor->facts[first].cpus, cpus, sizeof cpus),
                cpus_text(&doctor->facts[first].near_gpu, near, sizeof near));
    finding_advise(finding, "mpirun --bind-to none, and Treering binds near the GPU; srun --gpu-bind=none "
                            "--cpu-bind=none");
}

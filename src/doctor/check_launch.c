/* check_launch.c - what was started, where, and by which MPI. */
#include "doctor/checks.h"
#include "doctor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool disagrees(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].launcher[0] != '\0';
}

void check_launcher(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, disagrees);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "MPI has %d rank%s, and no launcher says otherwise", doctor->nranks,
                    doctor->nranks == 1 ? "" : "s");
        return;
    }
    /* the sentence of launcher.c: what is wrong, a colon, and what to run */
    const char *sentence = doctor->facts[first].launcher, *colon = strstr(sentence, ": ");
    finding_say(finding, DOCTOR_PROBLEM, "%.*s", colon ? (int)(colon - sentence) : 400, sentence);
    finding_advise(finding, "%s", colon ? colon + 2 : "run with the mpirun of the MPI that this was built with");
}

static bool is_elsewhere(const struct doctor *doctor, int rank)
{
    return strcmp(doctor->facts[rank].place, doctor->facts[0].place) != 0;
}

void check_hosts(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, is_elsewhere);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "all ranks are on %s", doctor->facts[0].host);
        return;
    }
    finding_say(finding, DOCTOR_PROBLEM,
                "not where rank 0 is (%s): %s and %s differ, and a communicator serves one host", doctor->facts[0].host,
                doctor->facts[first].place, doctor->facts[0].place);
    finding_advise(finding,
                   "start all ranks on one host (mpirun -host, srun -N 1), or see TREERING_HOST_ID if they are");
}

/* ---- GPUs of a task's own ---------------------------------------------------------------------------------------- */

static bool is_bound_by_slurm(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].slurm_binding[0] != '\0';
}

static bool sees(const struct doctor_gpus *gpus, const char *uuid)
{
    for (int i = 0; i < gpus->ngpus; i++)
        if (strcmp(gpus->gpus[i].uuid, uuid) == 0)
            return true;
    return false;
}

/* The first rank whose GPU `rank` does not see, -1: it sees all. */
static int hidden_from(const struct doctor *doctor, int rank)
{
    for (int r = 0; r < doctor->nranks && doctor->gpus; r++) {
        const struct doctor_gpus *theirs = &doctor->gpus[r];
        if (theirs->state == DOCTOR_GPU_WORKS && doctor->gpus[rank].state == DOCTOR_GPU_WORKS &&
            !sees(&doctor->gpus[rank], theirs->gpus[theirs->chosen].uuid))
            return r;
    }
    return -1;
}

static bool misses_a_gpu(const struct doctor *doctor, int rank)
{
    return hidden_from(doctor, rank) >= 0;
}

static bool all_pairs_work(const struct doctor *doctor)
{
    size_t n = (size_t)doctor->nranks;
    for (size_t i = 0; i < n * n; i++)
        if (i / n != i % n && (doctor->pairs[i].stores != DOCTOR_WORKS || doctor->pairs[i].loads != DOCTOR_WORKS))
            return false;
    return true;
}

static void advise_binding(const struct doctor *doctor, struct doctor_finding *finding, int first)
{
    if (is_bound_by_slurm(doctor, first))
        finding_advise(finding,
                       "let every task see all GPUs of the node: srun --gpus-per-node=N --gpu-bind=none, without "
                       "--gpus-per-task");
    else
        finding_advise(finding, "give every rank the same CUDA_VISIBLE_DEVICES with all GPUs; a rank takes its own");
}

void check_gpu_binding(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, misses_a_gpu);
    if (first >= 0) {
        bool works = all_pairs_work(doctor), slurm = is_bound_by_slurm(doctor, first);
        finding_say(finding, works ? DOCTOR_WARNING : DOCTOR_PROBLEM, "the GPU of rank %d is hidden here (%s%s)%s",
                    hidden_from(doctor, first), slurm ? "" : "CUDA_VISIBLE_DEVICES=",
                    slurm ? doctor->facts[first].slurm_binding : doctor->facts[first].visible_gpus,
                    works ? "; CUDA IPC works here all the same" : "; CUDA IPC fails between such ranks");
        advise_binding(doctor, finding, first);
        return;
    }
    first = doctor->nranks > 1 && !doctor_uses_gpus(doctor) ? finding_mark(doctor, finding, is_bound_by_slurm) : -1;
    if (first >= 0) {
        finding_say(finding, DOCTOR_WARNING,
                    "%s gives each task GPUs of its own and hides its peers' from it: CUDA IPC "
                    "fails between such ranks",
                    doctor->facts[first].slurm_binding);
        advise_binding(doctor, finding, first);
        return;
    }
    if (doctor_uses_gpus(doctor))
        finding_say(finding, DOCTOR_OK, "every rank sees every rank's GPU");
    else
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "the ranks use host memory");
}

/* ---- MPI --------------------------------------------------------------------------------------------------------- */

static bool has_other_mpi(const struct doctor *doctor, int rank)
{
    return strcmp(doctor->facts[rank].mpi, doctor->facts[0].mpi) != 0;
}

void check_mpi(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, has_other_mpi);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "%s", doctor->facts[0].mpi);
        return;
    }
    finding_say(finding, DOCTOR_WARNING, "%s, and rank 0 has %s", doctor->facts[first].mpi, doctor->facts[0].mpi);
    finding_advise(finding, "make LD_LIBRARY_PATH the same on all ranks: mpirun -x LD_LIBRARY_PATH");
}

/* The library hands MPI host memory alone: that MPI takes no GPU memory breaks nothing. */
void check_cuda_aware(const struct doctor *doctor, struct doctor_finding *finding)
{
    static const char *const texts[] = {"MPI does not say whether it takes GPU memory", "MPI takes host memory only",
                                        "MPI takes GPU memory"};
    enum doctor_verdict verdict = doctor_uses_gpus(doctor) ? DOCTOR_OK : DOCTOR_NOT_APPLICABLE;
    finding_say(finding, verdict, "%s; Treering hands it host memory", texts[doctor->facts[0].cuda_aware + 1]);
}

/* doctor.c - the order of things: look at oneself, meet the others, try the pairs. */
#include "doctor/doctor.h"
#include "bench/launcher.h"
#include "collectives/comm.h"
#include "doctor/finding.h"
#include "doctor/meet.h"
#include "doctor/pairs.h"
#include "doctor/watch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool allocate(struct doctor *doctor)
{
    size_t n = (size_t)doctor->nranks;
    doctor->facts = calloc(n, sizeof *doctor->facts);
    doctor->gpus = calloc(n, sizeof *doctor->gpus);
    doctor->cards = calloc(n, sizeof *doctor->cards);
    doctor->pairs = calloc(n * n, sizeof *doctor->pairs);
    return doctor->facts && doctor->gpus && doctor->cards && doctor->pairs;
}

void doctor_close(struct doctor *doctor)
{
    watch_close();
    free(doctor->facts);
    free(doctor->gpus);
    free(doctor->cards);
    free(doctor->pairs);
}

void doctor_open(struct doctor *doctor, struct doctor_facts *facts, struct doctor_gpus *gpus)
{
    static const char *const advice = "/proc, /sys or /dev/shm does not answer: see dmesg";
    watch_open(doctor->program, launcher_rank());
    watch_step("looking at the host", doctor->timeout_s, advice);
    doctor_facts_collect(facts);
    watch_step("looking for GPUs", 2 * doctor->timeout_s, advice);
    doctor_probe_gpus(launcher_rank(), doctor->timeout_s, gpus);
    watch_step("MPI_Init", 2 * doctor->timeout_s + 10,
               "a rank did not start, or hangs: see which of the ranks' processes are there, and in which state (ps -o "
               "pid,stat,wchan:30,args)");
}

/* A meeting of its own, so that later sentences can name hosts and processes. */
static void meet_facts(struct doctor *doctor, const struct doctor_facts *mine)
{
    struct doctor_facts *all = doctor->facts;
    doctor->facts = NULL;
    doctor_meet(doctor, "meeting the other ranks", mine, all, sizeof *mine);
    doctor->facts = all;
}

static void look_at_card(struct doctor *doctor, const struct doctor_gpus *gpus)
{
    struct doctor_card mine = {0};
    watch_step("asking NVML", 2 * doctor->timeout_s + 10, "the driver does not answer: see dmesg for Xid errors");
    if (gpus->state == DOCTOR_GPU_WORKS)
        doctor_nvml_look(gpus->gpus[gpus->chosen].uuid, &mine);
    doctor_meet(doctor, "asking NVML", &mine, doctor->cards, sizeof mine);
}

void doctor_examine(struct doctor *doctor, const struct doctor_facts *facts, const struct doctor_gpus *gpus)
{
    if (!allocate(doctor))
        watch_die("no memory for what %d ranks found", doctor->nranks);
    struct doctor_facts mine = *facts;
    if (gpus->state == DOCTOR_GPU_WORKS && tr_topology_near(gpus->gpus[gpus->chosen].bus_id, &mine.near_gpu) != TR_OK)
        CPU_ZERO(&mine.near_gpu);
    meet_facts(doctor, &mine);
    doctor_meet(doctor, "looking for GPUs", gpus, doctor->gpus, sizeof *gpus);
    doctor_try_host_pairs(doctor);
    doctor_try_gpu_pairs(doctor);
    look_at_card(doctor, gpus);
    doctor_name_links(doctor);
    doctor_share_pairs(doctor, "comparing what was found");
}

/* ---- For the benches --------------------------------------------------------------------------------------------- */

/* The first problem among the rows that need facts alone. */
static bool find_problem(const struct doctor *doctor, char *why, size_t size)
{
    struct doctor_finding finding = {.ranks = calloc((size_t)doctor->nranks, sizeof(bool))};
    bool found = false;
    for (int i = 0; finding.ranks && !found && i < doctor_nrows; i++) {
        if (!doctor_rows[i].quick)
            continue;
        char where[160];
        finding.advice[0] = '\0';
        memset(finding.ranks, 0, (size_t)doctor->nranks * sizeof *finding.ranks);
        doctor_rows[i].check(doctor, &finding);
        found = finding.verdict == DOCTOR_PROBLEM;
        if (!found)
            continue;
        finding_where(doctor, &finding, where, sizeof where);
        snprintf(why, size, "%s: %s%s%s: %s (`treering doctor` says more)", doctor_rows[i].title, where,
                 *where ? ": " : "", finding.text, finding.advice);
    }
    free(finding.ranks);
    return found;
}

bool doctor_quick(const char *program, double timeout_s, char *why, size_t size)
{
    struct doctor doctor = {.program = program, .timeout_s = timeout_s};
    struct doctor_facts mine;
    MPI_Comm_rank(MPI_COMM_WORLD, &doctor.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &doctor.nranks);
    doctor_facts_collect(&mine);
    doctor_facts_collect_mpi(&mine, program, doctor.nranks);
    watch_open(program, doctor.rank);
    if (!allocate(&doctor))
        watch_die("no memory for what %d ranks found", doctor.nranks);
    meet_facts(&doctor, &mine);
    bool found = find_problem(&doctor, why, size);
    doctor_close(&doctor);
    return !found;
}

/* check_pairs.c - what the trials between ranks gave. */
#include "doctor/checks.h"
#include "doctor/pairs.h"

#include <stdio.h>
#include <string.h>

static const struct doctor_pair *pair_of(const struct doctor *doctor, int from, int to)
{
    return &doctor_row(doctor, from)[to];
}

/* "2 of 6 ordered pairs fail, rank 0 to rank 1: why" */
static void say_failed(const struct doctor *doctor, struct doctor_finding *finding, int from, int to,
                       bool (*failed)(const struct doctor_pair *pair))
{
    size_t n = (size_t)doctor->nranks, count = 0;
    for (size_t i = 0; i < n * n; i++)
        count += failed(&doctor->pairs[i]);
    finding_say(finding, DOCTOR_PROBLEM, "%zu of %zu ordered pairs fail, rank %d to rank %d: %s", count, n * (n - 1),
                from, to, pair_of(doctor, from, to)->why);
}

static bool is_alone(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (doctor->nranks > 1)
        return false;
    finding_say(finding, DOCTOR_NOT_APPLICABLE, "one rank");
    return true;
}

/* ---- Shared memory ----------------------------------------------------------------------------------------------- */

static bool has_lost(const struct doctor_pair *pair)
{
    return pair->shared == DOCTOR_FAILS;
}

/* The first rank that `rank` has a failed pair with, -1: none. */
static int lost_to(const struct doctor *doctor, int rank)
{
    for (int r = 0; r < doctor->nranks; r++)
        if (has_lost(pair_of(doctor, rank, r)))
            return r;
    return -1;
}

static bool cannot_share(const struct doctor *doctor, int rank)
{
    return lost_to(doctor, rank) >= 0;
}

void check_shared_memory(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (is_alone(doctor, finding))
        return;
    int first = finding_mark(doctor, finding, cannot_share);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "every ordered pair of a host wrote through a mapping and read back");
        return;
    }
    say_failed(doctor, finding, first, lost_to(doctor, first), has_lost);
    finding_advise(finding,
                   "run all ranks as one user in one container, or with --pid=host; /proc must be mounted there "
                   "without hidepid");
}

/* ---- GPU memory -------------------------------------------------------------------------------------------------- */

static bool not_on_gpus(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (doctor_uses_gpus(doctor))
        return is_alone(doctor, finding);
    finding_say(finding, DOCTOR_NOT_APPLICABLE, "the ranks use host memory");
    return true;
}

/* The first rank whose GPU `rank`'s sees but cannot reach, -1: none. */
static int unreachable_from(const struct doctor *doctor, int rank)
{
    const struct doctor_gpus *mine = &doctor->gpus[rank];
    for (int r = 0; r < doctor->nranks; r++)
        for (int i = 0; i < mine->ngpus; i++)
            if (!mine->reaches[i] && strcmp(mine->gpus[i].uuid, doctor->gpus[r].gpus[doctor->gpus[r].chosen].uuid) == 0)
                return r;
    return -1;
}

static bool lacks_access(const struct doctor *doctor, int rank)
{
    return unreachable_from(doctor, rank) >= 0;
}

void check_peer_access(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (not_on_gpus(doctor, finding))
        return;
    int first = finding_mark(doctor, finding, lacks_access);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK, "the driver grants peer access between all GPUs in use");
        return;
    }
    finding_say(finding, DOCTOR_PROBLEM, "the driver grants the GPU of rank %d no peer access to that of rank %d",
                first, unreachable_from(doctor, first));
    finding_advise(finding,
                   "nvidia-smi topo -p2p r shows why; choose GPUs that reach each other by CUDA_VISIBLE_DEVICES, or "
                   "run with -M host");
}

static bool has_failed(const struct doctor_pair *pair)
{
    return pair->stores == DOCTOR_FAILS || pair->copies == DOCTOR_FAILS || pair->loads == DOCTOR_FAILS;
}

static int lost_gpu_to(const struct doctor *doctor, int rank)
{
    for (int r = 0; r < doctor->nranks; r++)
        if (has_failed(pair_of(doctor, rank, r)))
            return r;
    return -1;
}

static bool loses_data(const struct doctor *doctor, int rank)
{
    return lost_gpu_to(doctor, rank) >= 0;
}

void check_gpu_pairs(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (not_on_gpus(doctor, finding))
        return;
    int first = finding_mark(doctor, finding, loses_data);
    if (first < 0) {
        finding_say(finding, DOCTOR_OK,
                    "every ordered pair stored, copied and loaded through a mapping, all data right");
        return;
    }
    say_failed(doctor, finding, first, lost_gpu_to(doctor, first), has_failed);
    finding_advise(finding,
                   "one container or --pid=host --ipc=host for all ranks; srun --gpu-bind=none; data that is lost: "
                   "switch IOMMU and ACS off; or run with -M host");
}

/* ---- Transport --------------------------------------------------------------------------------------------------- */

static bool misses_a_link(const struct doctor *doctor, int rank)
{
    for (int r = 0; r < doctor->nranks; r++)
        if (pair_of(doctor, rank, r)->link == DOCTOR_LINK_NONE)
            return true;
    return false;
}

void check_transport(const struct doctor *doctor, struct doctor_finding *finding)
{
    size_t n = (size_t)doctor->nranks, counts[DOCTOR_LINK_COUNT] = {0};
    char list[200] = "";
    if (is_alone(doctor, finding))
        return;
    for (size_t i = 0; i < n * n; i++)
        counts[i / n == i % n ? DOCTOR_LINK_SELF : doctor->pairs[i].link]++;
    for (int link = 0, used = 0; link < DOCTOR_LINK_COUNT; link++)
        if (counts[link] && link != DOCTOR_LINK_SELF)
            used += snprintf(list + used, sizeof list - (size_t)used, "%s%s between %zu", used ? ", " : "",
                             doctor_link_names[link], counts[link]);
    int first = finding_mark(doctor, finding, misses_a_link);
    finding_say(finding, first < 0 ? DOCTOR_OK : DOCTOR_PROBLEM, "of %zu ordered pairs: %s", n * (n - 1), list);
    if (first >= 0)
        finding_advise(finding, "the rows above say what fails between them");
}

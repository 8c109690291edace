/* check_gpu.c - the ranks' GPUs, who shares them, and the software on top. */
#include "collectives/comm.h"
#include "doctor/checks.h"
#include "doctor/pairs.h"

#include <string.h>

static const struct doctor_gpu *gpu_of(const struct doctor *doctor, int rank)
{
    return &doctor->gpus[rank].gpus[doctor->gpus[rank].chosen];
}

static bool not_on_gpus(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (doctor_uses_gpus(doctor))
        return false;
    finding_say(finding, DOCTOR_NOT_APPLICABLE, "the ranks use host memory");
    return true;
}

/* ---- Which GPUs there are ---------------------------------------------------------------------------------------- */

static bool hangs(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].state == DOCTOR_GPU_HANGS;
}

static bool fails(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].state == DOCTOR_GPU_FAILS;
}

static bool is_blind(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].state == DOCTOR_GPU_NONE || doctor->gpus[rank].state == DOCTOR_GPU_NO_BUILD;
}

static bool is_old(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].state == DOCTOR_GPU_WORKS && gpu_of(doctor, rank)->major < 8;
}

static void say_gpus(const struct doctor *doctor, struct doctor_finding *finding)
{
    int kinds = 1;
    for (int r = 1; r < doctor->nranks; r++)
        kinds += strcmp(gpu_of(doctor, r)->name, gpu_of(doctor, 0)->name) != 0;
    finding_say(finding, kinds > 1 ? DOCTOR_WARNING : DOCTOR_OK, "rank 0 sees %d, and takes %s (%s, %s)%s",
                doctor->gpus[0].ngpus, gpu_of(doctor, 0)->name, gpu_of(doctor, 0)->bus_id, gpu_of(doctor, 0)->uuid,
                kinds > 1 ? "; other ranks take GPUs of another kind" : "");
    if (kinds > 1)
        finding_advise(finding, "the slowest sets the pace: choose GPUs of one kind by CUDA_VISIBLE_DEVICES");
}

/* Ranks without a GPU beside ranks with one: a communicator then is one of host memory. */
static void say_blind(const struct doctor *doctor, struct doctor_finding *finding, int first)
{
    int others = 0;
    for (int r = 0; r < doctor->nranks; r++)
        others += !is_blind(doctor, r);
    const char *why = doctor->gpus[first].state == DOCTOR_GPU_NO_BUILD ? "this build has no CUDA" : "no GPU is seen";
    finding_say(finding, others ? DOCTOR_WARNING : DOCTOR_NOT_APPLICABLE, "%s%s", why,
                others ? " while other ranks see one: all then run on host memory" : ": the ranks run on host memory");
    if (others)
        finding_advise(finding, "see nvidia-smi and CUDA_VISIBLE_DEVICES there (is \"%s\"), and start all ranks alike",
                       doctor->facts[first].visible_gpus);
    else
        memset(finding->ranks, 0, (size_t)doctor->nranks * sizeof *finding->ranks);
}

void check_gpus(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, hangs);
    if (first >= 0) {
        finding_say(finding, DOCTOR_PROBLEM, "bringing up CUDA hangs (given up after %g s)%s", doctor->timeout_s,
                    doctor->facts[first].mps != MPS_NONE ? "; MPS is or was running here" : "");
        finding_advise(finding, "%s",
                       doctor->facts[first].mps != MPS_NONE ? doctor_cuda_advice(805) : doctor_cuda_advice(0));
        return;
    }
    first = finding_mark(doctor, finding, fails);
    if (first >= 0) {
        finding_say(finding, DOCTOR_PROBLEM, "%s", doctor->gpus[first].what);
        finding_advise(finding, "%s", doctor_cuda_advice(doctor->gpus[first].error));
        return;
    }
    first = finding_mark(doctor, finding, is_blind);
    if (first >= 0) {
        say_blind(doctor, finding, first);
        return;
    }
    first = finding_mark(doctor, finding, is_old);
    if (first >= 0) {
        finding_say(finding, DOCTOR_PROBLEM, "%s has compute capability %d.%d, and 8.0 is needed",
                    gpu_of(doctor, first)->name, gpu_of(doctor, first)->major, gpu_of(doctor, first)->minor);
        finding_advise(finding, "choose a newer GPU by CUDA_VISIBLE_DEVICES, or run with -M host");
        return;
    }
    if (doctor->nranks > doctor->gpus[0].most_ranks) {
        finding_say(finding, DOCTOR_PROBLEM, "%d ranks, and a communicator on GPUs has at most %d", doctor->nranks,
                    doctor->gpus[0].most_ranks);
        finding_advise(finding, "run fewer ranks, or with -M host");
        return;
    }
    say_gpus(doctor, finding);
}

/* ---- Several ranks on a GPU -------------------------------------------------------------------------------------- */

static int sharers(const struct doctor *doctor, int rank)
{
    int count = 0;
    for (int r = 0; r < doctor->nranks; r++)
        count += strcmp(gpu_of(doctor, r)->uuid, gpu_of(doctor, rank)->uuid) == 0 &&
                 strcmp(doctor->facts[r].place, doctor->facts[rank].place) == 0;
    return count;
}

static bool shares(const struct doctor *doctor, int rank)
{
    return sharers(doctor, rank) > 1;
}

static bool takes_turns(const struct doctor *doctor, int rank)
{
    return shares(doctor, rank) && doctor->facts[rank].mps != MPS_ANSWERS;
}

/* Compute mode 3: one process alone, 2: none. */
static bool is_refused(const struct doctor *doctor, int rank)
{
    int mode = gpu_of(doctor, rank)->compute_mode;
    return mode == 2 || (mode == 3 && takes_turns(doctor, rank));
}

void check_gpu_sharing(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (not_on_gpus(doctor, finding))
        return;
    int first = finding_mark(doctor, finding, is_refused);
    if (first >= 0) {
        finding_say(
            finding, DOCTOR_PROBLEM, "GPU %s is in compute mode %s, and %d ranks want it", gpu_of(doctor, first)->uuid,
            gpu_of(doctor, first)->compute_mode == 2 ? "PROHIBITED" : "EXCLUSIVE_PROCESS", sharers(doctor, first));
        finding_advise(finding, "nvidia-smi -c DEFAULT, or start MPS: nvidia-cuda-mps-control -d");
        return;
    }
    first = finding_mark(doctor, finding, takes_turns);
    if (first >= 0) {
        finding_say(finding, DOCTOR_WARNING,
                    "%d ranks share GPU %s without MPS: they take turns of about 2 ms; NCCL refuses",
                    sharers(doctor, first), gpu_of(doctor, first)->uuid);
        finding_advise(finding, "start MPS before the ranks (nvidia-cuda-mps-control -d), or run one rank a GPU");
        return;
    }
    first = finding_mark(doctor, finding, shares);
    if (first >= 0)
        finding_say(finding, DOCTOR_OK, "%d ranks share GPU %s under MPS; NCCL refuses such a communicator",
                    sharers(doctor, first), gpu_of(doctor, first)->uuid);
    else
        finding_say(finding, DOCTOR_OK, "every rank has a GPU of its own");
}

static bool has_dead_mps(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].mps == MPS_DEAD;
}

static bool lacks_mps_of_rank_0(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].mps != doctor->facts[0].mps ||
           (doctor->facts[rank].mps == MPS_ANSWERS &&
            strcmp(doctor->facts[rank].mps_folder, doctor->facts[0].mps_folder) != 0);
}

void check_mps(const struct doctor *doctor, struct doctor_finding *finding)
{
    int first = finding_mark(doctor, finding, has_dead_mps);
    if (first >= 0) {
        finding_say(finding, DOCTOR_WARNING, "%s/control is there, but no MPS daemon answers: CUDA may fail or hang",
                    doctor->facts[first].mps_folder);
        finding_advise(finding, "nvidia-cuda-mps-control -d starts it; or remove the folder, or unset "
                                "CUDA_MPS_PIPE_DIRECTORY");
        return;
    }
    first = finding_mark(doctor, finding, lacks_mps_of_rank_0);
    if (first >= 0) {
        finding_say(finding, DOCTOR_WARNING, "MPS at %s is not rank 0's: such ranks take turns on a GPU",
                    doctor->facts[first].mps_folder);
        finding_advise(finding, "give all ranks the same CUDA_MPS_PIPE_DIRECTORY: mpirun -x CUDA_MPS_PIPE_DIRECTORY");
        return;
    }
    if (doctor->facts[0].mps == MPS_ANSWERS)
        finding_say(finding, DOCTOR_OK, "runs, control socket in %s", doctor->facts[0].mps_folder);
    else
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "does not run");
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static bool lacks_gpu_memory(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].free_bytes < tr_cuda_arena_bytes(doctor->nranks) * (size_t)sharers(doctor, rank);
}

static bool has_little_left(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].free_bytes < doctor->gpus[rank].total_bytes / 2;
}

void check_gpu_memory(const struct doctor *doctor, struct doctor_finding *finding)
{
    char free_text[BYTES_TEXT], total_text[BYTES_TEXT], need_text[BYTES_TEXT];
    if (not_on_gpus(doctor, finding))
        return;
    int lacking = finding_mark(doctor, finding, lacks_gpu_memory);
    int little = lacking < 0 ? finding_mark(doctor, finding, has_little_left) : -1;
    int at = lacking >= 0 ? lacking : little >= 0 ? little : 0;
    bytes_text((int64_t)doctor->gpus[at].free_bytes, free_text);
    bytes_text((int64_t)doctor->gpus[at].total_bytes, total_text);
    bytes_text((int64_t)tr_cuda_arena_bytes(doctor->nranks), need_text);
    finding_say(finding,
                lacking >= 0  ? DOCTOR_PROBLEM
                : little >= 0 ? DOCTOR_WARNING
                              : DOCTOR_OK,
                "%s of %s free on %s; a communicator takes %s a rank, buffers come on top", free_text, total_text,
                gpu_of(doctor, at)->uuid, need_text);
    if (lacking >= 0 || little >= 0)
        finding_advise(finding, "nvidia-smi shows who holds it: end that, or run with a smaller -e");
}

/* ---- Versions ---------------------------------------------------------------------------------------------------- */

/* A runtime runs on a driver of the same major version or later (CUDA Compatibility, "minor version compatibility"). */
static bool has_old_driver(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].driver > 0 && doctor->gpus[rank].driver / 1000 < doctor->gpus[rank].runtime / 1000;
}

void check_cuda_versions(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (doctor->gpus[0].state == DOCTOR_GPU_NO_BUILD) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "this build has no CUDA");
        return;
    }
    int first = finding_mark(doctor, finding, has_old_driver), at = first < 0 ? 0 : first;
    int driver = doctor->gpus[at].driver, runtime = doctor->gpus[at].runtime;
    if (driver == 0) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "runtime %d.%d, no driver", runtime / 1000, runtime % 1000 / 10);
        return;
    }
    finding_say(finding, first < 0 ? DOCTOR_OK : DOCTOR_PROBLEM, "runtime %d.%d, driver %s (up to CUDA %d.%d)",
                runtime / 1000, runtime % 1000 / 10, doctor->cards[at].known ? doctor->cards[at].driver : "?",
                driver / 1000, driver % 1000 / 10);
    if (first >= 0)
        finding_advise(finding, "install a newer driver, or build with CUDA %d", driver / 1000);
}

/* Within a major version NCCL's library may be newer than its header; an older one may lack what was compiled in. */
static bool has_old_nccl(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].nccl_loaded < doctor->facts[rank].nccl_compiled;
}

static bool has_other_nccl(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].nccl_loaded != doctor->facts[0].nccl_loaded;
}

void check_nccl(const struct doctor *doctor, struct doctor_finding *finding)
{
    if (doctor->facts[0].nccl_compiled == 0) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "this build has no NCCL");
        return;
    }
    int old = finding_mark(doctor, finding, has_old_nccl);
    int other = old < 0 ? finding_mark(doctor, finding, has_other_nccl) : -1;
    int at = old >= 0 ? old : other >= 0 ? other : 0;
    const struct doctor_facts *facts = &doctor->facts[at];
    finding_say(
        finding, old >= 0 || other >= 0 ? DOCTOR_WARNING : DOCTOR_OK,
        "%d.%d.%d is loaded (%s), compiled with %d.%d.%d%s", facts->nccl_loaded / 10000, facts->nccl_loaded / 100 % 100,
        facts->nccl_loaded % 100, *facts->nccl_path ? facts->nccl_path : "linked in", facts->nccl_compiled / 10000,
        facts->nccl_compiled / 100 % 100, facts->nccl_compiled % 100, other >= 0 ? "; rank 0 loaded another" : "");
    if (old >= 0 || other >= 0)
        finding_advise(finding, "see LD_LIBRARY_PATH: it finds an %s libnccl.so.2 first; mpirun -x LD_LIBRARY_PATH",
                       old >= 0 ? "older" : "other");
}

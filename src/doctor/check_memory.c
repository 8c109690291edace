/* check_memory.c - host memory: what a communicator takes, what MPI and NCCL take of /dev/shm, what may be locked. */
#include "doctor/checks.h"
#include "collectives/exec_host.h"
#include "doctor/pairs.h"

#include <string.h>

/* By rank: its host's ranks. */
static int ranks_on_host(const struct doctor *doctor, int rank)
{
    int count = 0;
    for (int r = 0; r < doctor->nranks; r++)
        count += !strcmp(doctor->facts[r].place, doctor->facts[rank].place);
    return count;
}

static bool lacks_memory(const struct doctor *doctor, int rank)
{
    int64_t need = (int64_t)tr_host_area_bytes(doctor->nranks) * ranks_on_host(doctor, rank);
    return doctor->facts[rank].memory_available < need;
}

void check_memory(const struct doctor *doctor, struct doctor_finding *finding)
{
    char free_text[BYTES_TEXT], need_text[BYTES_TEXT];
    int first = finding_mark(doctor, finding, lacks_memory), at = first < 0 ? 0 : first;
    int ranks = ranks_on_host(doctor, at);
    bytes_text(doctor->facts[at].memory_available, free_text);
    bytes_text((int64_t)tr_host_area_bytes(doctor->nranks) * ranks, need_text);
    finding_say(finding, first < 0 ? DOCTOR_OK : DOCTOR_PROBLEM,
                "%s left of the host or container; a communicator of CPU ranks takes %s in all (%d rank%s), buffers "
                "come on top",
                free_text, need_text, ranks, ranks == 1 ? "" : "s");
    if (first >= 0)
        finding_advise(finding, "free memory, raise the container's limit, or run fewer ranks");
}

/* What is taken of /dev/shm: by Open MPI a file of 4 MiB a rank (btl_vader_segment_size; sm in version 5), by NCCL, where
 * it falls back to shared memory, one of 9637888 bytes for each neighbour in each channel's ring, so that docker's 64 MiB
 * are too few (NVIDIA/nccl issue 342; its guide asks for --shm-size=1g). */
enum { MPI_SHM = 4 << 20, NCCL_SHM = 10 << 20 };

static int64_t mpi_need(const struct doctor *doctor, int rank)
{
    return (int64_t)MPI_SHM * ranks_on_host(doctor, rank);
}

/* The most that a rank of this host saw: others may have taken their part before a rank looked. */
static int64_t shm_free_on_host(const struct doctor *doctor, int rank)
{
    int64_t most = -1;
    for (int r = 0; r < doctor->nranks; r++)
        if (!strcmp(doctor->facts[r].place, doctor->facts[rank].place) &&
            doctor->facts[r].ipc_namespace == doctor->facts[rank].ipc_namespace &&
            doctor->facts[r].shm_bytes == doctor->facts[rank].shm_bytes && doctor->facts[r].shm_free > most)
            most = doctor->facts[r].shm_free;
    return most;
}

static bool lacks_shm(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].shm_bytes >= 0 && shm_free_on_host(doctor, rank) < mpi_need(doctor, rank);
}

static bool lacks_shm_for_nccl(const struct doctor *doctor, int rank)
{
    int64_t need = mpi_need(doctor, rank) + (int64_t)NCCL_SHM * ranks_on_host(doctor, rank);
    return doctor_uses_gpus(doctor) && doctor->facts[rank].nccl_loaded && doctor->facts[rank].shm_bytes >= 0 &&
           shm_free_on_host(doctor, rank) < need;
}

static bool lacks_dev_shm(const struct doctor *doctor, int rank)
{
    return doctor->facts[rank].shm_bytes < 0;
}

static const char grow[] = "make it larger: docker run --shm-size=1g, or mount -o remount,size=1G /dev/shm";

void check_dev_shm(const struct doctor *doctor, struct doctor_finding *finding)
{
    char free_text[BYTES_TEXT], size_text[BYTES_TEXT], need_text[BYTES_TEXT];
    if (doctor->nranks == 1) {
        finding_say(finding, DOCTOR_NOT_APPLICABLE, "one rank");
        return;
    }
    if (finding_mark(doctor, finding, lacks_dev_shm) >= 0) {
        finding_say(finding, DOCTOR_WARNING, "no tmpfs at /dev/shm: MPI and NCCL put shared memory there");
        finding_advise(finding, "mount one: mount -t tmpfs -o size=1G tmpfs /dev/shm");
        return;
    }
    int first = finding_mark(doctor, finding, lacks_shm);
    int nccl = first < 0 ? finding_mark(doctor, finding, lacks_shm_for_nccl) : -1;
    int at = first >= 0 ? first : nccl >= 0 ? nccl : 0;
    bytes_text(shm_free_on_host(doctor, at), free_text);
    bytes_text(doctor->facts[at].shm_bytes, size_text);
    bytes_text(mpi_need(doctor, at) + (nccl >= 0 ? (int64_t)NCCL_SHM * ranks_on_host(doctor, at) : 0), need_text);
    finding_say(finding,
                first >= 0  ? DOCTOR_PROBLEM
                : nccl >= 0 ? DOCTOR_WARNING
                            : DOCTOR_OK,
                "%s of %s free; %s may take %s of it, Treering nothing", free_text, size_text,
                nccl >= 0 ? "MPI and NCCL" : "MPI", need_text);
    if (first >= 0 || nccl >= 0)
        finding_advise(finding, "%s", grow);
}

/* ---- Locked memory ----------------------------------------------------------------------------------------------- */

static bool may_lock_little(const struct doctor *doctor, int rank)
{
    int64_t limit = doctor->facts[rank].locked_limit;
    return limit != DOCTOR_UNLIMITED && (limit < 64 << 10 || doctor->facts[rank].infiniband > 0);
}

/* Treering locks nothing, nor does CUDA's page-locked memory count here; InfiniBand's drivers do it. */
void check_locked_memory(const struct doctor *doctor, struct doctor_finding *finding)
{
    char limit_text[BYTES_TEXT];
    int first = finding_mark(doctor, finding, may_lock_little), at = first < 0 ? 0 : first;
    int64_t limit = doctor->facts[at].locked_limit;
    bytes_text(limit, limit_text);
    finding_say(finding, first < 0 ? DOCTOR_OK : DOCTOR_WARNING, "limit %s, %d InfiniBand adapters%s",
                limit == DOCTOR_UNLIMITED ? "none" : limit_text, doctor->facts[at].infiniband,
                first < 0 ? "" : ": MPI and NCCL cannot register buffers with a network adapter");
    if (first >= 0)
        finding_advise(finding,
                       "ulimit -l unlimited (limits.conf: memlock), docker run --ulimit memlock=-1, or Slurm's "
                       "PropagateResourceLimitsExcept=MEMLOCK");
}

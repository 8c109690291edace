/* doctor_test.c - the doctor's checks on launches that were made up: one fault each, and a verdict, a text and an advice that
 * name it. Here are the faults that need GPUs, which few machines have and none can make at will. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collectives/comm.h"
#include "doctor/checks.h"
#include "doctor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

/* ---- A healthy launch: four ranks, a GPU each, NVLink between them ------------------------------------------------- */

struct launch {
    struct doctor doctor;
    struct doctor_facts facts[RANKS];
    struct doctor_gpus gpus[RANKS];
    struct doctor_card cards[RANKS];
    struct doctor_pair pairs[RANKS * RANKS];
};

static void make_gpus(struct doctor_gpus *gpus, int rank)
{
    *gpus = (struct doctor_gpus){.state = DOCTOR_GPU_WORKS,
                                 .ngpus = RANKS,
                                 .most_ranks = 16,
                                 .chosen = rank,
                                 .driver = 13000,
                                 .runtime = 13000,
                                 .free_bytes = (size_t)140 << 30,
                                 .total_bytes = (size_t)141 << 30};
    for (int i = 0; i < RANKS; i++) {
        struct doctor_gpu *gpu = &gpus->gpus[i];
        *gpu = (struct doctor_gpu){.name = "NVIDIA H200", .major = 9};
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%d", i);
        snprintf(gpu->bus_id, sizeof gpu->bus_id, "0000:%02x:00.0", i);
        gpus->reaches[i] = 1;
    }
}

static void make_facts(struct doctor_facts *facts, int rank)
{
    *facts = (struct doctor_facts){.host = "node7",
                                   .place = "node7/boot",
                                   .mpi = "Open MPI v4.1.4",
                                   .pid = 100 + rank,
                                   .pid_namespace = 1,
                                   .ipc_namespace = 2,
                                   .shm_bytes = (int64_t)64 << 30,
                                   .shm_free = (int64_t)64 << 30,
                                   .memory_available = (int64_t)64 << 30,
                                   .locked_limit = DOCTOR_UNLIMITED,
                                   .cpus_online = 16,
                                   .nccl_compiled = 22703,
                                   .nccl_loaded = 22703};
    for (int cpu = 4 * rank; cpu < 4 * rank + 4; cpu++)
        CPU_SET(cpu, &facts->cpus);
    facts->near_gpu = facts->cpus;
}

static struct launch *make_healthy(void)
{
    struct launch *launch = calloc(1, sizeof *launch);
    assert_non_null(launch);
    launch->doctor = (struct doctor){.program = "treering doctor",
                                     .nranks = RANKS,
                                     .timeout_s = 30,
                                     .facts = launch->facts,
                                     .gpus = launch->gpus,
                                     .cards = launch->cards,
                                     .pairs = launch->pairs};
    for (int r = 0; r < RANKS; r++) {
        make_facts(&launch->facts[r], r);
        make_gpus(&launch->gpus[r], r);
        launch->cards[r] = (struct doctor_card){
            .known = true, .driver = "580.1", .links = 18, .links_active = 18, .link_mbps = 26562, .sm_mhz = 345};
        for (int to = 0; to < RANKS; to++)
            launch->pairs[r * RANKS + to] =
                r == to
                    ? (struct doctor_pair){.link = DOCTOR_LINK_SELF}
                    : (struct doctor_pair){
                          DOCTOR_WORKS, DOCTOR_WORKS, DOCTOR_WORKS, DOCTOR_WORKS, DOCTOR_WORKS, DOCTOR_LINK_NVLINK, ""};
    }
    return launch;
}

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

static void all_on_one_gpu(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++)
        launch->gpus[r].chosen = 0;
}

static void mps_on_one_gpu(struct launch *launch)
{
    all_on_one_gpu(launch);
    for (int r = 0; r < RANKS; r++)
        launch->facts[r].mps = MPS_ANSWERS;
}

static void exclusive_gpu(struct launch *launch)
{
    all_on_one_gpu(launch);
    for (int r = 0; r < RANKS; r++)
        launch->gpus[r].gpus[0].compute_mode = 3;
}

static void prohibited_gpu(struct launch *launch)
{
    launch->gpus[2].gpus[2].compute_mode = 2;
}

/* Each task sees one GPU, its own. */
static void hidden_gpus(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++) {
        launch->gpus[r].gpus[0] = launch->gpus[r].gpus[r];
        launch->gpus[r].ngpus = 1;
        launch->gpus[r].chosen = 0;
        snprintf(launch->facts[r].visible_gpus, sizeof launch->facts[r].visible_gpus, "%d", r);
        for (int to = 0; to < RANKS; to++)
            if (to != r)
                launch->pairs[r * RANKS + to].stores = launch->pairs[r * RANKS + to].loads = DOCTOR_FAILS;
    }
}

static void hidden_by_slurm(struct launch *launch)
{
    hidden_gpus(launch);
    for (int r = 0; r < RANKS; r++)
        snprintf(launch->facts[r].slurm_binding, sizeof launch->facts[r].slurm_binding, "SLURM_GPUS_PER_TASK=1");
}

static void hidden_but_works(struct launch *launch)
{
    hidden_gpus(launch);
    for (int i = 0; i < RANKS * RANKS; i++)
        launch->pairs[i].stores = launch->pairs[i].loads = DOCTOR_WORKS;
}

static void hung_cuda(struct launch *launch)
{
    launch->gpus[1] = (struct doctor_gpus){.state = DOCTOR_GPU_HANGS};
    launch->facts[1].mps = MPS_DEAD;
}

static void failed_cuda(struct launch *launch)
{
    launch->gpus[3] = (struct doctor_gpus){.state = DOCTOR_GPU_FAILS, .error = 802, .what = "cudaSetDevice failed"};
}

static void blind_rank(struct launch *launch)
{
    launch->gpus[2] = (struct doctor_gpus){.state = DOCTOR_GPU_NONE};
}

static void too_many_ranks(struct launch *launch)
{
    launch->gpus[0].most_ranks = RANKS - 1;
}

static void old_gpu(struct launch *launch)
{
    launch->gpus[0].gpus[0].major = 7;
}

static void full_gpu(struct launch *launch)
{
    launch->gpus[1].free_bytes = 0;
}

static void taken_gpu(struct launch *launch)
{
    launch->gpus[1].free_bytes = (size_t)20 << 30;
}

static void no_peer_access(struct launch *launch)
{
    launch->gpus[0].reaches[3] = 0;
}

static void lost_stores(struct launch *launch)
{
    struct doctor_pair *pair = &launch->pairs[1 * RANKS + 2];
    doctor_note(pair, &pair->stores, false, "a kernel's stores to the peer did not arrive there");
    pair->link = DOCTOR_LINK_NONE;
}

static void lost_shared(struct launch *launch)
{
    struct doctor_pair *pair = &launch->pairs[3 * RANKS + 0];
    doctor_note(pair, &pair->shared, false, "cannot open");
}

static void no_private_writes(struct launch *launch)
{
    launch->pairs[1].private_ = DOCTOR_FAILS;
    launch->facts[0].ptrace_scope = 1;
}

static void dead_link(struct launch *launch)
{
    launch->cards[2].links_active = 17;
}

static void link_errors(struct launch *launch)
{
    launch->cards[2].link_errors = 12;
}

static void hot_gpu(struct launch *launch)
{
    launch->cards[1].slowed = 0x40;
}

static void old_driver(struct launch *launch)
{
    launch->gpus[0].driver = 12080;
}

static void old_nccl(struct launch *launch)
{
    launch->facts[2].nccl_loaded = 22005;
}

static void far_cpus(struct launch *launch)
{
    launch->facts[0].near_gpu = launch->facts[3].cpus;
}

static void crowded_cpu(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++) {
        CPU_ZERO(&launch->facts[r].cpus);
        CPU_SET(5, &launch->facts[r].cpus);
    }
}

static void small_quota(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++)
        launch->facts[r].cpu_quota = 1.5;
}

static void little_memory(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++)
        launch->facts[r].memory_available = 1 << 20;
}

static void small_shm(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++)
        launch->facts[r].shm_bytes = launch->facts[r].shm_free = 1 << 20;
}

static void docker_shm(struct launch *launch)
{
    for (int r = 0; r < RANKS; r++)
        launch->facts[r].shm_bytes = launch->facts[r].shm_free = 50 << 20;
}

static void adapter_without_memory(struct launch *launch)
{
    launch->facts[0].infiniband = 2;
    launch->facts[0].locked_limit = 8 << 20;
}

static void another_user(struct launch *launch)
{
    launch->facts[1].user = 1000;
}

static void other_ipc(struct launch *launch)
{
    launch->facts[3].ipc_namespace = 9;
}

static void other_mpi(struct launch *launch)
{
    snprintf(launch->facts[3].mpi, sizeof launch->facts[3].mpi, "MPICH 4");
}

static void other_mps(struct launch *launch)
{
    mps_on_one_gpu(launch);
    snprintf(launch->facts[3].mps_folder, sizeof launch->facts[3].mps_folder, "/tmp/other");
}

static void two_hosts(struct launch *launch)
{
    for (int r = 2; r < RANKS; r++) {
        snprintf(launch->facts[r].host, sizeof launch->facts[r].host, "node8");
        snprintf(launch->facts[r].place, sizeof launch->facts[r].place, "node8/boot");
    }
}

/* What a fault gives: the row that tells, its verdict, where, and words of the text and of the advice. */
static const struct {
    void (*make)(struct launch *launch);
    const char *row;
    enum doctor_verdict verdict;
    const char *where, *text, *advice;
} faults[] = {
    {all_on_one_gpu, "gpu_sharing", DOCTOR_WARNING, "ranks 0-3 on node7", "4 ranks share GPU GPU-0 without MPS",
     "nvidia-cuda-mps-control -d"},
    {mps_on_one_gpu, "gpu_sharing", DOCTOR_OK, "ranks 0-3 on node7", "under MPS", ""},
    {exclusive_gpu, "gpu_sharing", DOCTOR_PROBLEM, "ranks 0-3 on node7", "EXCLUSIVE_PROCESS", "nvidia-smi -c DEFAULT"},
    {prohibited_gpu, "gpu_sharing", DOCTOR_PROBLEM, "rank 2 on node7", "PROHIBITED", "nvidia-smi -c DEFAULT"},
    {hidden_gpus, "gpu_binding", DOCTOR_PROBLEM, "ranks 0-3 on node7", "CUDA_VISIBLE_DEVICES=0",
     "CUDA_VISIBLE_DEVICES"},
    {hidden_by_slurm, "gpu_binding", DOCTOR_PROBLEM, "ranks 0-3 on node7", "SLURM_GPUS_PER_TASK=1",
     "--gpus-per-node=N --gpu-bind=none"},
    {hidden_but_works, "gpu_binding", DOCTOR_WARNING, "ranks 0-3 on node7", "works here all the same", "same CUDA"},
    {hung_cuda, "gpus", DOCTOR_PROBLEM, "rank 1 on node7", "hangs (given up after 30 s)", "start MPS anew"},
    {hung_cuda, "mps", DOCTOR_WARNING, "rank 1 on node7", "no MPS daemon answers", "nvidia-cuda-mps-control -d"},
    {failed_cuda, "gpus", DOCTOR_PROBLEM, "rank 3 on node7", "cudaSetDevice failed", "nvidia-fabricmanager"},
    {blind_rank, "gpus", DOCTOR_WARNING, "rank 2 on node7", "all then run on host memory", "nvidia-smi"},
    {too_many_ranks, "gpus", DOCTOR_PROBLEM, "", "at most 3", "-M host"},
    {old_gpu, "gpus", DOCTOR_PROBLEM, "rank 0 on node7", "compute capability 7.0", "newer GPU"},
    {taken_gpu, "gpu_memory", DOCTOR_WARNING, "rank 1 on node7", "20 GiB of 141 GiB free on GPU-1", "nvidia-smi"},
    {no_peer_access, "peer_access", DOCTOR_PROBLEM, "rank 0 on node7", "to that of rank 3", "topo -p2p"},
    {lost_stores, "gpu_pairs", DOCTOR_PROBLEM, "rank 1 on node7",
     "1 of 12 ordered pairs fail, rank 1 to rank 2: a kernel's", "IOMMU"},
    {lost_stores, "transport", DOCTOR_PROBLEM, "rank 1 on node7", "none between 1, NVLink between 11", "rows above"},
    {lost_shared, "shared_memory", DOCTOR_PROBLEM, "rank 3 on node7", "rank 3 to rank 0: cannot open", "--pid=host"},
    {no_private_writes, "private_writes", DOCTOR_WARNING, "rank 0 on node7", "ptrace_scope is 1", "ptrace_scope=0"},
    {dead_link, "nvlink", DOCTOR_WARNING, "rank 2 on node7", "17 of 18 links active", "nvlink -s"},
    {link_errors, "nvlink", DOCTOR_WARNING, "rank 2 on node7", "12 replays", "nvlink -e"},
    {hot_gpu, "clocks", DOCTOR_WARNING, "rank 1 on node7", "too hot", "nvidia-smi -q"},
    {old_driver, "cuda_versions", DOCTOR_PROBLEM, "rank 0 on node7", "runtime 13.0, driver 580.1 (up to CUDA 12.8)",
     "newer driver"},
    {old_nccl, "nccl", DOCTOR_WARNING, "rank 2 on node7", "2.20.5 is loaded", "LD_LIBRARY_PATH"},
    {far_cpus, "gpu_affinity", DOCTOR_WARNING, "rank 0 on node7", "bound to CPUs 0-3, and the GPU is near 12-15",
     "--bind-to none"},
    {crowded_cpu, "cpu_affinity", DOCTOR_WARNING, "ranks 0-3 on node7", "4 ranks are bound to CPU 5", "--bind-to core"},
    {crowded_cpu, "cpu_share", DOCTOR_WARNING, "ranks 0-3 on node7", "4 ranks on 1 CPUs", "at most 1 ranks"},
    {small_quota, "cpu_share", DOCTOR_WARNING, "ranks 0-3 on node7", "4 ranks on 1.5 CPUs (a control group", "--cpus"},
    {little_memory, "memory", DOCTOR_PROBLEM, "ranks 0-3 on node7", "1.0 MiB left", "fewer ranks"},
    {small_shm, "dev_shm", DOCTOR_PROBLEM, "ranks 0-3 on node7", "1.0 MiB of 1.0 MiB free", "--shm-size=1g"},
    {docker_shm, "dev_shm", DOCTOR_WARNING, "ranks 0-3 on node7", "MPI and NCCL may take 56 MiB", "--shm-size=1g"},
    {adapter_without_memory, "locked_memory", DOCTOR_WARNING, "rank 0 on node7", "limit 8.0 MiB",
     "ulimit -l unlimited"},
    {another_user, "user", DOCTOR_PROBLEM, "rank 1 on node7", "user 1000", "one user"},
    {other_ipc, "ipc_namespace", DOCTOR_WARNING, "rank 3 on node7", "another IPC namespace", "--ipc=host"},
    {other_mpi, "mpi", DOCTOR_WARNING, "rank 3 on node7", "MPICH 4", "LD_LIBRARY_PATH"},
    {other_mps, "mps", DOCTOR_WARNING, "rank 3 on node7", "/tmp/other is not rank 0's", "CUDA_MPS_PIPE_DIRECTORY"},
    {two_hosts, "hosts", DOCTOR_PROBLEM, "ranks 2-3 on node8", "where rank 0 is (node7)", "one host"},
};

static int find_row(const char *name)
{
    int row = 0;
    while (row < doctor_nrows && strcmp(doctor_rows[row].name, name) != 0)
        row++;
    assert_in_range(row, 0, doctor_nrows - 1);
    return row;
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct launch *launch = make_healthy();
        char where[160];
        faults[i].make(launch);
        struct doctor_finding *findings = doctor_judge(&launch->doctor);
        assert_non_null(findings);
        const struct doctor_finding *finding = &findings[find_row(faults[i].row)];
        finding_where(&launch->doctor, finding, where, sizeof where);
        bool right = finding->verdict == faults[i].verdict && strstr(finding->text, faults[i].text) &&
                     strstr(finding->advice, faults[i].advice) && strcmp(where, faults[i].where) == 0;
        if (!right)
            fail_msg("fault %zu, row %s: verdict %s: %s: %s -> %s", i, faults[i].row,
                     doctor_verdict_names[finding->verdict], where, finding->text, finding->advice);
        assert_true(faults[i].verdict == DOCTOR_OK || doctor_worst(findings) >= faults[i].verdict);
        doctor_findings_free(findings);
        free(launch);
    }
}

/* In a build with CUDA alone a communicator takes GPU memory. */
static void test_full_gpu(void **state)
{
    (void)state;
    struct launch *launch = make_healthy();
    full_gpu(launch);
    struct doctor_finding *findings = doctor_judge(&launch->doctor);
    assert_non_null(findings);
    enum doctor_verdict expected = tr_cuda_arena_bytes(RANKS) > 0 ? DOCTOR_PROBLEM : DOCTOR_WARNING;
    assert_int_equal(findings[find_row("gpu_memory")].verdict, expected);
    doctor_findings_free(findings);
    free(launch);
}

static void test_healthy(void **state)
{
    (void)state;
    struct launch *launch = make_healthy();
    struct doctor_finding *findings = doctor_judge(&launch->doctor);
    assert_non_null(findings);
    for (int i = 0; i < doctor_nrows; i++)
        if (findings[i].verdict > DOCTOR_NOT_APPLICABLE || findings[i].advice[0])
            fail_msg("%s: %s: %s", doctor_rows[i].name, findings[i].text, findings[i].advice);
    assert_int_equal(doctor_worst(findings), DOCTOR_OK);
    doctor_findings_free(findings);
    free(launch);
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static void test_where(void **state)
{
    (void)state;
    struct launch *launch = make_healthy();
    bool ranks[RANKS] = {true, false, true, true};
    struct doctor_finding finding = {.ranks = ranks};
    char where[160], small[8];
    finding_where(&launch->doctor, &finding, where, sizeof where);
    assert_string_equal(where, "ranks 0, 2-3 on node7");
    two_hosts(launch);
    finding_where(&launch->doctor, &finding, where, sizeof where);
    assert_string_equal(where, "ranks 0 on node7, and 2-3 on node8");
    finding_where(&launch->doctor, &finding, small, sizeof small);
    assert_string_equal(small, "ranks 0");
    memset(ranks, 0, sizeof ranks);
    finding_where(&launch->doctor, &finding, where, sizeof where);
    assert_string_equal(where, "");
    free(launch);
}

static void test_numbers(void **state)
{
    (void)state;
    char text[BYTES_TEXT], list[32];
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    assert_string_equal(cpus_text(&cpus, list, sizeof list), "");
    for (int cpu = 0; cpu < 4; cpu++)
        CPU_SET(cpu, &cpus);
    CPU_SET(9, &cpus);
    CPU_SET(CPU_SETSIZE - 1, &cpus);
    assert_string_equal(cpus_text(&cpus, list, sizeof list), "0-3,9,1023");
    assert_string_equal(bytes_text(0, text), "0 B");
    assert_string_equal(bytes_text(65536, text), "64 KiB");
    assert_string_equal(bytes_text(INT64_MAX, text), "8388608 TiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy), cmocka_unit_test(test_faults),  cmocka_unit_test(test_full_gpu),
        cmocka_unit_test(test_where),   cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

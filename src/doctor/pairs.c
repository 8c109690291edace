/*
 * pairs.c - pairs of ranks on host memory.
 *
 * Every rank shares a file of one slot a rank, as a communicator does. A rank writes a word into its slot of every other
 * rank's file; they meet; each reads what arrived in its own file and answers beside it; they meet; the writers read the
 * answers back. A mapping that loses data one way or the other is seen.
 */
#include "doctor/pairs.h"
#include "collectives/exec_host.h"
#include "collectives/shm.h"
#include "doctor/meet.h"
#include "doctor/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const doctor_link_names[DOCTOR_LINK_COUNT] = {
    [DOCTOR_LINK_NONE] = "none",         [DOCTOR_LINK_SELF] = "self",     [DOCTOR_LINK_SHARED_MEMORY] = "shared memory",
    [DOCTOR_LINK_SAME_GPU] = "same GPU", [DOCTOR_LINK_NVLINK] = "NVLink", [DOCTOR_LINK_PCIE] = "PCIe",
};

struct doctor_pair *doctor_row(const struct doctor *doctor, int from)
{
    return doctor->pairs + (size_t)from * (size_t)doctor->nranks;
}

void doctor_share_pairs(struct doctor *doctor, const char *step)
{
    size_t bytes = (size_t)doctor->nranks * sizeof *doctor->pairs;
    struct doctor_pair *mine = malloc(bytes);
    if (!mine)
        watch_die("'%s': no memory for %d pairs", step, doctor->nranks);
    memcpy(mine, doctor_row(doctor, doctor->rank), bytes);
    doctor_meet(doctor, step, mine, doctor->pairs, bytes);
    free(mine);
}

void doctor_note(struct doctor_pair *pair, enum doctor_trial *trial, bool works, const char *why)
{
    *trial = works ? DOCTOR_WORKS : DOCTOR_FAILS;
    if (!works && !*pair->why)
        snprintf(pair->why, sizeof pair->why, "%s", why);
}

static bool on_one_host(const struct doctor *doctor, int a, int b)
{
    return strcmp(doctor->facts[a].place, doctor->facts[b].place) == 0;
}

/* ---- Shared memory ----------------------------------------------------------------------------------------------- */

struct slot {
    volatile uint64_t word, answer, private_word;
    char padding[40];
};

static uint64_t word_of(int from, int to, uint64_t kind)
{
    return 0x7472656572696e67u * (kind + 1) ^ ((uint64_t)from << 32 | (uint64_t)to);
}

/* This rank's part of the trial. */
struct exam {
    int fd;
    void *own;    /* this rank's file: nranks slots */
    void **peers; /* the others', NULL where the mapping failed */
    size_t bytes;
    struct slot *private_; /* nranks slots of private memory */
};

/* What the others must know to reach this rank. */
struct address {
    bool shared;
    struct tr_shm_file file;
    uintptr_t private_;
    char why[320];
};

static void prepare(const struct doctor *doctor, struct exam *exam, struct address *mine)
{
    exam->bytes = (size_t)doctor->nranks * sizeof(struct slot);
    exam->peers = calloc((size_t)doctor->nranks, sizeof *exam->peers);
    exam->private_ = calloc((size_t)doctor->nranks, sizeof *exam->private_);
    if (!exam->peers || !exam->private_)
        watch_die("no memory for %d slots", doctor->nranks);
    mine->private_ = (uintptr_t)exam->private_;
    mine->shared = tr_shm_file_create(exam->bytes, "a trial", doctor->rank, &exam->fd, &exam->own) == TR_OK &&
                   tr_shm_file_describe(exam->fd, &mine->file) == TR_OK;
    if (!mine->shared)
        snprintf(mine->why, sizeof mine->why, "%.319s", tr_last_error());
}

static void map_and_write(struct doctor *doctor, struct exam *exam, const struct address *all)
{
    int self = doctor->rank;
    for (int r = 0; r < doctor->nranks; r++) {
        struct doctor_pair *pair = &doctor_row(doctor, self)[r];
        if (r == self || !on_one_host(doctor, self, r))
            continue;
        if (!all[r].shared)
            doctor_note(pair, &pair->shared, false, all[r].why);
        else if (tr_shm_file_map(&all[r].file, exam->bytes, r, &exam->peers[r]) != TR_OK)
            doctor_note(pair, &pair->shared, false, tr_last_error());
        else
            ((struct slot *)exam->peers[r])[self].word = word_of(self, r, 0);
    }
}

/* Only to processes that the mapping has shown to be the ranks: in another PID namespace the number is somebody else's. */
static void write_private(struct doctor *doctor, const struct exam *exam, const struct address *all)
{
    int self = doctor->rank;
    for (int r = 0; r < doctor->nranks; r++) {
        if (!exam->peers[r])
            continue;
        struct doctor_pair *pair = &doctor_row(doctor, self)[r];
        uint64_t word = word_of(self, r, 2);
        uintptr_t to = all[r].private_ + (size_t)self * sizeof(struct slot) + offsetof(struct slot, private_word);
        int error = tr_host_write(doctor->facts[r].pid, to, &word, sizeof word);
        pair->private_ = error ? DOCTOR_FAILS : DOCTOR_WORKS;
    }
}

/* What came in from each rank, for the others to hear. */
struct arrival {
    bool shared, private_;
};

static void read_and_answer(const struct doctor *doctor, struct exam *exam, struct arrival *arrivals)
{
    struct slot *slots = exam->own;
    for (int r = 0; r < doctor->nranks; r++) {
        arrivals[r] = (struct arrival){slots && slots[r].word == word_of(r, doctor->rank, 0),
                                       exam->private_[r].private_word == word_of(r, doctor->rank, 2)};
        if (slots)
            slots[r].answer = word_of(doctor->rank, r, 1);
    }
}

/* arrivals[to * nranks + from] */
static void read_back(struct doctor *doctor, const struct exam *exam, const struct arrival *arrivals)
{
    int self = doctor->rank, n = doctor->nranks;
    for (int r = 0; r < n; r++) {
        struct doctor_pair *pair = &doctor_row(doctor, self)[r];
        const struct arrival *arrival = &arrivals[r * n + self];
        if (pair->private_ == DOCTOR_WORKS && !arrival->private_)
            pair->private_ = DOCTOR_FAILS;
        if (!exam->peers[r])
            continue;
        const struct slot *slots = exam->peers[r];
        bool answered = slots[self].answer == word_of(r, self, 1);
        doctor_note(pair, &pair->shared, arrival->shared && answered,
                    arrival->shared ? "what the other wrote cannot be read back through the mapping"
                                    : "what was written through the mapping did not arrive");
    }
}

static void tidy_up(const struct doctor *doctor, struct exam *exam)
{
    for (int r = 0; r < doctor->nranks; r++)
        if (exam->peers[r])
            munmap(exam->peers[r], exam->bytes);
    if (exam->own)
        munmap(exam->own, exam->bytes);
    if (exam->fd >= 0)
        close(exam->fd);
    free(exam->peers);
    free(exam->private_);
}

void doctor_try_host_pairs(struct doctor *doctor)
{
    static const char step[] = "shared memory between ranks";
    size_t n = (size_t)doctor->nranks;
    struct exam exam = {.fd = -1};
    struct address mine = {0};
    struct address *all = calloc(n, sizeof *all);
    struct arrival *arrivals = calloc(n * (n + 1), sizeof *arrivals);
    if (!all || !arrivals)
        watch_die("'%s': no memory for %zu ranks", step, n);
    prepare(doctor, &exam, &mine);
    doctor_meet(doctor, step, &mine, all, sizeof mine);
    map_and_write(doctor, &exam, all);
    write_private(doctor, &exam, all);
    doctor_meet(doctor, step, &(char){0}, arrivals, 1);
    read_and_answer(doctor, &exam, arrivals + n * n);
    doctor_meet(doctor, step, arrivals + n * n, arrivals, n * sizeof *arrivals);
    read_back(doctor, &exam, arrivals);
    doctor_share_pairs(doctor, step);
    tidy_up(doctor, &exam);
    free(arrivals);
    free(all);
}

/* ---- Links ------------------------------------------------------------------------------------------------------- */

bool doctor_uses_gpus(const struct doctor *doctor)
{
    for (int r = 0; r < doctor->nranks; r++)
        if (doctor->gpus[r].state != DOCTOR_GPU_WORKS)
            return false;
    return true;
}

static const char *uuid_of(const struct doctor *doctor, int rank)
{
    return doctor->gpus[rank].gpus[doctor->gpus[rank].chosen].uuid;
}

static enum doctor_link link_of(const struct doctor *doctor, const struct doctor_pair *pair, int from, int to)
{
    if (from == to)
        return DOCTOR_LINK_SELF;
    if (!doctor_uses_gpus(doctor))
        return pair->shared == DOCTOR_WORKS ? DOCTOR_LINK_SHARED_MEMORY : DOCTOR_LINK_NONE;
    if (pair->stores != DOCTOR_WORKS)
        return DOCTOR_LINK_NONE;
    if (strcmp(uuid_of(doctor, from), uuid_of(doctor, to)) == 0)
        return DOCTOR_LINK_SAME_GPU;
    return doctor_nvml_joined(uuid_of(doctor, from), uuid_of(doctor, to)) ? DOCTOR_LINK_NVLINK : DOCTOR_LINK_PCIE;
}

void doctor_name_links(struct doctor *doctor)
{
    struct doctor_pair *row = doctor_row(doctor, doctor->rank);
    for (int r = 0; r < doctor->nranks; r++)
        row[r].link = link_of(doctor, &row[r], doctor->rank, r);
}

/*
 * pairs_gpu.c - pairs of ranks on GPU memory, through CUDA IPC as a communicator does it.
 *
 * Every rank shares an allocation with three parts for each other rank: one that the other fills by stores of a kernel,
 * one that it fills by the copy engine, one that the owner fills for the other to load. The ranks meet after writing.
 * What a kernel does not finish within the timeout is a failure of that pair; a broken context ends the rank's trials.
 */
#include "collectives/comm.h"
#include "collectives/cuda_ipc.h"
#include "collectives/error.h"
#include "doctor/meet.h"
#include "doctor/pair_kernel.h"
#include "doctor/pairs.h"
#include "doctor/watch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char step[] = "GPU memory between ranks";

enum { WORDS = 1 << 11 }; /* of 8 bytes, a part */
enum part { STORED, COPIED, LOADED, NPARTS };

struct exam {
    struct doctor *doctor;
    struct tr_cuda_mappings mappings;
    cudaStream_t stream;
    uint64_t *own;     /* [rank][part][word] */
    uint64_t **peers;  /* the others' */
    unsigned *wrong;   /* on the GPU: words that differ */
    uint64_t *pattern; /* page-locked, WORDS words: what the copy engine takes */
    bool broken;       /* nothing more can be asked of the context */
};

static uint64_t *part_of(uint64_t *base, int rank, enum part part)
{
    return base + ((size_t)rank * NPARTS + part) * WORDS;
}

static uint64_t seed_of(int from, int to, enum part part)
{
    return ((uint64_t)part << 48) + ((uint64_t)from << 24) + (uint64_t)to;
}

/* ---- A deadline for the GPU -------------------------------------------------------------------------------------- */

/* Wait for the stream. After a failure the context is of no more use. */
static enum tr_status finish(struct exam *exam, cudaError_t error, const char *what)
{
    double deadline = tr_seconds() + exam->doctor->timeout_s / 2;
    while (error == cudaSuccess && (error = cudaStreamQuery(exam->stream)) == cudaErrorNotReady) {
        if (tr_seconds() > deadline) {
            exam->broken = true;
            return tr_error(TR_ERR_TIMEOUT, "%s was not done within %g s", what, exam->doctor->timeout_s / 2);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        error = cudaSuccess;
        cudaGetLastError(); /* that it is not ready is kept as an error, too */
    }
    exam->broken = exam->broken || error != cudaSuccess;
    return tr_cuda_status(error, what);
}

/* ---- The trials of one rank -------------------------------------------------------------------------------------- */

static enum tr_status store(struct exam *exam, int to)
{
    int self = exam->doctor->rank;
    uint64_t *there = part_of(exam->peers[to], self, STORED);
    return finish(exam, doctor_pattern_store(there, WORDS, seed_of(self, to, STORED), exam->stream),
                  "a kernel's stores to the peer");
}

static enum tr_status copy(struct exam *exam, int to)
{
    int self = exam->doctor->rank;
    for (size_t i = 0; i < WORDS; i++)
        exam->pattern[i] = doctor_pattern(seed_of(self, to, COPIED), i);
    cudaError_t error = cudaMemcpyAsync(part_of(exam->peers[to], self, COPIED), exam->pattern,
                                        WORDS * sizeof *exam->pattern, cudaMemcpyHostToDevice, exam->stream);
    return finish(exam, error, "a copy to the peer");
}

/* Compare one part with its pattern, by a kernel; counts the words that differ. */
static enum tr_status compare(struct exam *exam, const uint64_t *part, uint64_t seed, const char *what, unsigned *wrong)
{
    unsigned count = WORDS;
    cudaError_t error = cudaMemsetAsync(exam->wrong, 0, sizeof *exam->wrong, exam->stream);
    if (error == cudaSuccess)
        error = doctor_pattern_count_wrong(part, WORDS, seed, exam->wrong, exam->stream);
    enum tr_status status = finish(exam, error, what);
    if (status == TR_OK)
        status = finish(exam, cudaMemcpy(&count, exam->wrong, sizeof count, cudaMemcpyDeviceToHost), what);
    if (status == TR_OK)
        *wrong = count;
    return status;
}

static void write_to_peers(struct exam *exam)
{
    const struct doctor *doctor = exam->doctor;
    struct doctor_pair *row = doctor_row(doctor, doctor->rank);
    for (int i = 1; i < doctor->nranks; i++) {
        int to = (doctor->rank + i) % doctor->nranks;
        if (!exam->peers[to] || exam->broken)
            continue;
        doctor_note(&row[to], &row[to].stores, store(exam, to) == TR_OK, tr_last_error());
        if (!exam->broken)
            doctor_note(&row[to], &row[to].copies, copy(exam, to) == TR_OK, tr_last_error());
    }
}

static void load_from_peers(struct exam *exam)
{
    const struct doctor *doctor = exam->doctor;
    struct doctor_pair *row = doctor_row(doctor, doctor->rank);
    for (int i = 1; i < doctor->nranks; i++) {
        int to = (doctor->rank + i) % doctor->nranks;
        if (!exam->peers[to] || exam->broken)
            continue;
        unsigned wrong = 0;
        bool loaded = compare(exam, part_of(exam->peers[to], doctor->rank, LOADED), seed_of(to, doctor->rank, LOADED),
                              "a kernel's loads from the peer", &wrong) == TR_OK;
        doctor_note(&row[to], &row[to].loads, loaded && wrong == 0,
                    loaded ? "a kernel's loads from the peer gave other data than the peer wrote" : tr_last_error());
    }
}

/* Words that did not arrive; UINT_MAX: nobody could look. */
struct arrival {
    unsigned stored, copied;
};

static void inspect(struct exam *exam, struct arrival *arrivals)
{
    const struct doctor *doctor = exam->doctor;
    for (int r = 0; r < doctor->nranks; r++) {
        arrivals[r] = (struct arrival){UINT_MAX, UINT_MAX};
        if (r == doctor->rank || exam->broken)
            continue;
        if (compare(exam, part_of(exam->own, r, STORED), seed_of(r, doctor->rank, STORED), "a comparison",
                    &arrivals[r].stored) == TR_OK)
            compare(exam, part_of(exam->own, r, COPIED), seed_of(r, doctor->rank, COPIED), "a comparison",
                    &arrivals[r].copied);
    }
}

/* arrivals[to * nranks + from] */
static void blame(struct exam *exam, const struct arrival *arrivals)
{
    const struct doctor *doctor = exam->doctor;
    struct doctor_pair *row = doctor_row(doctor, doctor->rank);
    for (int r = 0; r < doctor->nranks; r++) {
        const struct arrival *arrival = &arrivals[(size_t)r * (size_t)doctor->nranks + (size_t)doctor->rank];
        if (row[r].stores == DOCTOR_WORKS && arrival->stored)
            doctor_note(&row[r], &row[r].stores, false,
                        arrival->stored == UINT_MAX ? "the peer's GPU failed before it could look at what arrived"
                                                    : "a kernel's stores to the peer did not arrive there");
        if (row[r].copies == DOCTOR_WORKS && arrival->copied)
            doctor_note(&row[r], &row[r].copies, false, "a copy to the peer did not arrive there");
    }
}

/* ---- Set-up ------------------------------------------------------------------------------------------------------ */

struct offer {
    bool good;
    struct tr_cuda_share share;
    char why[320];
};

static enum tr_status allocate(struct exam *exam)
{
    const struct doctor *doctor = exam->doctor;
    size_t bytes = (size_t)doctor->nranks * NPARTS * WORDS * sizeof *exam->own;
    const char *what = "allocating memory for a trial on the GPU";
    enum tr_status status = tr_cuda_status(cudaSetDevice(doctor->gpus[doctor->rank].chosen), "cudaSetDevice");
    if (status == TR_OK)
        status = tr_cuda_status(cudaStreamCreateWithFlags(&exam->stream, cudaStreamNonBlocking),
                                "cudaStreamCreateWithFlags");
    if (status == TR_OK)
        status = tr_cuda_status(cudaMalloc((void **)&exam->own, bytes), what);
    if (status == TR_OK)
        status = tr_cuda_status(cudaMalloc((void **)&exam->wrong, sizeof *exam->wrong), what);
    if (status == TR_OK)
        status = tr_cuda_status(cudaHostAlloc((void **)&exam->pattern, WORDS * sizeof *exam->pattern, 0),
                                "allocating page-locked memory");
    if (status == TR_OK)
        status = tr_cuda_status(cudaMemsetAsync(exam->own, 0, bytes, exam->stream), "clearing GPU memory");
    for (int r = 0; r < doctor->nranks && status == TR_OK; r++)
        status = finish(
            exam,
            doctor_pattern_store(part_of(exam->own, r, LOADED), WORDS, seed_of(doctor->rank, r, LOADED), exam->stream),
            "a kernel on the own GPU");
    return status;
}

static void prepare(struct exam *exam, struct offer *mine)
{
    enum tr_status status = allocate(exam);
    if (status == TR_OK)
        status = tr_cuda_share_describe(exam->own, &mine->share);
    mine->good = status == TR_OK;
    exam->broken = exam->broken || !mine->good;
    if (!mine->good)
        snprintf(mine->why, sizeof mine->why, "%.319s", tr_last_error());
}

static void map_peers(struct exam *exam, const struct offer *offers)
{
    const struct doctor *doctor = exam->doctor;
    struct doctor_pair *row = doctor_row(doctor, doctor->rank);
    for (int r = 0; r < doctor->nranks; r++) {
        const struct offer *bad = !offers[r].good ? &offers[r] : &offers[doctor->rank];
        void *there = NULL;
        if (r == doctor->rank)
            continue;
        if (!bad->good)
            doctor_note(&row[r], &row[r].stores, false, bad->why);
        else if (tr_cuda_map(&exam->mappings, &offers[r].share, &there) != TR_OK)
            doctor_note(&row[r], &row[r].stores, false, tr_last_error());
        exam->peers[r] = there;
    }
}

/* A broken context is left to the end of the process: freeing what it has would wait for it. */
static void unmap_peers(struct exam *exam, const struct offer *offers)
{
    for (int r = 0; r < exam->doctor->nranks && !exam->broken; r++)
        if (exam->peers[r])
            tr_cuda_unmap(&exam->mappings, &offers[r].share);
}

static void release(struct exam *exam)
{
    if (!exam->broken) {
        cudaFreeHost(exam->pattern);
        cudaFree(exam->wrong);
        cudaFree(exam->own);
        cudaStreamDestroy(exam->stream);
    }
    free(exam->peers);
}

void doctor_try_gpu_pairs(struct doctor *doctor)
{
    size_t n = (size_t)doctor->nranks;
    if (!doctor_uses_gpus(doctor) || n == 1)
        return;
    struct exam exam = {.doctor = doctor, .peers = calloc(n, sizeof *exam.peers)};
    struct offer mine = {0};
    struct offer *offers = calloc(n, sizeof *offers);
    struct arrival *arrivals = calloc(n * (n + 1), sizeof *arrivals);
    if (!exam.peers || !offers || !arrivals)
        watch_die("'%s': no memory for %zu ranks", step, n);
    watch_step(step, 2 * doctor->timeout_s + 10, "the driver does not come back: see dmesg for Xid errors, and MPS");
    prepare(&exam, &mine);
    doctor_meet(doctor, step, &mine, offers, sizeof mine);
    watch_step(step, 2 * doctor->timeout_s + 10, "mapping a peer's GPU memory does not come back: see dmesg");
    map_peers(&exam, offers);
    write_to_peers(&exam);
    load_from_peers(&exam);
    doctor_meet(doctor, step, &(char){0}, arrivals, 1);
    inspect(&exam, arrivals + n * n);
    doctor_meet(doctor, step, arrivals + n * n, arrivals, n * sizeof *arrivals);
    blame(&exam, arrivals);
    unmap_peers(&exam, offers);
    doctor_share_pairs(doctor, step);
    release(&exam);
    free(arrivals);
    free(offers);
}

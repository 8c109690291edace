/*
 * doctor.h - looks at a launch and its machine before anything hangs: `treering doctor`, and the cheap part for the benches.
 *
 * Every rank collects facts about itself (facts.c; its GPUs in probe.c, by a child process that may hang), the ranks
 * exchange them (meet.c, with a deadline that names who is missing), try each pair (pairs.c, pairs_gpu.c), and every
 * check (checks.c has the table) then judges the same facts on every rank. A check talks to nobody and changes nothing.
 */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "doctor/mps.h"
#include "doctor/nvml.h"
#include "doctor/probe.h"
#include "treering.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- What a rank knows of itself --------------------------------------------------------------------------------- */

enum { DOCTOR_UNLIMITED = -1 };

struct doctor_facts {
    char host[64];
    char place[128];        /* equal where memory can be shared (tr_describe_place) */
    char launcher[512];     /* how the launcher and MPI disagree; "": they do not */
    char slurm_binding[96]; /* the variable that binds one task to its own GPUs; "": none does */
    char visible_gpus[128]; /* CUDA_VISIBLE_DEVICES; "": not set */
    char mpi[128];
    char mps_folder[128];
    enum mps_state mps;
    int pid, user;
    uint64_t pid_namespace, ipc_namespace;
    int64_t shm_bytes, shm_free; /* of /dev/shm, which then is a tmpfs; -1: it cannot be asked */
    int64_t memory_available;    /* bytes that the host, or the container, still gives */
    int64_t locked_limit;        /* bytes, or DOCTOR_UNLIMITED */
    int infiniband;              /* adapters */
    int ptrace_scope;            /* of the Yama module; 0 without it */
    int cpus_online;
    double cpu_quota;               /* CPUs' worth of time that the control groups grant; 0: not limited */
    cpu_set_t cpus;                 /* that this rank may run on */
    cpu_set_t near_gpu;             /* those of the NUMA nodes next to its GPU; empty: not known */
    int cuda_aware;                 /* MPI takes GPU memory: 1 yes, 0 no, -1 it does not say */
    int nccl_compiled, nccl_loaded; /* as NCCL counts versions; 0: a build without NCCL */
    char nccl_path[128];
};

/* Everything that this process can tell without CUDA and without MPI. Quick. */
void doctor_facts_collect(struct doctor_facts *facts);
/* What MPI has to tell; after MPI_Init(). */
void doctor_facts_collect_mpi(struct doctor_facts *facts, const char *program, int nranks);

/* ---- What was found out about pairs ------------------------------------------------------------------------------ */

enum doctor_trial { DOCTOR_UNTRIED, DOCTOR_WORKS, DOCTOR_FAILS };

/* How two ranks reach each other's memory, the first that holds. */
enum doctor_link {
    DOCTOR_LINK_NONE,
    DOCTOR_LINK_SELF,
    DOCTOR_LINK_SHARED_MEMORY,
    DOCTOR_LINK_SAME_GPU,
    DOCTOR_LINK_NVLINK,
    DOCTOR_LINK_PCIE,
    DOCTOR_LINK_COUNT
};

/* From a rank to another: it maps the other's memory, writes there and reads back what the other wrote. */
struct doctor_pair {
    enum doctor_trial shared;                /* host memory: both ways through a mapping */
    enum doctor_trial private_;              /* process_vm_writev() */
    enum doctor_trial stores, copies, loads; /* GPU memory through CUDA IPC: kernel stores, copy engine, kernel loads */
    enum doctor_link link;
    char why[320]; /* the first failure; "": none */
};

extern const char *const doctor_link_names[DOCTOR_LINK_COUNT];

/* ---- The doctor -------------------------------------------------------------------------------------------------- */

struct doctor {
    const char *program; /* for the sentences */
    int rank, nranks;
    double timeout_s;           /* of one step */
    struct doctor_facts *facts; /* of every rank */
    struct doctor_gpus *gpus;   /* likewise */
    struct doctor_card *cards;  /* likewise: what the driver's monitor says of the rank's GPU */
    struct doctor_pair *pairs;  /* [from * nranks + to] */
};

enum doctor_verdict { DOCTOR_OK, DOCTOR_NOT_APPLICABLE, DOCTOR_WARNING, DOCTOR_PROBLEM, DOCTOR_VERDICT_COUNT };

struct doctor_finding {
    enum doctor_verdict verdict;
    char text[768];
    char advice[512]; /* what to do; "": nothing */
    bool *ranks;      /* those that it is about; none: the launch as a whole */
};

typedef void doctor_check(const struct doctor *doctor, struct doctor_finding *finding);

struct doctor_row {
    const char *name;  /* for JSON */
    const char *title; /* for people */
    doctor_check *check;
    bool quick; /* needs nothing but doctor_facts: the benches run it */
};

extern const struct doctor_row doctor_rows[];
extern const int doctor_nrows;
extern const char *const doctor_verdict_names[DOCTOR_VERDICT_COUNT];

/* Before MPI_Init(): the watchdog, and what needs no peer. Ends the process where something hangs. */
void doctor_open(struct doctor *doctor, struct doctor_facts *facts, struct doctor_gpus *gpus);
/* After it: meet the other ranks and try the pairs. Collective. The doctor then holds memory of doctor_close(). */
void doctor_examine(struct doctor *doctor, const struct doctor_facts *facts, const struct doctor_gpus *gpus);
void doctor_close(struct doctor *doctor);

/* Judge: a finding for each row. The caller frees them with doctor_findings_free(); NULL: no memory. */
struct doctor_finding *doctor_judge(const struct doctor *doctor);
void doctor_findings_free(struct doctor_finding *findings);
enum doctor_verdict doctor_worst(const struct doctor_finding *findings);

/* For the benches, after MPI_Init() and before a communicator is made: the checks that take no time. False if something
 * will break; `why` is then the first problem and what to do, the same on every rank. Collective. */
bool doctor_quick(const char *program, double timeout_s, char *why, size_t size);

/* ---- Reports ----------------------------------------------------------------------------------------------------- */

/* To standard output, on the rank that calls; false if it cannot be written. */
bool doctor_print_table(const struct doctor *doctor, const struct doctor_finding *findings);
bool doctor_print_json(const struct doctor *doctor, const struct doctor_finding *findings, int exit_code);

#endif

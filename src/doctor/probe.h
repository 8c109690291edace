/* probe.h - the GPUs that a rank sees, asked for by a child process, since bringing up CUDA can hang. */
#ifndef DOCTOR_PROBE_H
#define DOCTOR_PROBE_H

#include <stdbool.h>
#include <stddef.h>

enum { DOCTOR_MAX_GPUS = 16 };

struct doctor_gpu {
    char uuid[48]; /* "GPU-..." */
    char name[64];
    char bus_id[32];
    int major, minor; /* compute capability */
    int compute_mode; /* cudaComputeMode: 0 default, 2 prohibited, 3 one process alone */
};

enum doctor_gpu_state {
    DOCTOR_GPU_NO_BUILD, /* this build has no CUDA */
    DOCTOR_GPU_NONE,     /* no driver, or no GPU */
    DOCTOR_GPU_WORKS,
    DOCTOR_GPU_FAILS, /* with the sentence */
    DOCTOR_GPU_HANGS
};

struct doctor_gpus {
    enum doctor_gpu_state state;
    int ngpus;
    int most_ranks; /* of a communicator on GPUs */
    int chosen;     /* the one that a communicator takes for this rank */
    struct doctor_gpu gpus[DOCTOR_MAX_GPUS];
    int reaches[DOCTOR_MAX_GPUS];   /* the chosen one can map that GPU's memory */
    int driver, runtime;            /* as CUDA counts versions, 13000 for 13.0 */
    int error;                      /* cudaError_t */
    size_t free_bytes, total_bytes; /* of the chosen one */
    char what[256];                 /* FAILS: what failed and why */
};

/* Look, in a child process that is killed after `timeout_s`. Before the first CUDA call of this process. */
void doctor_probe_gpus(int rank, double timeout_s, struct doctor_gpus *gpus);

/* gpu_cuda.c, or gpu_none.c in a build without CUDA: look, in this process. */
void doctor_look_at_gpus(int rank, struct doctor_gpus *gpus);
/* Likewise: one GPU by its ordinal; false where it cannot be asked. */
bool doctor_describe_gpu(int ordinal, struct doctor_gpu *gpu);

/* What to do about a cudaError_t from bringing up CUDA. */
const char *doctor_cuda_advice(int error);

#endif

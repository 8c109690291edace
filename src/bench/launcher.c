/* launcher.c - what the launcher says about this process. The innermost launcher counts: the first row that is set. */
#include "bench/launcher.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *rank, *size, *launcher;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
    {"PMI_RANK", "PMI_SIZE", "the launcher (PMI)"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"},
    {"SLURM_PROCID", "SLURM_NTASKS", "Slurm"},
};
enum { NLAUNCHERS = sizeof launchers / sizeof *launchers };

/* A non-negative whole number, -1 otherwise. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    if (!text || *text == '\0')
        return -1;
    char *end;
    long number = strtol(text, &end, 10);
    return *end || number < 0 || number > 10000000 ? -1 : (int)number;
}

int launcher_rank(void)
{
    for (int i = 0; i < NLAUNCHERS; i++) {
        int rank = number_of(launchers[i].rank);
        if (rank >= 0)
            return rank;
    }
    return 0;
}

bool launcher_agrees(const char *program, int mpi_size, char *why, size_t size)
{
    for (int i = 0; i < NLAUNCHERS; i++) {
        int expected = number_of(launchers[i].size);
        if (expected <= 0)
            continue;
        if (expected == mpi_size)
            return true;
        snprintf(why, size,
                 "%s started %d ranks (%s=%d) but MPI has %d, so the launcher is not this MPI's: run `mpirun -np %d "
                 "%s` with the mpirun of the MPI this was built with, or `srun --mpi=pmix -n %d %s`",
                 launchers[i].launcher, expected, launchers[i].size, expected, mpi_size, expected, program, expected,
                 program);
        return false;
    }
    return true;
}

/* soak_test.c - memory of GPU ranks over many calls: see tests/collectives/soak.h. */
#include "collectives/memory.h"
#include "collectives/soak.h"
#include "collectives/tap.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *why = memory_unavailable();
    if (!why)
        soak_run(1000000);
    int status = why ? tap_skip_all(why) : tap_end();
    MPI_Finalize();
    return status;
}

/* stress_test.c - random calls on GPU ranks: see tests/collectives/stress.h. */
#include "collectives/memory.h"
#include "collectives/stress.h"
#include "collectives/tap.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *why = memory_unavailable();
    if (!why)
        stress_run(20000);
    int status = why ? tap_skip_all(why) : tap_end();
    MPI_Finalize();
    return status;
}

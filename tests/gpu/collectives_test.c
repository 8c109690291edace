/* collectives_test.c - every collective on GPU ranks: see tests/collectives/matrix.h. */
#include "collectives/matrix.h"
#include "collectives/memory.h"
#include "collectives/tap.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *why = memory_unavailable();
    if (!why)
        matrix_run();
    int status = why ? tap_skip_all(why) : tap_end();
    MPI_Finalize();
    return status;
}

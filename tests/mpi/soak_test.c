/* soak_test.c - memory of CPU ranks over many calls: see tests/collectives/soak.h. */
#include "collectives/soak.h"
#include "collectives/tap.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    soak_run(100000);
    int status = tap_end();
    MPI_Finalize();
    return status;
}

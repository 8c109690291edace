/* stress_test.c - random calls on CPU ranks: see tests/collectives/stress.h. */
#include "collectives/stress.h"
#include "collectives/tap.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    stress_run(20000);
    int status = tap_end();
    MPI_Finalize();
    return status;
}

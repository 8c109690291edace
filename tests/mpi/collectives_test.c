/* collectives_test.c - every collective on CPU ranks: see tests/collectives/matrix.h. */
#include "collectives/matrix.h"
#include "collectives/tap.h"

#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    matrix_run();
    int status = tap_end();
    MPI_Finalize();
    return status;
}

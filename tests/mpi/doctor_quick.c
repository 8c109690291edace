/* doctor_quick.c - what a bench does first: the quick checks, for doctor_test.sh. Exit code 4 and the sentence if something
 * will break. */
#include "doctor/doctor.h"

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char why[1024];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double start = MPI_Wtime();
    bool good = doctor_quick("doctor_quick", 30, why, sizeof why);
    if (rank == 0)
        printf("%s, after %.1f ms\n", good ? "well" : why, 1e3 * (MPI_Wtime() - start));
    MPI_Finalize();
    return good ? 0 : 4;
}

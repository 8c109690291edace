/* stop_mpi.c - an MPI_Init() after which rank TR_STOPPED stops itself; "before": in which rank 1 waits for ever. For
 * doctor_test.sh to load before MPI. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int MPI_Init(int *argc, char ***argv)
{
    const char *stopped = getenv("TR_STOPPED"), *launched = getenv("OMPI_COMM_WORLD_RANK");
    while (stopped && launched && strcmp(stopped, "before") == 0 && strcmp(launched, "1") == 0)
        pause();
    int code = PMPI_Init(argc, argv), rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (stopped && strcmp(stopped, "before") != 0 && atoi(stopped) == rank)
        raise(SIGSTOP);
    return code;
}

/* corrupt_mpi.c - for bench_options_test.sh: loaded before MPI, it makes the last element of every float all-reduce of more
 * than one element a NaN, on every rank. */
#include <mpi.h>

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    int error = PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    if (datatype == MPI_FLOAT && count > 1)
        ((float *)recvbuf)[count - 1] = __builtin_nanf("");
    return error;
}

/* corrupt_p2p.c - for p2p_bench_test.sh: loaded before MPI, it flips a bit of the last byte of every message that MPI_Recv
 * takes under the tag of p2p_bench's own transfers. */
#include <mpi.h>

enum { TAG = 7 }; /* p2p_library.c */

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int error = PMPI_Recv(buf, count, datatype, source, tag, comm, status);
    if (tag == TAG && datatype == MPI_BYTE && count > 0)
        ((char *)buf)[count - 1] ^= 1;
    return error;
}

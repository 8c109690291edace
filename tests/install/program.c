/* program.c - what a user's first program does; `make installcheck` compiles it against the installed library. */
#include <treering.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    struct tr_comm *comm = NULL;
    int value = 1, sum = 0;
    enum tr_status status;

    MPI_Init(&argc, &argv);
    status = tr_comm_create(MPI_COMM_WORLD, NULL, &comm);
    if (status == TR_OK && tr_comm_memory(comm) == TR_MEMORY_HOST)
        status = tr_allreduce(&value, &sum, 1, TR_I32, TR_SUM, comm, NULL);
    if (status != TR_OK)
        fprintf(stderr, "%s\n", tr_last_error());
    tr_comm_destroy(comm);
    MPI_Finalize();
    return status != TR_OK;
}

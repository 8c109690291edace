/*
 * spin.c - all-reduce for ever, until a call fails: what kill_test.sh kills a rank of. `spin FOLDER`: each rank
 * keeps the file FOLDER/RANK.pid with its process number once it is under way, and when a call fails writes the
 * sentence to FOLDER/RANK.end and ends, without MPI_Finalize, which would wait for the dead.
 */
#include "treering.h"

#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { COUNT = 1000, WARM = 100 };

static int write_file(const char *folder, int rank, const char *kind, const char *text)
{
    char path[500], final[500];
    snprintf(path, sizeof path, "%s/%d.%s.new", folder, rank, kind);
    snprintf(final, sizeof final, "%s/%d.%s", folder, rank, kind);
    FILE *file = fopen(path, "w");
    if (!file)
        return 0;
    fprintf(file, "%s\n", text);
    return fclose(file) == 0 && rename(path, final) == 0; /* whoever sees the file sees all of it */
}

int main(int argc, char **argv)
{
    static float in[COUNT], out[COUNT];
    struct tr_config config = {.memory = TR_MEMORY_HOST};
    struct tr_comm *comm;
    char pid[24];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 2 || tr_comm_create(MPI_COMM_WORLD, &config, &comm) != TR_OK)
        MPI_Abort(MPI_COMM_WORLD, 2);
    enum tr_status status = TR_OK;
    for (unsigned long calls = 0; status == TR_OK; calls++) {
        snprintf(pid, sizeof pid, "%ld", (long)getpid());
        if (calls == WARM && !write_file(argv[1], rank, "pid", pid))
            MPI_Abort(MPI_COMM_WORLD, 2);
        status = tr_allreduce(in, out, COUNT, TR_F32, TR_SUM, comm, NULL);
    }
    write_file(argv[1], rank, "end", tr_last_error());
    tr_comm_destroy(comm);
    _exit(3);
}

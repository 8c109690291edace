/* entry.c - how late each rank enters a batch. */
#include "bench/entry.h"
#include "bench/fail.h"
#include "bench/stats.h"

#include <stdlib.h>
#include <string.h>

/* Of this rank, by batch. */
static struct {
    double *late, *uncertainty;
    size_t n, room;
} kept;

static double *grown(struct bench *bench, double *array)
{
    double *larger = realloc(array, kept.room * sizeof *array);
    if (!larger)
        bench_die(bench, "no memory for the entry times of %zu batches: give fewer --rounds", kept.room);
    return larger;
}

void entry_keep(struct bench *bench, double late_us, double uncertainty_us)
{
    if (kept.n == kept.room) {
        kept.room = kept.room ? 2 * kept.room : 1024;
        kept.late = grown(bench, kept.late);
        kept.uncertainty = grown(bench, kept.uncertainty);
    }
    kept.late[kept.n] = late_us;
    kept.uncertainty[kept.n++] = uncertainty_us;
}

void entry_gather(struct bench *bench)
{
    struct bench_entry mine;
    if (kept.n == 0)
        return;
    mine.late = stats_of(kept.late, (int)kept.n);
    mine.uncertainty_us = stats_of(kept.uncertainty, (int)kept.n).median;
    if (bench->rank == 0)
        bench->entries = calloc((size_t)bench->nranks, sizeof *bench->entries);
    if (bench->rank == 0 && !bench->entries)
        bench_die(bench, "no memory for %d ranks' entry times", bench->nranks);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, bench->entries, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(kept.late);
    free(kept.uncertainty);
    memset(&kept, 0, sizeof kept);
}

/* match.c - whether all ranks were started with the same program and options. */
#include "bench/match.h"
#include "bench/fail.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(member) offsetof(struct bench_options, member), sizeof((struct bench_options *)NULL)->member

/* What every rank acts on; reports are rank 0's. */
static const struct {
    const char *option;
    size_t offset, bytes;
} shared[] = {
    {"-b", FIELD(range.first)},
    {"-b", FIELD(first_given)},
    {"-e", FIELD(range.last)},
    {"-e", FIELD(last_given)},
    {"-i", FIELD(range.step)},
    {"-f", FIELD(range.factor)},
    {"-A", FIELD(algorithms)},
    {"-A", FIELD(algorithms_given)},
    {"-p", FIELD(protocols)},
    {"--channels", FIELD(channels)},
    {"-d", FIELD(datatypes)},
    {"-o", FIELD(ops)},
    {"-M", FIELD(memory)},
    {"-B", FIELD(plain)},
    {"-I", FIELD(in_place)},
    {"-n", FIELD(iterations)},
    {"--ci", FIELD(ci_share)},
    {"--time-limit", FIELD(time_limit_s)},
    {"--rounds", FIELD(rounds)},
    {"--seed", FIELD(seed)},
    {"--drift", FIELD(drift_share)},
    {"-w", FIELD(warmup)},
    {"-c", FIELD(checks)},
    {"-G", FIELD(graph_launches)},
    {"-z", FIELD(blocking)},
    {"--timeout", FIELD(timeout_s)},
    {"--launch-cost", FIELD(launch_cost)},
    {"-v", FIELD(verbose)},
};

/* The first option that two ranks were given differently, as people write it; NULL: none of those that count on every
 * rank. */
static const char *options_difference(const struct bench_options *mine, const struct bench_options *theirs)
{
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        if (memcmp((const char *)mine + shared[i].offset, (const char *)theirs + shared[i].offset, shared[i].bytes) !=
            0)
            return shared[i].option;
    return NULL;
}

enum { RANKS_TEXT = 96 };

/* "0,3" of the ranks that raised a flag, as many as fit. */
static void list_ranks(const int *flags, int n, char text[static RANKS_TEXT])
{
    size_t length = 0;
    for (int r = 0; r < n && length + 16 < RANKS_TEXT; r++)
        if (flags[r])
            length += (size_t)snprintf(text + length, RANKS_TEXT - length, length ? ",%d" : "%d", r);
}

/* What this rank does not share with rank 0, as people write it; NULL: nothing. */
static const char *difference(const struct bench *bench, const struct bench_options *first,
                              enum tr_collective collective)
{
    if (collective != bench->collective->collective)
        return "the program";
    return options_difference(&bench->options, first);
}

/* The first rank that differs names the option; the ranks listed differ in that or another one. */
void match_options(struct bench *bench)
{
    struct bench_options first = bench->options;
    enum tr_collective collective = bench->collective->collective;
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(&collective, sizeof collective, MPI_BYTE, 0, MPI_COMM_WORLD);
    const char *option = difference(bench, &first, collective);
    int differs = option != NULL;
    int *flags = calloc((size_t)bench->nranks, sizeof *flags);
    if (!flags)
        bench_die(bench, "no memory for %d ranks' options", bench->nranks);
    MPI_Allgather(&differs, 1, MPI_INT, flags, 1, MPI_INT, MPI_COMM_WORLD);
    char ranks[RANKS_TEXT] = "", why[512];
    list_ranks(flags, bench->nranks, ranks);
    free(flags);
    snprintf(
        why, sizeof why,
        "%s is not the same on rank 0 and on rank %d (ranks that differ from rank 0: %s): start all ranks with the "
        "same program and options",
        option ? option : "", bench->rank, ranks);
    bench_agree(bench, differs ? BENCH_EXIT_USAGE : BENCH_EXIT_OK, why);
}

void match_refuse_bad(struct bench *bench, bool bad, int argc, char **argv)
{
    int mine = bad ? bench->rank : bench->nranks, first;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == bench->nranks)
        return;
    if (first == bench->rank)
        options_parse(bench->collective, argc, argv, true, &bench->options);
    bench_end(bench, BENCH_EXIT_USAGE);
}

/* contender.c - who takes part. */
#include "bench/contender.h"
#include "bench/backend.h"
#include "bench/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All contenders, in the order of the table's columns. */
static const struct {
    enum tr_algorithm algorithm;
    bool peer;
    enum tr_memory only; /* AUTO: any */
    enum bench_memory memory;
} known[] = {
    {TR_ALGORITHM_RING, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_TREE, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_DTREE, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_ONESHOT, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_TWOSHOT, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_RECURSIVE, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_AUTO, false, TR_MEMORY_AUTO, BENCH_OWN},
    {TR_ALGORITHM_NCCL, true, TR_MEMORY_CUDA, BENCH_PLAIN},
    {TR_ALGORITHM_NCCL_SYM, true, TR_MEMORY_CUDA, BENCH_WINDOW},
    {TR_ALGORITHM_MPI, true, TR_MEMORY_HOST, BENCH_OWN},
};
enum { NKNOWN = sizeof known / sizeof *known };

enum tr_status contender_choose(struct bench *bench, const struct bench_contender *contender)
{
    struct tr_tuning tuning = {
        .algorithm = contender->algorithm,
        .protocol = contender->protocol,
        .channels = contender->channels,
    };
    return tr_comm_set_tuning(bench->comm, &tuning);
}

/* Ranks on the fullest GPU, and one of the ranks there. */
static int most_ranks_on_a_device(const struct bench *bench, int *rank)
{
    int most = 0;
    for (int r = 0; r < bench->nranks; r++)
        if (bench->infos[r].ranks_on_device > most) {
            most = bench->infos[r].ranks_on_device;
            *rank = r;
        }
    return most;
}

/* "0,1,2" of the ranks on the GPU of `rank`. */
static void list_ranks_beside(const struct bench *bench, int rank, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int r = 0; r < bench->nranks && length + 8 < size; r++)
        if (strcmp(bench->infos[r].device_uuid, bench->infos[rank].device_uuid) == 0)
            length += (size_t)snprintf(text + length, size - length, length ? ",%d" : "%d", r);
}

/* Why NCCL takes no part; false if it does. */
static bool nccl_absent(const struct bench *bench, char *why, size_t size)
{
    char ranks[96];
    int rank = 0;
    int most = most_ranks_on_a_device(bench, &rank);
    if (most > 1) {
        list_ranks_beside(bench, rank, ranks, sizeof ranks);
        snprintf(why, size,
                 "ranks %s on %s share %s (%s) and NCCL takes one rank a GPU: run at most as many ranks as "
                 "GPUs to compare with it",
                 ranks, bench->infos[rank].host, bench->infos[rank].device_uuid, bench->infos[rank].device_name);
        return true;
    }
    for (int r = 0; r < bench->nranks; r++)
        if (!bench->infos[r].has_nccl) {
            snprintf(why, size, "%s", bench->infos[r].why_no_nccl);
            return true;
        }
    return false;
}

/* A call of one element says whether our library serves a combination. The same on every rank. */
static bool served(struct bench *bench, const struct bench_contender *contender, char *why, size_t size)
{
    struct tr_tuning resolved;
    enum tr_datatype datatype = TR_F32;
    enum tr_status status = contender_choose(bench, contender);
    if (status == TR_OK)
        status = tr_comm_resolve(bench->comm, bench->collective->collective, 1, datatype, TR_SUM, !bench->options.plain,
                                 &resolved);
    bool too_many = status == TR_ERR_ARGUMENT && contender->channels > 0; /* more than the communicator's most */
    if (status == TR_ERR_UNSUPPORTED || too_many) {
        snprintf(why, size, "%s", tr_last_error());
        return false;
    }
    bench_agree_status(bench, status, "choosing an algorithm");
    return true;
}

/* NCCL's windows need a newer NCCL than its plain calls. */
static bool window_absent(struct bench *bench, char *why, size_t size)
{
    void *probe;
    enum tr_status status = tr_mem_alloc_nccl(bench->comm, 4096, &probe);
    if (status == TR_ERR_UNSUPPORTED) {
        snprintf(why, size, "%s", tr_last_error());
        return true;
    }
    bench_agree_status(bench, status, "allocating an NCCL window");
    bench_agree_status(bench, tr_mem_free_nccl(bench->comm, probe), "freeing an NCCL window");
    return false;
}

static bool applies(struct bench *bench, int row, const struct bench_contender *contender, char *why, size_t size)
{
    if (known[row].only != TR_MEMORY_AUTO && known[row].only != bench->backend->memory) {
        snprintf(why, size, "it needs %s memory: run with -M %s", tr_memory_name(known[row].only),
                 tr_memory_name(known[row].only));
        return false;
    }
    if (known[row].only == TR_MEMORY_CUDA && nccl_absent(bench, why, size))
        return false;
    if (known[row].memory == BENCH_WINDOW && window_absent(bench, why, size))
        return false;
    return known[row].peer || served(bench, contender, why, size);
}

/* Say why one is left out: always when it was named, else where a reader would expect it. */
static void note_absence(struct bench *bench, int row, const struct bench_contender *contender, const char *why)
{
    bool expected = known[row].only == bench->backend->memory;
    if (bench->options.algorithms_given || expected)
        bench_note(bench, "%s is left out: %s", contender->name, why);
}

/* "ring", "ring/LL", "ring/x16", "ring/LL/x16": what was asked for, not what is left to the library. */
static void name_contender(struct bench_contender *contender)
{
    char protocol[16] = "", channels[16] = "";
    if (contender->protocol != TR_PROTOCOL_AUTO)
        snprintf(protocol, sizeof protocol, "/%s", tr_protocol_name(contender->protocol));
    if (contender->channels)
        snprintf(channels, sizeof channels, "/x%d", contender->channels);
    snprintf(contender->name, sizeof contender->name, "%s%s%s", tr_algorithm_name(contender->algorithm), protocol,
             channels);
}

static void keep(struct bench *bench, const struct bench_contender *contender)
{
    size_t bytes = ((size_t)bench->ncontenders + 1) * sizeof *bench->contenders;
    struct bench_contender *grown = realloc(bench->contenders, bytes);
    if (!grown)
        bench_die(bench, "no memory for %d contenders: give fewer -A, -p or --channels", bench->ncontenders + 1);
    bench->contenders = grown;
    bench->contenders[bench->ncontenders++] = *contender;
    bench->buffers[contender->memory].used = true;
}

static void add(struct bench *bench, int row, enum tr_protocol protocol, int channels)
{
    struct bench_contender contender = {.algorithm = known[row].algorithm,
                                        .protocol = protocol,
                                        .channels = channels,
                                        .peer = known[row].peer,
                                        .memory = known[row].memory};
    char why[512];
    name_contender(&contender);
    if (!applies(bench, row, &contender, why, sizeof why)) {
        note_absence(bench, row, &contender, why);
        return;
    }
    keep(bench, &contender);
}

/* A library takes part once, whatever the protocols and channels; `auto` chooses its channels. */
static void add_row(struct bench *bench, int row)
{
    const struct bench_options *options = &bench->options;
    bool automatic = known[row].algorithm == TR_ALGORITHM_AUTO;
    if (known[row].peer) {
        add(bench, row, TR_PROTOCOL_AUTO, 0);
        return;
    }
    for (int protocol = 0; protocol < TR_PROTOCOL_COUNT; protocol++)
        for (int i = 0; options->protocols[protocol] && (i < options->nchannels || i == 0); i++)
            if (!automatic || i == 0)
                add(bench, row, (enum tr_protocol)protocol,
                    options->nchannels && !automatic ? options->channels[i] : 0);
}

static bool asks_for_row(const struct bench *bench, int row)
{
    return !bench->options.algorithms_given || bench->options.algorithms[known[row].algorithm];
}

static bool asks_for_ours(const struct bench *bench)
{
    for (int row = 0; row < NKNOWN; row++)
        if (!known[row].peer && asks_for_row(bench, row))
            return true;
    return false;
}

/* Contenders of ours that run with a protocol. */
static int count_ours(const struct bench *bench, enum tr_protocol protocol)
{
    int count = 0;
    for (int c = 0; c < bench->ncontenders; c++)
        count += !bench->contenders[c].peer && bench->contenders[c].protocol == protocol;
    return count;
}

/* Say which protocols of -p none of our algorithms runs with; if that is all of them, there is nothing to compare. */
static void check_protocols(struct bench *bench)
{
    char excluded[64] = "";
    size_t length = 0;
    int ours = 0;
    for (int protocol = 0; protocol < TR_PROTOCOL_COUNT; protocol++) {
        int count = count_ours(bench, (enum tr_protocol)protocol);
        ours += count;
        if (protocol != TR_PROTOCOL_AUTO && bench->options.protocols[protocol] && count == 0)
            length += (size_t)snprintf(excluded + length, sizeof excluded - length, length ? ",%s" : "%s",
                                       tr_protocol_name((enum tr_protocol)protocol));
    }
    if (length == 0 || !asks_for_ours(bench))
        return;
    if (ours == 0)
        bench_stop(bench, BENCH_EXIT_CANNOT,
                   "-p %s: none of our algorithms asked for runs with it in %s memory: leave -p out, or give -A mpi or "
                   "-A nccl to measure these alone",
                   excluded, tr_memory_name(bench->backend->memory));
    bench_note(bench, "-p %s: none of our algorithms asked for runs with it in %s memory", excluded,
               tr_memory_name(bench->backend->memory));
}

void contenders_select(struct bench *bench)
{
    for (int row = 0; row < NKNOWN; row++)
        if (asks_for_row(bench, row))
            add_row(bench, row);
    if (bench->ncontenders == 0)
        bench_stop(bench, BENCH_EXIT_CANNOT, "no contender can run: %s",
                   bench->nnotes ? bench->notes[bench->nnotes - 1]
                                 : "no algorithm serves these protocols, choose others with -p");
    check_protocols(bench);
    if (bench->options.launch_cost)
        bench->buffers[BENCH_OWN].used = true;
}

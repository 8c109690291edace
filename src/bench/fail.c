/* fail.c - how a run ends. */
#include "bench/fail.h"
#include "bench/progress.h"
#include "bench/report.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SENTENCE = 1024 };

/* ---- Watchdog ----------------------------------------------------------------------------------------------------

 * An alarm ticks once a second while a rank gets nowhere, for a launcher may keep the other ranks when one dies
 * (mpirun --enable-recovery), and MPI then waits for ever: a tick that finds a process of this host gone says so and ends
 * this rank at the next one. At the deadline the rank ends anyhow. Whoever gets somewhere arms anew before a tick is due. */

static char last_words[SENTENCE];
static volatile sig_atomic_t last_code = BENCH_EXIT_FAILED;
static struct timespec deadline; /* CLOCK_MONOTONIC */

/* The other ranks of this host. */
static struct {
    int n;
    pid_t *pids;
    char (*words)[SENTENCE / 2];    /* to say when one is gone: a signal handler may not format */
    volatile sig_atomic_t on, gone; /* gone: 1 + the one that a tick found gone */
} peers;

static void leave(const char *words)
{
    ssize_t written = write(STDERR_FILENO, words, strlen(words));
    (void)written;
    report_files_remove();
    _exit(last_code);
}

/* The launcher buries its children at once, so that what is dead is gone. */
static int find_gone(void)
{
    for (int i = 0; i < peers.n; i++)
        if (kill(peers.pids[i], 0) != 0 && errno == ESRCH)
            return i + 1;
    return 0;
}

static void on_alarm(int signal)
{
    (void)signal;
    int kept = errno;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > deadline.tv_sec || (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec))
        leave(last_words);
    if (peers.on && peers.gone)
        leave(peers.words[peers.gone - 1]);
    if (peers.on)
        peers.gone = find_gone();
    alarm(1);
    errno = kept;
}

/* In `seconds`, unless armed again before, leave with what last_words holds by then. */
static void set_alarm(unsigned seconds)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += seconds;
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
}

/* What a rank is known by on its host; a process id means something in its own namespace alone. */
struct identity {
    char host[64];
    ino_t namespace;
    pid_t pid;
};

static struct identity identify(const struct bench *bench)
{
    struct identity mine;
    struct stat status;
    memset(&mine, 0, sizeof mine);
    snprintf(mine.host, sizeof mine.host, "%s", bench->host);
    mine.namespace = stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
    mine.pid = getpid();
    return mine;
}

static void watch(const struct bench *bench, int rank, const struct identity *peer)
{
    snprintf(peers.words[peers.n], sizeof peers.words[0],
             "%s: rank %d on %s: rank %d (pid %ld) has ended while this rank waited for it in MPI: see why it did\n",
             bench->collective->program, bench->rank, bench->host, rank, (long)peer->pid);
    peers.pids[peers.n++] = peer->pid;
}

void watchdog_start(struct bench *bench)
{
    size_t n = (size_t)bench->nranks;
    struct identity mine = identify(bench), *all = calloc(n, sizeof *all);
    peers.pids = calloc(n, sizeof *peers.pids);
    peers.words = calloc(n, sizeof *peers.words);
    if (!all || !peers.pids || !peers.words)
        bench_die(bench, "no memory for %zu process ids", n);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < bench->nranks; r++)
        if (r != bench->rank && mine.namespace && all[r].namespace == mine.namespace &&
            strcmp(all[r].host, mine.host) == 0)
            watch(bench, r, &all[r]);
    free(all);
    peers.on = 1;
    watchdog_arm(bench, 0, "starting");
}

enum { DEFAULT_TIMEOUT_S = 30, GRACE_S = 60 };
/* Who failed waits so long for the others to agree; who was only told of it waits longer, so that the cause comes first. */
enum { AGREEMENT_S = 2, TOLD_AGREEMENT_S = 3 };

/* The first failure of this rank that the others do not know of yet. */
static struct {
    int code;
    char sentence[SENTENCE];
} pending;

/* The communicator's longest wait for a peer; what the library refuses counts as its default. */
static double timeout_of(const struct bench *bench)
{
    if (bench->options.timeout_s > 0)
        return bench->options.timeout_s;
    const char *text = getenv("TREERING_TIMEOUT");
    double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : DEFAULT_TIMEOUT_S;
}

/* Two waits of the library may follow one another before it notices; then it, not the watchdog, says who is missing. */
void watchdog_arm(const struct bench *bench, double seconds, const char *doing)
{
    if (pending.code)
        return;
    double wanted = 2 * timeout_of(bench) + GRACE_S + seconds;
    unsigned limit = wanted < INT_MAX ? (unsigned)wanted : INT_MAX;
    alarm(0);
    peers.gone = 0;
    snprintf(last_words, sizeof last_words,
             "%s: rank %d on %s: no progress for %u s (%s): a rank hangs or died, look at the other ranks\n",
             bench->collective->program, bench->rank, bench->host, limit, doing);
    set_alarm(limit);
}

/* This rank failed and is about to agree with the others; one that hangs or died must not keep the sentence from being
 * said. */
static void watchdog_arm_sentence(const struct bench *bench, enum bench_exit code, unsigned seconds)
{
    alarm(0);
    snprintf(last_words, sizeof last_words, "%s: %.900s\n", bench->collective->program, pending.sentence);
    last_code = (sig_atomic_t)code;
    set_alarm(seconds);
}

_Noreturn void bench_end(struct bench *bench, enum bench_exit code)
{
    watchdog_arm(bench, 0, "ending the run");
    progress_clear();
    reports_abandon(bench);
    fflush(stdout);
    fflush(stderr);
    MPI_Barrier(MPI_COMM_WORLD);
    peers.on = 0; /* from here on a process that ends has done its work */
    MPI_Finalize();
    exit(code);
}

static void say(const struct bench *bench, const char *sentence)
{
    progress_clear();
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", bench->collective->program, sentence);
    fflush(stderr);
}

_Noreturn void bench_stop(struct bench *bench, enum bench_exit code, const char *format, ...)
{
    char sentence[SENTENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (bench->rank == 0)
        say(bench, sentence);
    bench_end(bench, code);
}

/* The cause counts before its consequences. A code that is higher by NOTICED marks a rank that waited in vain, by TOLD one
 * that a peer told to give up. */
enum { NOTICED = 100, TOLD = 200 };

struct verdict {
    int order, rank;
};

/* The least verdict of all ranks. A rank that waits here for one that will not come hears of it from the library: then it
 * leaves by its watchdog. */
static struct verdict first_of(struct bench *bench, struct verdict mine)
{
    struct verdict first;
    MPI_Request request;
    int done = 0;
    MPI_Iallreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return first;
        if (bench->comm && !pending.code)
            bench_keep_failure(bench, tr_comm_async_error(bench->comm), "waiting for the other ranks");
        sched_yield();
    }
}

static void agree(struct bench *bench, int code, const char *sentence)
{
    struct verdict first = first_of(bench, (struct verdict){code == 0 ? INT_MAX : code / NOTICED, bench->rank});
    if (first.order == INT_MAX)
        return;
    char text[SENTENCE];
    snprintf(text, sizeof text, "%s", sentence);
    MPI_Bcast(text, sizeof text, MPI_CHAR, first.rank, MPI_COMM_WORLD);
    MPI_Bcast(&code, 1, MPI_INT, first.rank, MPI_COMM_WORLD);
    if (pending.code)
        last_words[0] = '\0'; /* rank 0 says them */
    bench_stop(bench, code % NOTICED, "%s", text);
}

void bench_agree(struct bench *bench, enum bench_exit code, const char *sentence)
{
    agree(bench, code, sentence);
}

static enum bench_exit exit_code(enum tr_status status)
{
    return status == TR_ERR_MEMORY || status == TR_ERR_UNSUPPORTED ? BENCH_EXIT_CANNOT : BENCH_EXIT_FAILED;
}

void bench_keep_failure(struct bench *bench, enum tr_status status, const char *doing)
{
    if (status == TR_OK || pending.code)
        return;
    snprintf(pending.sentence, sizeof pending.sentence, "%s: %s (%s)", doing, tr_last_error(), tr_strerror(status));
    enum bench_exit code = exit_code(status);
    pending.code = (int)code + (status == TR_ERR_ABORTED ? TOLD : status == TR_ERR_TIMEOUT ? NOTICED : 0);
    if (bench->comm && status != TR_ERR_ABORTED)
        tr_comm_abort(bench->comm);
    watchdog_arm_sentence(bench, code, status == TR_ERR_ABORTED ? TOLD_AGREEMENT_S : AGREEMENT_S);
}

void bench_agree_status(struct bench *bench, enum tr_status status, const char *doing)
{
    bench_keep_failure(bench, status, doing);
    agree(bench, pending.code, pending.sentence);
}

_Noreturn void bench_die(struct bench *bench, const char *format, ...)
{
    char sentence[SENTENCE];
    va_list args;
    va_start(args, format);
    int head = snprintf(sentence, sizeof sentence, "rank %d on %s: ", bench->rank, bench->host);
    vsnprintf(sentence + head, sizeof sentence - (size_t)head, format, args);
    va_end(args);
    say(bench, sentence);
    reports_abandon(bench);
    if (bench->comm)
        tr_comm_abort(bench->comm);
    MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_FAILED);
    _exit(BENCH_EXIT_FAILED);
}

/* fail.c - how a run ends. */
#include "bench/fail.h"
#include "bench/report.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SENTENCE = 1024 };

/* ---- Watchdog ---------------------------------------------------------------------------------------------------- */

static char last_words[SENTENCE];

static void on_alarm(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, last_words, strlen(last_words));
    (void)written;
    _exit(BENCH_EXIT_FAILED);
}

/* In `seconds`, unless armed again before, leave with what last_words holds by then. */
static void set_alarm(unsigned seconds)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}

enum { DEFAULT_TIMEOUT_S = 30, GRACE_S = 60, AGREEMENT_S = 5 };

/* The first failure of this rank that the others do not know of yet. */
static struct {
    int code;
    char sentence[SENTENCE];
} pending;

void watchdog_arm(const struct bench *bench, double seconds, const char *doing)
{
    if (pending.code)
        return;
    double timeout = bench->options.timeout_s > 0 ? bench->options.timeout_s : DEFAULT_TIMEOUT_S;
    unsigned limit = (unsigned)(timeout + GRACE_S + seconds);
    alarm(0);
    snprintf(last_words, sizeof last_words,
             "%s: rank %d on %s: no progress for %u s (%s): a rank hangs or died, look at the other ranks\n",
             bench->collective->program, bench->rank, bench->host, limit, doing);
    set_alarm(limit);
}

/* This rank failed and is about to agree with the others; one that hangs must not keep the sentence from being said. Who
 * only noticed another's failure leaves later, and says nothing. */
static void watchdog_arm_sentence(const struct bench *bench, const char *sentence, bool is_cause)
{
    alarm(0);
    last_words[0] = '\0';
    if (is_cause)
        snprintf(last_words, sizeof last_words, "%s: %.900s\n", bench->collective->program, sentence);
    set_alarm(is_cause ? AGREEMENT_S : 2 * AGREEMENT_S);
}

_Noreturn void bench_end(struct bench *bench, enum bench_exit code)
{
    watchdog_arm(bench, 0, "ending the run");
    reports_abandon(bench);
    fflush(stdout);
    fflush(stderr);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    exit(code);
}

static void say(const struct bench *bench, const char *sentence)
{
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

/* The cause counts before its consequences: a code above this one marks a rank that only noticed a peer's failure. */
enum { BENCH_CONSEQUENCE = 100 };

static void agree(struct bench *bench, int code, const char *sentence)
{
    struct {
        int order, rank;
    } mine = {code == 0 ? INT_MAX : code < BENCH_CONSEQUENCE ? 0 : 1, bench->rank}, first;
    MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    if (first.order == INT_MAX)
        return;
    char text[SENTENCE];
    snprintf(text, sizeof text, "%s", sentence);
    MPI_Bcast(text, sizeof text, MPI_CHAR, first.rank, MPI_COMM_WORLD);
    MPI_Bcast(&code, 1, MPI_INT, first.rank, MPI_COMM_WORLD);
    bench_stop(bench, code % BENCH_CONSEQUENCE, "%s", text);
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
    pending.code = exit_code(status);
    if (status == TR_ERR_ABORTED || status == TR_ERR_TIMEOUT)
        pending.code += BENCH_CONSEQUENCE;
    if (bench->comm && status != TR_ERR_ABORTED)
        tr_comm_abort(bench->comm);
    watchdog_arm_sentence(bench, pending.sentence, status != TR_ERR_ABORTED);
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

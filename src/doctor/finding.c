/* finding.c - how a check says what it found. */
#include "doctor/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const doctor_verdict_names[DOCTOR_VERDICT_COUNT] = {
    [DOCTOR_OK] = "ok",
    [DOCTOR_NOT_APPLICABLE] = "not applicable",
    [DOCTOR_WARNING] = "warning",
    [DOCTOR_PROBLEM] = "problem",
};

void finding_say(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    finding->verdict = verdict;
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

void finding_advise(struct doctor_finding *finding, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->advice, sizeof finding->advice, format, arguments);
    va_end(arguments);
}

int finding_mark(const struct doctor *doctor, struct doctor_finding *finding, rank_test *test)
{
    int first = -1;
    for (int r = doctor->nranks - 1; r >= 0; r--)
        if (test(doctor, r))
            first = r;
    for (int r = 0; r < doctor->nranks && first >= 0; r++)
        finding->ranks[r] = test(doctor, r);
    return first;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

struct list {
    char *text;
    size_t size, used;
    int count;
};

static void append(struct list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(struct list *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (list->used < list->size) {
        int written = vsnprintf(list->text + list->used, list->size - list->used, format, arguments);
        list->used += written > 0 ? (size_t)written : 0;
    }
    va_end(arguments);
}

static bool marked_on(const struct doctor *doctor, const struct doctor_finding *finding, int rank, const char *host)
{
    return rank < doctor->nranks && finding->ranks[rank] && strcmp(doctor->facts[rank].host, host) == 0;
}

/* The marked ranks of a host, runs of them as "2-5"; returns how many. */
static int append_host(const struct doctor *doctor, const struct doctor_finding *finding, const char *host,
                       struct list *list)
{
    int count = 0;
    for (int r = 0; r < doctor->nranks; r++) {
        int end = r;
        while (marked_on(doctor, finding, end, host))
            end++;
        if (end == r)
            continue;
        append(list, "%s%d", count ? ", " : "", r);
        if (end - r > 1)
            append(list, "-%d", end - 1);
        count += end - r;
        r = end;
    }
    append(list, " on %s", host);
    return count;
}

static bool host_came_before(const struct doctor *doctor, const struct doctor_finding *finding, int rank)
{
    for (int r = 0; r < rank; r++)
        if (marked_on(doctor, finding, r, doctor->facts[rank].host))
            return true;
    return false;
}

void finding_where(const struct doctor *doctor, const struct doctor_finding *finding, char *text, size_t size)
{
    struct list list = {.text = text, .size = size};
    int marked = 0;
    text[0] = '\0';
    for (int r = 0; r < doctor->nranks; r++)
        marked += finding->ranks[r];
    if (marked == 0)
        return;
    append(&list, marked == 1 ? "rank " : "ranks ");
    for (int r = 0; r < doctor->nranks; r++) {
        if (!finding->ranks[r] || host_came_before(doctor, finding, r))
            continue;
        append(&list, "%s", list.count++ ? ", and " : "");
        append_host(doctor, finding, doctor->facts[r].host, &list);
    }
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

const char *bytes_text(int64_t bytes, char text[static BYTES_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        number /= 1024;
        unit++;
    }
    snprintf(text, BYTES_TEXT, number < 10 && unit ? "%.1f %s" : "%.0f %s", number, units[unit]);
    return text;
}

const char *cpus_text(const cpu_set_t *cpus, char *text, size_t size)
{
    struct list list = {.text = text, .size = size};
    text[0] = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int end = cpu;
        while (end < CPU_SETSIZE && CPU_ISSET(end, cpus))
            end++;
        if (end == cpu)
            continue;
        append(&list, "%s%d", list.count++ ? "," : "", cpu);
        if (end - cpu > 1)
            append(&list, "-%d", end - 1);
        cpu = end;
    }
    return text;
}

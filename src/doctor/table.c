/* table.c - the findings for people: a row a check, what to do below it, and who reaches whom how. */
#include "doctor/finding.h"
#include "doctor/pairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INDENT = 27, LEAST_WIDTH = 80, USUAL_WIDTH = 120, MATRIX_RANKS = 16 };

static int find_width(void)
{
    struct winsize window;
    const char *columns = getenv("COLUMNS");
    int width = columns ? atoi(columns) : 0;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
        width = window.ws_col;
    return width <= 0 ? USUAL_WIDTH : width < LEAST_WIDTH ? LEAST_WIDTH : width;
}

/* Print words, `column` columns into the line, and go on in lines indented by INDENT. */
static void print_wrapped(const char *text, int column, int width)
{
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column + 1 + length > width && column > INDENT) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, text);
        column += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static const char *const verdicts[DOCTOR_VERDICT_COUNT] = {"ok", "n.a.", "warning", "problem"};

static void print_row(const struct doctor *doctor, const struct doctor_row *row, const struct doctor_finding *finding,
                      int width)
{
    char line[sizeof finding->text + 256], where[200];
    finding_where(doctor, finding, where, sizeof where);
    snprintf(line, sizeof line, "%s%s%s", where, *where ? ": " : "", finding->text);
    printf("%-16s  %-7s  ", row->title, verdicts[finding->verdict]);
    print_wrapped(line, INDENT, width);
    if (!*finding->advice)
        return;
    snprintf(line, sizeof line, "-> %s", finding->advice);
    printf("%*s", INDENT, "");
    print_wrapped(line, INDENT, width);
}

/* ---- Who reaches whom -------------------------------------------------------------------------------------------- */

static const char *const marks[DOCTOR_LINK_COUNT] = {
    [DOCTOR_LINK_NONE] = "!!",    [DOCTOR_LINK_SELF] = ".",    [DOCTOR_LINK_SHARED_MEMORY] = "shm",
    [DOCTOR_LINK_SAME_GPU] = "=", [DOCTOR_LINK_NVLINK] = "NV", [DOCTOR_LINK_PCIE] = "pcie",
};

/* Pairs that all have the same link need no picture. */
static bool has_several_links(const struct doctor *doctor)
{
    for (int from = 0; from < doctor->nranks; from++)
        for (int to = 0; to < doctor->nranks; to++)
            if (from != to && doctor_row(doctor, from)[to].link != doctor_row(doctor, 0)[1].link)
                return true;
    return false;
}

static void print_matrix(const struct doctor *doctor)
{
    if (doctor->nranks > MATRIX_RANKS || !has_several_links(doctor))
        return;
    printf("\nfrom\\to");
    for (int to = 0; to < doctor->nranks; to++)
        printf(" %4d", to);
    putchar('\n');
    for (int from = 0; from < doctor->nranks; from++) {
        printf("%7d", from);
        for (int to = 0; to < doctor->nranks; to++)
            printf(" %4s", marks[doctor_row(doctor, from)[to].link]);
        putchar('\n');
    }
    printf("shm: shared memory, =: the same GPU, NV: NVLink, pcie: PCIe, !!: none\n");
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

static void print_summary(const struct doctor_finding *findings)
{
    int counts[DOCTOR_VERDICT_COUNT] = {0};
    for (int i = 0; i < doctor_nrows; i++)
        counts[findings[i].verdict]++;
    printf("\n%d problem%s, %d warning%s, %d ok, %d not applicable: %s\n", counts[DOCTOR_PROBLEM],
           counts[DOCTOR_PROBLEM] == 1 ? "" : "s", counts[DOCTOR_WARNING], counts[DOCTOR_WARNING] == 1 ? "" : "s",
           counts[DOCTOR_OK], counts[DOCTOR_NOT_APPLICABLE],
           counts[DOCTOR_PROBLEM]   ? "this launch will break, see above"
           : counts[DOCTOR_WARNING] ? "this launch will run, not at its best"
                                    : "this launch will run");
}

bool doctor_print_table(const struct doctor *doctor, const struct doctor_finding *findings)
{
    int width = find_width();
    printf("%-16s  %-7s  %s\n", "check", "verdict", "finding, -> what to do");
    for (int i = 0; i < doctor_nrows; i++)
        print_row(doctor, &doctor_rows[i], &findings[i], width);
    print_matrix(doctor);
    print_summary(findings);
    return fflush(stdout) == 0 && !ferror(stdout);
}

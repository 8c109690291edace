/*
 * validate.c - `treering validate`: what a model predicts beside what was measured since, size by size for the fastest way
 * to run, and over all ways.
 */
#include "tool/validate.h"
#include "bench/sizes.h"
#include "tool/points.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "treering validate";

enum { MOST_FILES = 64 };

struct options {
    const char *model_path;
    double within; /* a share; 0: no limit */
    bool help;
    char bad[256]; /* a sentence; "": all is well */
    char *paths[MOST_FILES];
    int npaths;
};

static const struct argp_option rows[] = {
    {"model", 'm', "MODEL.json", 0, "The model", 0},
    {"within", 'w', "SHARE", 0,
     "Fail where the fastest way at a size is further off than this, by its curve (such as 25%)", 0},
    {"help", 'h', NULL, 0, "Write this help", 0},
    {0},
};

static const char about[] =
    "Compares a model with results of the same machine and launch that it was not fitted to.\v"
    "For each size: the fastest of our algorithms, its measured time, and what the model's curve for that very way to "
    "run "
    "and its parameters (alpha, beta, gamma by the schedule) say.\n"
    "\n"
    "Exit codes:\n"
    "  0  compared\n"
    "  1  a file cannot be read, or is not of the model's machine and launch\n"
    "  2  an option is unknown or its value unusable\n"
    "  3  further off than --within\n"
    "\n"
    "Example:\n"
    "  mpirun -np 8 ./allreduce_bench -J today.json && treering validate -m model.json today.json";

static void set_within(struct options *options, const char *text)
{
    char *end;
    double share = strtod(text, &end);
    if (*end == '%' && end[1] == '\0')
        share /= 100;
    else if (*end)
        share = 0;
    if (!(share > 0 && share < 100))
        snprintf(options->bad, sizeof options->bad, "-w takes a share such as 25%% or 0.25, not '%.100s'", text);
    options->within = share;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    if (key == 'm')
        options->model_path = text;
    else if (key == 'w')
        set_within(options, text);
    else if (key == 'h')
        options->help = true;
    else if (key == ARGP_KEY_ARG && options->npaths == MOST_FILES)
        snprintf(options->bad, sizeof options->bad, "more than %d result files: give fewer", MOST_FILES);
    else if (key == ARGP_KEY_ARG)
        options->paths[options->npaths++] = text;
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

/* NAN: the model has no curve for this way to run, or the point lies beyond it. */
static double by_curve(const struct tr_model *model, const struct tr_priced *p)
{
    for (int c = 0; c < model->ncurves; c++) {
        const struct tr_fit *fit = &model->curves[c].fit;
        if (points_belongs(&model->curves[c], p) && p->bytes >= fit->segments[0].from_bytes &&
            p->bytes <= fit->segments[fit->nsegments - 1].to_bytes)
            return tr_fit_predict(fit, p->bytes);
    }
    return NAN;
}

static void print_prediction(double predicted, double us)
{
    if (isnan(predicted))
        printf(" %10s %6s", "-", "");
    else
        printf(" %10.2f %+5.0f%%", predicted, 100 * (predicted / us - 1));
}

/* The fastest of a size: its row, and how far off its curve is (NAN: it has none). */
static double print_fastest(const struct tr_model *model, const struct tr_priced *p)
{
    char bytes[SIZE_TEXT], way[64];
    snprintf(way, sizeof way, "%s/%s/x%d", tr_algorithm_name(p->algorithm), tr_protocol_name(p->protocol), p->channels);
    printf("%10s  %-24s %10.2f", size_format((size_t)p->bytes, bytes), way, p->us);
    print_prediction(by_curve(model, p), p->us);
    print_prediction(points_predict(model, p), p->us);
    printf("\n");
    return fabs(by_curve(model, p) / p->us - 1);
}

/* Whether no point of the same collective, buffers and size is faster (or as fast and earlier). */
static bool is_fastest(const struct tr_priced *priced, int npriced, const struct tr_priced *p)
{
    for (const struct tr_priced *q = priced; q < priced + npriced; q++)
        if (q->collective == p->collective && q->registered == p->registered && q->bytes == p->bytes &&
            (q->us < p->us || (q->us == p->us && q < p)))
            return false;
    return true;
}

struct outcome {
    int sizes, beyond; /* --within, or without a curve to say */
    double worst;
};

static void print_group(const struct tr_model *model, const struct tr_priced *priced, int npriced,
                        enum tr_collective collective, bool registered, double within, struct outcome *outcome)
{
    bool begun = false;
    for (const struct tr_priced *p = priced; p < priced + npriced; p++) {
        if (p->collective != collective || p->registered != registered || !is_fastest(priced, npriced, p))
            continue;
        if (!begun)
            printf("\n%s, %s buffers\n%10s  %-24s %10s %17s %17s\n", tr_collective_name(collective),
                   points_buffers(registered), "bytes", "fastest", "measured", "by its curve", "by parameters");
        begun = true;
        double off = print_fastest(model, p);
        outcome->sizes++;
        outcome->beyond += !(off <= within);
        outcome->worst = fmax(outcome->worst, off);
    }
}

static int print_all(const struct tr_model *model, const struct tr_priced *priced, int npriced,
                     const struct options *options)
{
    struct outcome outcome = {0};
    double within = options->within > 0 ? options->within : 0.25;
    printf("microseconds; off: predicted over measured, less 1\n");
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++)
        for (int registered = 1; registered >= 0; registered--)
            print_group(model, priced, npriced, (enum tr_collective)c, registered, within, &outcome);
    printf("\nfastest ways: %d of %d sizes within %g%%, worst off %.0f%%\n", outcome.sizes - outcome.beyond,
           outcome.sizes, 100 * within, 100 * outcome.worst);
    points_print_errors(model, priced, npriced);
    return options->within > 0 && outcome.beyond ? TOOL_EXIT_WRONG : TOOL_EXIT_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static int failed(const char *why)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program, why);
    return TOOL_EXIT_FAILED;
}

static bool is_same_machine(const struct tr_machine *a, const struct tr_machine *b)
{
    return a->memory == b->memory && strcmp(a->name, b->name) == 0 && a->nranks == b->nranks &&
           a->ranks_on_device == b->ranks_on_device;
}

static int compare(const struct options *options, const struct tr_model *model, struct tr_result_file *const files[])
{
    struct tr_priced *priced = NULL;
    int npriced = 0;
    char why[600];
    for (int i = 0; i < options->npaths; i++)
        if (!is_same_machine(&model->machine, &files[i]->machine)) {
            snprintf(why, sizeof why,
                     "%.200s is of %d ranks on '%.80s', the model of %d ranks on '%.80s': give results of the model's "
                     "machine and launch",
                     files[i]->path, files[i]->machine.nranks, files[i]->machine.name, model->machine.nranks,
                     model->machine.name);
            return failed(why);
        }
    if (tr_machine_price(files, options->npaths, &priced, &npriced) != TR_OK)
        return failed(tr_last_error());
    int code = print_all(model, priced, npriced, options);
    free(priced);
    if (fflush(stdout) != 0 || ferror(stdout))
        return failed("cannot write to standard output: free space there, or write elsewhere");
    return code;
}

static int read_and_compare(const struct options *options)
{
    struct tr_result_file *files[MOST_FILES] = {NULL};
    struct tr_model *model = NULL;
    int n = 0;
    enum tr_status status = tr_model_read(options->model_path, &model);
    while (n < options->npaths && status == TR_OK) {
        status = tr_result_file_read(options->paths[n], &files[n]);
        n += status == TR_OK;
    }
    int code = status == TR_OK ? compare(options, model, files) : failed(tr_last_error());
    while (n > 0)
        tr_result_file_free(files[--n]);
    tr_model_free(model);
    return code;
}

int tool_validate(int argc, char **argv)
{
    struct options options = {0};
    char name[] = "treering validate";
    const struct argp argp = {rows, parse_option, "RESULT.json...", about, NULL, NULL, NULL};
    argv[0] = name; /* what argp's sentences begin with */
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &options) != 0)
        return TOOL_EXIT_USAGE;
    if (options.help) {
        argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        return TOOL_EXIT_OK;
    }
    if (!options.bad[0] && (!options.model_path || options.npaths == 0))
        snprintf(options.bad, sizeof options.bad, "%s is missing: see --help",
                 options.model_path ? "RESULT.json" : "-m MODEL.json");
    if (options.bad[0]) {
        fprintf(stderr, "%s: %s\n", program, options.bad);
        return TOOL_EXIT_USAGE;
    }
    return read_and_compare(&options);
}

/* fit.c - `treering fit`: alpha, beta, gamma and curves from the benches' JSON, written as a model. */
#include "tool/fit.h"

#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const char program[] = "treering fit";

enum { MOST_FILES = 256 };

struct options {
    const char *model_path; /* NULL: none is written */
    unsigned seed;
    bool help;
    char *paths[MOST_FILES];
    int npaths;
};

static const struct argp_option rows[] = {
    {"output", 'o', "MODEL.json", 0, "Write the model (see docs/model.md)", 0},
    {"seed", 's', "N", 0, "Of the bootstrap's random numbers (default 1)", 0},
    {"help", 'h', NULL, 0, "Write this help", 0},
    {0},
};

static const char about[] =
    "Fits T(m) = alpha + m / beta to every way to run a collective that was measured, and alpha, beta, gamma to all of "
    "them at once.\v"
    "RESULT.json is what the benches write under -J; all must be of one machine and launch. Intervals are 95%.\n"
    "\n"
    "Exit codes:\n"
    "  0  all was fitted and written\n"
    "  1  a file cannot be read or written, or is no result file of this machine\n"
    "  2  an option is unknown or its value unusable\n"
    "\n"
    "Example:\n"
    "  mpirun -np 8 ./allreduce_bench -J allreduce.json && treering fit allreduce.json -o model.json";

static bool parse_seed(const char *text, unsigned *seed)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > 0xFFFFFFFFul)
        return false;
    *seed = (unsigned)value;
    return true;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'o':
        options->model_path = text;
        return 0;
    case 's':
        if (parse_seed(text, &options->seed))
            return 0;
        argp_failure(state, 0, 0, "-s takes a whole number, 0 to 4294967295, not '%s'", text);
        return EINVAL;
    case 'h':
        options->help = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->npaths == MOST_FILES) {
            argp_failure(state, 0, 0, "more than %d files: give fewer", MOST_FILES);
            return EINVAL;
        }
        options->paths[options->npaths++] = text;
        return 0;
    case ARGP_KEY_END:
        if (options->npaths > 0 || options->help)
            return 0;
        argp_failure(state, 0, 0, "no result file was given: see %s --help", program);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int failed(void)
{
    fprintf(stderr, "%s: %s\n", program, tr_last_error());
    return TOOL_EXIT_FAILED;
}

static int fit_files(const struct options *options, struct tr_result_file *const files[])
{
    struct tr_priced *priced = NULL;
    struct tr_model *model = NULL;
    int npriced = 0, code = TOOL_EXIT_OK;
    if (tr_machine_price(files, options->npaths, &priced, &npriced) != TR_OK)
        return failed();
    if (npriced == 0) {
        free(priced);
        fprintf(stderr, "%s: no algorithm of ours was measured in these files: give results that have some\n", program);
        return TOOL_EXIT_FAILED;
    }
    enum tr_status status = tr_machine_model(files, options->npaths, priced, npriced, options->seed, &model);
    if (status == TR_OK)
        fit_print(model, priced, npriced);
    if (status == TR_OK && options->model_path)
        status = tr_model_write(model, options->model_path);
    if (status != TR_OK)
        code = failed();
    tr_model_free(model);
    free(priced);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write to standard output: free space there, or write elsewhere\n", program);
        code = TOOL_EXIT_FAILED;
    }
    return code;
}

static int read_and_fit(const struct options *options)
{
    struct tr_result_file *files[MOST_FILES] = {NULL};
    int n = 0;
    enum tr_status status = TR_OK;
    while (n < options->npaths && status == TR_OK) {
        status = tr_result_file_read(options->paths[n], &files[n]);
        n += status == TR_OK;
    }
    int code = status == TR_OK ? fit_files(options, files) : failed();
    while (n > 0)
        tr_result_file_free(files[--n]);
    return code;
}

int tool_fit(int argc, char **argv)
{
    struct options options = {.seed = 1};
    char name[] = "treering fit";
    const struct argp argp = {rows, parse_option, "RESULT.json...", about, NULL, NULL, NULL};
    argv[0] = name; /* what argp's sentences begin with */
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &options) != 0)
        return TOOL_EXIT_USAGE;
    if (options.help) {
        argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        return TOOL_EXIT_OK;
    }
    return read_and_fit(&options);
}

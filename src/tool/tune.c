/*
 * tune.c - `treering tune`: every way to run the collectives, measured by the benches' own driver on this machine and
 * launch, fitted, and written as the model from which AUTO chooses.
 *
 * A sweep is one collective with one kind of buffers. Its results pass through the same JSON that the benches write, and
 * are fitted as `treering fit` does.
 */
#include "tool/tune.h"

#include "bench/bench.h"
#include "bench/bench_cuda.h"
#include "bench/fail.h"
#include "bench/report.h"
#include "collectives/comm.h"
#include "collectives/error.h"
#include "model/choice.h"
#include "model/machine.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] = "treering tune";

/* ---- Options ----------------------------------------------------------------------------------------------------- */

struct options {
    const char *model_path;   /* NULL: in the user's folder */
    const char *results_path; /* NULL: results are not kept */
    const char *memory, *last;
    bool help;
    char bad[256]; /* a sentence; "": all is well */
};

static const struct argp_option rows[] = {
    {"output", 'o', "MODEL.json", 0,
     "Write the model here (in ~/.config/treering, under the name by which AUTO finds it for this machine and launch)",
     0},
    {"results", 'r', "FOLDER", 0, "Keep the results that were fitted, JSON as the benches write it, in this folder", 0},
    {"memory", 'M', "KIND", 0, "host or cuda (cuda where this build and host have a GPU)", 0},
    {"maxbytes", 'e', "SIZE", 0, "Last size (64M)", 0},
    {"help", 'h', NULL, 0, "Write this help", 0},
    {0},
};

static const char about[] = "Measures every algorithm, protocol and number of channels on this machine and launch, "
                            "fits them, and writes the model "
                            "from which AUTO chooses in later runs of the same launch.\v"
                            "All-reduce, reduce-scatter and all-gather, with registered and with plain buffers, f32, "
                            "from 8 bytes on; on GPUs in a "
                            "replayed CUDA graph. Takes minutes; nothing else should run on the machine.\n"
                            "\n"
                            "A communicator reads $TREERING_MODEL, else the model in the user's folder; "
                            "TREERING_MODEL=none leaves it the built-in "
                            "table. The benches print what AUTO then loses against the best that they measure.\n"
                            "\n"
                            "Exit codes:\n"
                            "  0  the model is written\n"
                            "  1  the run failed, or a file cannot be written\n"
                            "  2  an option is unknown or its value unusable\n"
                            "  3  an algorithm left wrong elements\n"
                            "  4  this machine or launch cannot run it\n"
                            "\n"
                            "Example:\n"
                            "  mpirun -np 8 ./treering tune";

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    const char **texts[] = {
        ['o'] = &options->model_path, ['r'] = &options->results_path, ['M'] = &options->memory, ['e'] = &options->last};
    if (key > 0 && key < (int)(sizeof texts / sizeof *texts) && texts[key])
        *texts[key] = text;
    else if (key == 'h')
        options->help = true;
    else if (key == ARGP_KEY_ARG)
        snprintf(options->bad, sizeof options->bad, "'%.100s' is no option: see --help", text);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

/* ---- Sweeps ------------------------------------------------------------------------------------------------------ */

static const struct {
    const struct bench_collective *collective;
    const char *buffers;
} sweeps[] = {
    {&bench_allreduce, "registered"}, {&bench_allreduce, "plain"},      {&bench_reduce_scatter, "registered"},
    {&bench_reduce_scatter, "plain"}, {&bench_allgather, "registered"}, {&bench_allgather, "plain"},
};

enum { NSWEEPS = sizeof sweeps / sizeof *sweeps, MOST_ARGUMENTS = 32 };

/* The options of the benches that a sweep has; `arguments` has room for MOST_ARGUMENTS. */
static int list_arguments(const struct options *options, int sweep, char *json_path, bool cuda, char **arguments)
{
    const char *const all[] = {sweeps[sweep].collective->program,
                               "-A",
                               "ring,tree,dtree,oneshot,twoshot,recursive",
                               "-B",
                               sweeps[sweep].buffers,
                               "-e",
                               options->last,
                               "-f",
                               "2",
                               "-c",
                               "1",
                               "--time-limit",
                               "0.5",
                               "-J",
                               json_path,
                               "-M",
                               cuda ? "cuda" : "host",
                               "-p",
                               cuda ? "LL,LL128,direct" : "LL,direct"};
    static const char *const on_gpus[] = {"--channels", "1,2,4,8,16,32", "-G", "20"};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        arguments[n++] = (char *)all[i];
    for (size_t i = 0; cuda && i < sizeof on_gpus / sizeof *on_gpus; i++)
        arguments[n++] = (char *)on_gpus[i];
    arguments[n] = NULL;
    return n;
}

static void say_sweep(const struct bench *bench, int sweep)
{
    if (bench->rank == 0)
        printf("%s: %d of %d: %s, %s buffers\n", program, sweep + 1, NSWEEPS,
               tr_collective_name(sweeps[sweep].collective->collective), sweeps[sweep].buffers);
    fflush(stdout);
}

static void measure(struct bench *bench, const struct options *options, int sweep, char *json_path, bool cuda)
{
    char *arguments[MOST_ARGUMENTS];
    int n = list_arguments(options, sweep, json_path, cuda, arguments);
    bench->collective = sweeps[sweep].collective;
    bool bad = options_parse(bench->collective, n, arguments, bench->rank == 0, &bench->options) != OPTIONS_RUN;
    if (bad)
        bench_end(bench, BENCH_EXIT_USAGE);
    bench->options.quiet = true;
    say_sweep(bench, sweep);
    bench_measure(bench);
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

static void print_rows(const struct tr_chooser *chooser, enum tr_collective collective, bool registered)
{
    const struct tr_choice *choices;
    int n = tr_chooser_rows(chooser, collective, registered, &choices);
    if (n == 0)
        return;
    printf("\n%s, %s buffers: AUTO takes\n", tr_collective_name(collective), registered ? "registered" : "plain");
    for (int i = 0; i < n; i++) {
        bool last = i == n - 1;
        char size[SIZE_TEXT];
        const struct tr_curve *curve = choices[i].curve;
        size_format(size_round_down(last && i > 0 ? choices[i - 1].max_bytes : choices[i].max_bytes), size);
        printf("  %-5s %-9s %s/%s", last ? "above" : "up to", last && i == 0 ? "0" : size,
               tr_algorithm_name(curve->algorithm), tr_protocol_name(curve->protocol));
        printf(curve->channels ? "/x%d\n" : "\n", curve->channels);
    }
}

static enum tr_status print_choices(const struct tr_model *model)
{
    struct tr_chooser *chooser = NULL;
    enum tr_status status = tr_chooser_create(model->curves, model->ncurves, &chooser);
    for (int c = 0; status == TR_OK && c < TR_COLLECTIVE_COUNT; c++)
        for (int registered = 1; registered >= 0; registered--)
            print_rows(chooser, (enum tr_collective)c, registered);
    tr_chooser_free(chooser);
    return status;
}

static enum tr_status make_folders(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) && errno != EEXIST)
            return tr_error(TR_ERR_SYSTEM, "cannot make the folder %s: %s: give another place with -o", folder,
                            strerror(errno));
        *slash = '/';
    }
    return TR_OK;
}

static enum tr_status write_model(const struct tr_model *model, const struct options *options)
{
    char path[PATH_MAX];
    enum tr_status status = TR_OK;
    if (options->model_path)
        snprintf(path, sizeof path, "%s", options->model_path);
    else
        status = tr_model_default_path(&model->machine, path, sizeof path);
    if (status == TR_OK && !options->model_path)
        status = make_folders(path);
    if (status == TR_OK)
        status = tr_model_write(model, path);
    if (status == TR_OK)
        printf("\nwritten: %s\n", path);
    return status;
}

/* A model that cannot be written is better said before the minutes of measuring than after. */
static enum tr_status check_writable(const struct options *options)
{
    char folder[PATH_MAX];
    struct stat status;
    if (!options->model_path)
        return TR_OK;
    snprintf(folder, sizeof folder, "%s", options->model_path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    if (stat(options->model_path, &status) == 0 && S_ISDIR(status.st_mode))
        errno = EISDIR;
    else if (access(slash ? folder : ".", W_OK) == 0 || access(options->model_path, W_OK) == 0)
        return TR_OK;
    return tr_error(TR_ERR_SYSTEM, "cannot write %s: %s: give another place with -o", options->model_path,
                    strerror(errno));
}

static enum tr_status fit(struct tr_result_file *const files[], const struct options *options)
{
    struct tr_priced *priced = NULL;
    struct tr_model *model = NULL;
    int npriced = 0;
    enum tr_status status = tr_machine_price(files, NSWEEPS, &priced, &npriced);
    if (status == TR_OK)
        status = tr_machine_model(files, NSWEEPS, priced, npriced, 1, &model);
    if (status == TR_OK)
        status = print_choices(model);
    if (status == TR_OK)
        status = write_model(model, options);
    tr_model_free(model);
    free(priced);
    return status;
}

static enum tr_status read_and_fit(char paths[NSWEEPS][PATH_MAX], const struct options *options)
{
    struct tr_result_file *files[NSWEEPS] = {NULL};
    enum tr_status status = TR_OK;
    for (int i = 0; i < NSWEEPS && status == TR_OK; i++)
        status = tr_result_file_read(paths[i], &files[i]);
    if (status == TR_OK)
        status = fit(files, options);
    for (int i = 0; i < NSWEEPS; i++)
        tr_result_file_free(files[i]);
    return status;
}

/* ---- Where results go meanwhile ---------------------------------------------------------------------------------- */

/* The folder for results: the one asked for, or a new one for this run. Rank 0's alone. */
static enum tr_status open_folder(const struct options *options, char folder[PATH_MAX])
{
    const char *temporary = getenv("TMPDIR");
    if (options->results_path) {
        snprintf(folder, PATH_MAX, "%s", options->results_path);
        if (mkdir(folder, 0777) && errno != EEXIST)
            return tr_error(TR_ERR_SYSTEM, "cannot make the folder %s: %s: give another with -r", folder,
                            strerror(errno));
        return TR_OK;
    }
    snprintf(folder, PATH_MAX, "%s/treering-tune-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    return mkdtemp(folder) ? TR_OK
                           : tr_error(TR_ERR_SYSTEM, "cannot make a folder for results, %s: %s: set TMPDIR", folder,
                                      strerror(errno));
}

static void name_results(const char *folder, char paths[NSWEEPS][PATH_MAX])
{
    for (int i = 0; i < NSWEEPS; i++)
        snprintf(paths[i], PATH_MAX, "%.3900s/%s_%s.json", folder, tr_collective_name(sweeps[i].collective->collective),
                 sweeps[i].buffers);
}

static void remove_results(const char *folder, char paths[NSWEEPS][PATH_MAX])
{
    for (int i = 0; i < NSWEEPS; i++)
        unlink(paths[i]);
    rmdir(folder);
}

/* What a run that ends early would leave behind. */
static struct {
    char folder[PATH_MAX]; /* "": nothing */
    char paths[NSWEEPS][PATH_MAX];
} temporary;

static void remove_temporary(void)
{
    if (temporary.folder[0])
        remove_results(temporary.folder, temporary.paths);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void agree(struct bench *bench, enum tr_status status)
{
    char why[TR_ERROR_BYTES + 32];
    snprintf(why, sizeof why, "%s: %s", program, status == TR_OK ? "" : tr_last_error());
    bench_agree(bench, status == TR_OK ? BENCH_EXIT_OK : BENCH_EXIT_FAILED, why);
}

static _Noreturn void tune(const struct options *options, int argc, char **argv)
{
    static struct bench bench;
    static char folder[PATH_MAX], paths[NSWEEPS][PATH_MAX];
    bench.collective = &bench_allreduce;
    bench_start(&bench, &argc, &argv);
    setenv("TREERING_MODEL", "none", 1); /* of this process alone */
    agree(&bench, bench.rank == 0 ? check_writable(options) : TR_OK);
    agree(&bench, bench.rank == 0 ? open_folder(options, folder) : TR_OK);
    name_results(folder, paths);
    if (bench.rank == 0 && !options->results_path) {
        memcpy(temporary.folder, folder, sizeof folder);
        memcpy(temporary.paths, paths, sizeof paths);
        atexit(remove_temporary);
        report_also_remove(remove_temporary);
    }
    bool chosen = options->memory && strcmp(options->memory, "auto") != 0;
    bool cuda = chosen ? strcmp(options->memory, "cuda") == 0 : bench_cuda_device_count() > 0;
    for (int i = 0; i < NSWEEPS; i++)
        measure(&bench, options, i, paths[i], cuda);
    bench.collective = &bench_allreduce;
    agree(&bench, bench.rank == 0 ? read_and_fit(paths, options) : TR_OK);
    bench_end(&bench, BENCH_EXIT_OK);
}

int tool_tune(int argc, char **argv)
{
    struct options options = {.last = "64M"};
    char name[] = "treering tune";
    const struct argp argp = {rows, parse_option, "", about, NULL, NULL, NULL};
    enum tr_memory memory;
    argv[0] = name; /* what argp's sentences begin with */
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &options) != 0)
        return TOOL_EXIT_USAGE;
    if (options.help) {
        argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        return TOOL_EXIT_OK;
    }
    if (options.memory && tr_memory_parse(options.memory, &memory) != TR_OK)
        snprintf(options.bad, sizeof options.bad, "-M: %.200s", tr_last_error());
    if (options.bad[0]) {
        fprintf(stderr, "%s: %s\n", program, options.bad);
        return TOOL_EXIT_USAGE;
    }
    tune(&options, argc, argv);
}

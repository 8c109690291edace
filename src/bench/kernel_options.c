/* kernel_options.c - kernel_bench's command line, parsed by glibc's argp; and the lists in it. */
#include "bench/bench_cuda.h"
#include "bench/kernel_bench.h"
#include "bench/options.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_LIST = 256 };

static const struct argp_option described[] = {
    {NULL, 0, NULL, 0, "What is run:", 1},
    {"kernels", 'k', "LIST", 0, "kernels, separated by commas (all that the memory has); --list names them", 0},
    {"shapes", 's', "LIST", 0, "shapes such as 4096x768x3072, separated by commas (the kernel's own)", 0},
    {"variants", 'w', "LIST", 0, "variants of the kernels, such as NN,TN (all)", 0},
    {"contenders", 'A', "LIST", 0, "contenders, such as ours,cublas (all)", 0},
    {"memory", 'M', "KIND", 0, "host or cuda (cuda where this build and host have a GPU)", 0},
    {"device", 'd', "N", 0, "the GPU (0)", 0},
    {"list", KEY_LIST, NULL, 0, "name the kernels, their shapes, variants and contenders, and leave", 0},
    {NULL, 0, NULL, 0, "Measuring:", 2},
    {"iters", 'n', "N", 0, "calls in a batch (as many as take 2 ms)", 0},
    {"rounds", 'r', "N", 0, "batches of each contender, interleaved, 3 to 1000 (15)", 0},
    {"seed", 'S', "N", 0, "of the random data and of the order of contenders (1)", 0},
    {NULL, 0, NULL, 0, "Output:", 3},
    {"json", 'J', "FILE", 0, "write everything as JSON", 0},
    {0},
};

static const char text[] =
    "Time the kernels of a transformer's step beside those of others, and say how far each is from what this machine "
    "can "
    "do.\v"
    "A contender's columns: median time of a call with its 95% confidence interval, rate, share of the roofline. The "
    "roofline's ceilings are measured first: the rate of a copy, and the best rate of a large matmul. What left wrong "
    "results has no speed.\n"
    "\n"
    "Exit codes: 0 all was measured and right; 1 the run failed; 2 an option is unknown or its value unusable; 3 some "
    "contender's results were wrong; 4 this machine cannot run what was asked for.\n"
    "\n"
    "Examples:\n"
    "  ./kernel_bench -k matmul -s 4096x4096x4096 -J matmul.json\n"
    "  ./kernel_bench -M host -k matmul -s 1024x1024x1024";

static int number(struct argp_state *state, const char *option, const char *value, int least, int most)
{
    char *end;
    errno = 0;
    long parsed = strtol(value, &end, 10);
    if (errno || end == value || *end || parsed < least || parsed > most)
        argp_error(state, "%s takes a whole number from %d to %d, not '%s'", option, least, most, value);
    return (int)parsed;
}

static enum tr_memory memory_kind(struct argp_state *state, const char *value)
{
    if (strcmp(value, "host") != 0 && strcmp(value, "cuda") != 0)
        argp_error(state, "-M takes host or cuda, not '%s'", value);
    return strcmp(value, "host") == 0 ? TR_MEMORY_HOST : TR_MEMORY_CUDA;
}

static bool is_known(const char *name, const struct kernel_row *row, char kind)
{
    if (kind == 'k')
        return strcmp(row->name, name) == 0;
    for (int i = 0; kind == 'w' && row->variants[i]; i++)
        if (strcmp(row->variants[i], name) == 0)
            return true;
    for (const struct kernel_contender *c = row->contenders; kind == 'A' && c->name; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

/* Every name of a list must be that of some kernel, variant or contender. */
static char *checked_list(struct argp_state *state, char kind, char *value)
{
    char *copy = strdup(value), *rest = NULL;
    bool any = false;
    for (char *name = copy ? strtok_r(copy, ",", &rest) : NULL; name; name = strtok_r(NULL, ",", &rest)) {
        bool known = false;
        for (const struct kernel_row *const *row = kernel_rows; *row && !known; row++)
            known = is_known(name, *row, kind);
        if (!known)
            argp_error(state, "-%c: there is no '%s', see --list", kind, name);
        any = true;
    }
    if (!any)
        argp_error(state, "-%c takes names separated by commas, see --list", kind);
    free(copy);
    return value;
}

static char *checked_shapes(struct argp_state *state, char *value)
{
    struct kernel_shape shape;
    int i = 0;
    for (; kernel_shape_at(value, i, &shape); i++)
        if (shape.count == 0)
            argp_error(state, "-s takes shapes such as 4096x768x3072, separated by commas, not '%s'", value);
    if (i == 0)
        argp_error(state, "-s takes shapes such as 4096x768x3072, separated by commas, not '%s'", value);
    return value;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct kernel_options *options = state->input;
    switch (key) {
    case 'k':
        options->kernels = checked_list(state, 'k', value);
        return 0;
    case 's':
        options->shapes = checked_shapes(state, value);
        return 0;
    case 'w':
        options->variants = checked_list(state, 'w', value);
        return 0;
    case 'A':
        options->contenders = checked_list(state, 'A', value);
        return 0;
    case 'M':
        options->memory = memory_kind(state, value);
        return 0;
    case 'd':
        options->device = number(state, "-d", value, 0, 1023);
        return 0;
    case 'n':
        options->iterations = number(state, "-n", value, 1, 1000000);
        return 0;
    case 'r':
        options->rounds = number(state, "-r", value, 3, 1000);
        return 0;
    case 'S':
        options->seed = (unsigned)number(state, "-S", value, 0, 1000000000);
        return 0;
    case 'J':
        options->json_path = value;
        return 0;
    case KEY_LIST:
        options->list = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': options start with -, see --help", value);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct kernel_options kernel_options_parse(int argc, char **argv)
{
    static const struct argp argp = {described, parse, NULL, text, NULL, NULL, NULL};
    struct kernel_options options = {.rounds = 15, .seed = 1};
    argp_program_version = tr_version();
    argp_err_exit_status = BENCH_EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0)
        exit(BENCH_EXIT_USAGE);
    if (options.memory == TR_MEMORY_AUTO)
        options.memory = bench_cuda_device_count() > 0 ? TR_MEMORY_CUDA : TR_MEMORY_HOST;
    return options;
}

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

bool kernel_is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return list == NULL;
}

/* "4096", "4K"; the rest of the text, or NULL. */
static const char *parse_size(const char *at, size_t *size)
{
    char *end;
    if (*at < '0' || *at > '9')
        return NULL;
    errno = 0;
    *size = strtoull(at, &end, 10);
    if (errno || *size >= (size_t)1 << 40)
        return NULL;
    if (*end == 'K' || *end == 'k') {
        *size *= 1024;
        end++;
    }
    return end;
}

bool kernel_shape_at(const char *list, int i, struct kernel_shape *shape)
{
    const char *at = list;
    for (; i > 0 && *at; i--) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    *shape = (struct kernel_shape){0};
    if (!*at)
        return false;
    int count = 0;
    do {
        at = count < KERNEL_DIMENSIONS ? parse_size(at, &shape->size[count]) : NULL;
        count++;
    } while (at && *at == 'x' && at++);
    shape->count = at && (*at == ',' || *at == '\0') ? count : 0;
    return true;
}

int kernel_dimension_count(const struct kernel_row *row)
{
    int count = 1;
    for (const char *at = row->dimensions; *at; at++)
        count += *at == 'x';
    return count;
}

/*
 * options.c - the benches' command line, parsed by glibc's argp.
 *
 * Parsed silently before MPI_Init(), so that --help needs no launcher; the sentence about a bad option is written by a
 * second, loud pass on rank 0. Each option is a row of `settings`: how it is described and what sets it.
 */
#include "bench/options.h"
#include "bench/bench.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parse {
    const struct bench_collective *collective;
    struct bench_options *options;
    enum options_outcome outcome;
    bool step_given, factor_given, tolerance_given;
    char why[512]; /* what is wrong with an option's value and what to give instead */
};

/* Set an option from its text; false leaves the sentence in parse->why. */
typedef bool setter(struct parse *parse, const char *text);

__attribute__((format(printf, 2, 3))) static bool refuse(struct parse *parse, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(parse->why, sizeof parse->why, format, args);
    va_end(args);
    return false;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static bool set_size(struct parse *parse, const char *option, const char *text, size_t *bytes)
{
    return size_parse(text, bytes) ||
           refuse(parse, "%s takes a size in bytes such as 8, 64K, 1M or 2G (powers of 1024), not '%s'", option, text);
}

static bool set_count(struct parse *parse, const char *option, const char *text, int least, int *value)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < least || number > 1000000000)
        return refuse(parse, "%s takes a whole number from %d to 1000000000, not '%s'", option, least, text);
    *value = (int)number;
    return true;
}

static bool set_flag(const char *text, bool *flag)
{
    (void)text;
    *flag = true;
    return true;
}

/* Call `set` for each name of a list separated by commas. */
static bool set_list(struct parse *parse, const char *option, const char *text, setter *set)
{
    char list[256], *rest = NULL;
    if (strlen(text) >= sizeof list || *text == '\0')
        return refuse(parse, "%s takes names separated by commas, see --help", option);
    strcpy(list, text);
    size_t names = 0;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest), names++)
        if (!set(parse, name))
            return false;
    return names > 0 || refuse(parse, "%s takes names separated by commas, not '%s'", option, text);
}

static bool refuse_name(struct parse *parse, const char *option)
{
    return refuse(parse, "%s: %s", option, tr_last_error());
}

/* ---- One function an option -------------------------------------------------------------------------------------- */

static bool set_first(struct parse *parse, const char *text)
{
    parse->options->first_given = true;
    return set_size(parse, "-b", text, &parse->options->range.first);
}

static bool set_last(struct parse *parse, const char *text)
{
    parse->options->last_given = true;
    return set_size(parse, "-e", text, &parse->options->range.last);
}

static bool set_step(struct parse *parse, const char *text)
{
    parse->step_given = true;
    if (!set_size(parse, "-i", text, &parse->options->range.step))
        return false;
    return parse->options->range.step || refuse(parse, "-i 0 would never reach -e: give a step of at least 1 byte");
}

static bool set_factor(struct parse *parse, const char *text)
{
    int factor = 0;
    parse->factor_given = true;
    if (!set_count(parse, "-f", text, 2, &factor))
        return false;
    parse->options->range.factor = (size_t)factor;
    return true;
}

static bool set_iterations(struct parse *parse, const char *text)
{
    return set_count(parse, "-n", text, 1, &parse->options->iterations);
}

static bool set_rounds(struct parse *parse, const char *text)
{
    return set_count(parse, "--rounds", text, 1, &parse->options->rounds);
}

static bool set_warmup(struct parse *parse, const char *text)
{
    return set_count(parse, "-w", text, 0, &parse->options->warmup);
}

static bool set_checks(struct parse *parse, const char *text)
{
    return set_count(parse, "-c", text, 0, &parse->options->checks);
}

/* nccl-tests' names for the datatypes. */
static const struct {
    const char *name;
    enum tr_datatype datatype;
} datatype_aliases[] = {
    {"double", TR_F64}, {"float", TR_F32}, {"half", TR_F16}, {"bfloat16", TR_BF16},
    {"int64", TR_I64},  {"int32", TR_I32}, {"uint8", TR_U8},
};

static bool add_datatype(struct parse *parse, const char *name)
{
    for (size_t i = 0; i < sizeof datatype_aliases / sizeof *datatype_aliases; i++)
        if (strcmp(name, datatype_aliases[i].name) == 0)
            return set_flag(name, &parse->options->datatypes[datatype_aliases[i].datatype]);
    if (strcmp(name, "all") == 0) {
        for (int i = 0; i < TR_DATATYPE_COUNT; i++)
            parse->options->datatypes[i] = true;
        return true;
    }
    enum tr_datatype datatype;
    if (tr_datatype_parse(name, &datatype))
        return refuse_name(parse, "-d");
    parse->options->datatypes[datatype] = true;
    return true;
}

static bool set_datatypes(struct parse *parse, const char *text)
{
    return set_list(parse, "-d", text, add_datatype);
}

static bool add_op(struct parse *parse, const char *name)
{
    if (strcmp(name, "all") == 0) {
        for (int i = 0; i < TR_OP_COUNT; i++)
            parse->options->ops[i] = true;
        return true;
    }
    enum tr_op op;
    if (tr_op_parse(name, &op))
        return refuse_name(parse, "-o");
    parse->options->ops[op] = true;
    return true;
}

static bool set_ops(struct parse *parse, const char *text)
{
    if (!parse->collective->reduces)
        return refuse(parse, "-o: this collective has no operation, leave -o out");
    return set_list(parse, "-o", text, add_op);
}

static bool add_algorithm(struct parse *parse, const char *name)
{
    enum tr_algorithm algorithm;
    if (tr_algorithm_parse(name, &algorithm))
        return refuse_name(parse, "-A");
    parse->options->algorithms[algorithm] = true;
    return true;
}

static bool set_algorithms(struct parse *parse, const char *text)
{
    parse->options->algorithms_given = true;
    return set_list(parse, "-A", text, add_algorithm);
}

static bool add_protocol(struct parse *parse, const char *name)
{
    enum tr_protocol protocol;
    if (tr_protocol_parse(name, &protocol))
        return refuse_name(parse, "-p");
    parse->options->protocols[protocol] = true;
    return true;
}

static bool set_protocols(struct parse *parse, const char *text)
{
    return set_list(parse, "-p", text, add_protocol);
}

static bool set_graph_launches(struct parse *parse, const char *text)
{
    return set_count(parse, "-G", text, 0, &parse->options->graph_launches);
}

static bool set_blocking(struct parse *parse, const char *text)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return refuse(parse, "-z takes 0 or 1, not '%s'", text);
    parse->options->blocking = *text == '1';
    return true;
}

static bool set_in_place(struct parse *parse, const char *text)
{
    return set_flag(text, &parse->options->in_place);
}

static bool set_memory(struct parse *parse, const char *text)
{
    return tr_memory_parse(text, &parse->options->memory) == TR_OK || refuse_name(parse, "-M");
}

static bool set_buffers(struct parse *parse, const char *text)
{
    parse->options->plain = strcmp(text, "plain") == 0;
    return parse->options->plain || strcmp(text, "registered") == 0 ||
           refuse(parse, "-B takes registered or plain, not '%s'", text);
}

static bool add_channels(struct parse *parse, const char *text)
{
    struct bench_options *options = parse->options;
    int channels = 0;
    if (!set_count(parse, "--channels", text, 1, &channels))
        return false;
    for (int i = 0; i < options->nchannels; i++)
        if (options->channels[i] == channels)
            return true;
    if (options->nchannels == OPTIONS_MOST_CHANNELS)
        return refuse(parse, "--channels takes at most %d numbers: leave some out", OPTIONS_MOST_CHANNELS);
    options->channels[options->nchannels++] = channels;
    return true;
}

static bool set_channels(struct parse *parse, const char *text)
{
    return set_list(parse, "--channels", text, add_channels);
}

static bool set_seconds(struct parse *parse, const char *option, const char *text, double *seconds)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0 && value <= 86400))
        return refuse(parse, "%s takes seconds, more than 0 and at most 86400, not '%s'", option, text);
    *seconds = value;
    return true;
}

static bool set_timeout(struct parse *parse, const char *text)
{
    return set_seconds(parse, "--timeout", text, &parse->options->timeout_s);
}

static bool set_time_limit(struct parse *parse, const char *text)
{
    return set_seconds(parse, "--time-limit", text, &parse->options->time_limit_s);
}

/* A share, as "5%" or 0.05. */
static bool set_share(struct parse *parse, const char *option, const char *text, double *share)
{
    char *end;
    double value = strtod(text, &end);
    bool read = end != text;
    if (read && *end == '%') {
        value /= 100;
        end++;
    }
    if (!read || *end || !(value > 0 && value <= 10))
        return refuse(parse, "%s takes a share, more than 0 and at most 1000%%, such as 5%% or 0.05, not '%s'", option,
                      text);
    *share = value;
    return true;
}

static bool set_ci(struct parse *parse, const char *text)
{
    return set_share(parse, "--ci", text, &parse->options->ci_share);
}

static bool set_drift(struct parse *parse, const char *text)
{
    return set_share(parse, "--drift", text, &parse->options->drift_share);
}

static bool set_tolerance(struct parse *parse, const char *text)
{
    parse->tolerance_given = true;
    return set_share(parse, "--tolerance", text, &parse->options->tolerance);
}

/* What a JSON number holds exactly everywhere. */
static bool set_seed(struct parse *parse, const char *text)
{
    static const unsigned long long most = (1ULL << 53) - 1;
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || seed > most)
        return refuse(parse, "--seed takes a whole number from 0 to %llu, not '%s'", most, text);
    parse->options->seed = seed;
    parse->options->seed_given = true;
    return true;
}

static bool set_baseline(struct parse *parse, const char *text)
{
    parse->options->baseline_path = text;
    return *text || refuse(parse, "--baseline takes the path of a JSON file that -J wrote");
}

static bool set_json(struct parse *parse, const char *text)
{
    parse->options->json_path = text;
    return *text || refuse(parse, "-J takes the path of the file to write");
}

static bool set_csv(struct parse *parse, const char *text)
{
    parse->options->csv_path = text;
    return *text || refuse(parse, "--csv takes the path of the file to write");
}

static bool set_verbose(struct parse *parse, const char *text)
{
    return set_flag(text, &parse->options->verbose);
}

static bool set_launch_cost(struct parse *parse, const char *text)
{
    return set_flag(text, &parse->options->launch_cost);
}

static bool ask(struct parse *parse, enum options_outcome outcome)
{
    if (parse->outcome == OPTIONS_RUN)
        parse->outcome = outcome;
    return true;
}

static bool ask_help(struct parse *parse, const char *text)
{
    (void)text;
    return ask(parse, OPTIONS_HELP);
}

static bool ask_usage(struct parse *parse, const char *text)
{
    (void)text;
    return ask(parse, OPTIONS_SHORT_HELP);
}

static bool ask_version(struct parse *parse, const char *text)
{
    (void)text;
    return ask(parse, OPTIONS_VERSION);
}

/* ---- The table of options ---------------------------------------------------------------------------------------- */

enum {
    KEY_ROUNDS = 256,
    KEY_CSV,
    KEY_CHANNELS,
    KEY_TIMEOUT,
    KEY_LAUNCH_COST,
    KEY_CI,
    KEY_TIME_LIMIT,
    KEY_SEED,
    KEY_DRIFT,
    KEY_BASELINE,
    KEY_TOLERANCE,
    KEY_USAGE
};

static const struct {
    struct argp_option argp;
    setter *set;
} settings[] = {
    {{NULL, 0, NULL, 0, "Sizes (8, 64K, 1M, 2G: bytes, powers of 1024):", 1}, NULL},
    {{"minbytes", 'b', "SIZE", 0, "first size (8, or one element a rank)", 0}, set_first},
    {{"maxbytes", 'e', "SIZE", 0, "last size (64M in host memory, 256M in GPU memory, less if that does not fit)", 0},
     set_last},
    {{"stepbytes", 'i', "SIZE", 0, "add SIZE from one size to the next", 0}, set_step},
    {{"stepfactor", 'f', "N", 0, "multiply by N from one size to the next (2; 4 with more ranks than CPUs)", 0},
     set_factor},

    {{NULL, 0, NULL, 0, "What runs:", 2}, NULL},
    {{"algorithms", 'A', "LIST", 0,
      "contenders, of ring,tree,dtree,oneshot,twoshot,recursive,auto,nccl,nccl-sym,mpi (all that apply)", 0},
     set_algorithms},
    {{"protocols", 'p', "LIST", 0,
      "protocols of our algorithms, of auto,LL,LL128,direct; each combination is a contender (auto)", 0},
     set_protocols},
    {{"channels", KEY_CHANNELS, "LIST", 0,
      "thread blocks of our algorithms on a GPU, 1,4,16 say; each combination is a contender (chosen by size)", 0},
     set_channels},
    {{"datatype", 'd', "LIST", 0, "f64, f32, f16, bf16, i64, i32, u8, nccl-tests' names, or all (f32)", 0},
     set_datatypes},
    {{"op", 'o', "LIST", 0, "sum, prod, min, max, avg, or all (sum)", 0}, set_ops},
    {{"memory", 'M', "KIND", 0, "host or cuda (cuda where this build and host have a GPU)", 0}, set_memory},
    {{"buffers", 'B', "KIND", 0,
      "of our algorithms: registered (tr_mem_alloc) or plain (malloc, cudaMalloc) (registered)", 0},
     set_buffers},
    {{"inplace", 'I', NULL, 0, "in place", 0}, set_in_place},

    {{NULL, 0, NULL, 0, "Measuring:", 3}, NULL},
    {{"iters", 'n', "N", 0, "calls in a batch (adapted to the size)", 0}, set_iterations},
    {{"ci", KEY_CI, "SHARE", 0,
      "a size is measured until the 95% interval of every contender's median is within SHARE on either side (2%)", 0},
     set_ci},
    {{"time-limit", KEY_TIME_LIMIT, "SECONDS", 0, "or for so long, the rounds of a size (0.7)", 0}, set_time_limit},
    {{"rounds", KEY_ROUNDS, "N", 0, "batches of each contender a size, interleaved, instead of --ci and --time-limit",
      0},
     set_rounds},
    {{"seed", KEY_SEED, "N", 0, "of the random order of the contenders (drawn, and printed)", 0}, set_seed},
    {{"drift", KEY_DRIFT, "SHARE", 0,
      "sizes are marked where a fixed call, measured now and then, took SHARE longer or shorter than at first (10%)",
      0},
     set_drift},
    {{"warmup_iters", 'w', "N", 0, "calls of each contender before a size's first batch (2)", 0}, set_warmup},
    {{"check", 'c', "N", 0, "rounds whose last timed call is verified, element by element (2; 0: none)", 0},
     set_checks},
    {{"cudagraph", 'G', "N", 0, "capture a batch's calls in a CUDA graph, launch it N times a sample (0: no graph)", 0},
     set_graph_launches},
    {{"blocking", 'z', "0|1", 0, "wait for each call (0); GPU memory", 0}, set_blocking},
    {{"timeout", KEY_TIMEOUT, "SECONDS", 0, "longest wait for a peer (30)", 0}, set_timeout},
    {{"launch-cost", KEY_LAUNCH_COST, NULL, 0,
      "also measure the host time of a launch against an empty kernel's; GPU memory (-v does, too)", 0},
     set_launch_cost},

    {{NULL, 0, NULL, 0, "Output:", 4}, NULL},
    {{"json", 'J', "FILE", 0, "write everything as JSON", 0}, set_json},
    {{"csv", KEY_CSV, "FILE", 0, "write one line a contender and size, with named columns", 0}, set_csv},
    {{"baseline", KEY_BASELINE, "FILE", 0,
      "compare each contender's median at each size with those in FILE (JSON of an earlier run)", 0},
     set_baseline},
    {{"tolerance", KEY_TOLERANCE, "SHARE", 0,
      "slower than the baseline is a median more than SHARE above its (10%), the 95% intervals apart", 0},
     set_tolerance},
    {{"verbose", 'v', NULL, 0, "also each rank's place and memory, and each contender's statistics", 0}, set_verbose},

    {{NULL, 0, NULL, 0, NULL, -1}, NULL},
    {{"help", 'h', NULL, 0, "this text", 0}, ask_help},
    {{NULL, '?', NULL, OPTION_ALIAS, NULL, 0}, ask_help},
    {{"usage", KEY_USAGE, NULL, 0, "the options, short", 0}, ask_usage},
    {{"version", 'V', NULL, 0, "the version", 0}, ask_version},
};

enum { NSETTINGS = sizeof settings / sizeof *settings };

static const char closing[] =
    "\v"
    "The table has, for each size, time (us), algbw, busbw and wrong elements of each contender, the winner, and the "
    "ratio of our best to the best peer (NCCL, MPI). A point with wrong elements is not reported as a speed. Below it "
    "stand the fits T = alpha + bytes / beta and the regret of auto: how much slower it is than the best of ours.\n"
    "\n"
    "Exit codes:\n"
    "  0  all was measured and everything verified was right\n"
    "  1  the run failed: MPI, CUDA, NCCL, a timeout, or a file that cannot be written\n"
    "  2  an option is unknown or its value unusable\n"
    "  3  some contender left wrong elements\n"
    "  4  this machine or launch cannot run it: ranks the launcher counts otherwise, memory that does not fit, "
    "contenders that all do not apply, a baseline of something else\n"
    "  5  slower than the baseline\n"
    "\n"
    "Examples:\n"
    "  mpirun -np 8 ./%s\n"
    "  mpirun -np 8 ./%s -b 8 -e 2G -A auto,nccl -J result.json";

/* ---- Validation that needs more than one option ------------------------------------------------------------------ */

static bool any(const bool *set, int count)
{
    for (int i = 0; i < count; i++)
        if (set[i])
            return true;
    return false;
}

static bool validate_range(struct parse *parse)
{
    const struct size_range *range = &parse->options->range;
    char first[SIZE_TEXT], last[SIZE_TEXT];
    if (parse->step_given && parse->factor_given)
        return refuse(parse, "-i adds and -f multiplies: give one of them");
    if (parse->options->first_given && parse->options->last_given && range->first > range->last)
        return refuse(parse, "-b %s is more than -e %s: give a range that starts at its smaller end",
                      size_format(range->first, first), size_format(range->last, last));
    if (parse->options->first_given && range->first == 0 && !parse->step_given &&
        !(parse->options->last_given && range->last == 0))
        return refuse(parse, "-b 0 never grows by a factor: give a step with -i, or -e 0 for that size alone");
    return true;
}

static bool validate(struct parse *parse)
{
    const struct bench_options *options = parse->options;
    if (options->memory == TR_MEMORY_HOST) {
        if (options->graph_launches)
            return refuse(parse, "-G needs GPU memory: leave out -G or -M host");
        if (options->blocking)
            return refuse(parse, "-z 1 needs GPU memory: leave out -z or -M host");
        if (options->launch_cost)
            return refuse(parse, "--launch-cost needs GPU memory: leave out --launch-cost or -M host");
    }
    if (parse->tolerance_given && !options->baseline_path)
        return refuse(parse, "--tolerance compares with a baseline: give --baseline FILE");
    if (options->graph_launches && options->blocking)
        return refuse(parse, "-z 1 waits for each call, -G replays them unattended: give one of them");
    return validate_range(parse);
}

/* ---- argp -------------------------------------------------------------------------------------------------------- */

static setter *find_setter(int key)
{
    for (int i = 0; i < NSETTINGS; i++)
        if (settings[i].set && settings[i].argp.key == key)
            return settings[i].set;
    return NULL;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct parse *parse = state->input;
    setter *set = find_setter(key);
    bool good = true;
    if (set)
        good = set(parse, text);
    else if (key == ARGP_KEY_ARG)
        good = refuse(parse, "unexpected argument '%s': options start with -, see --help", text);
    else if (key == ARGP_KEY_SUCCESS)
        good = validate(parse);
    else
        return ARGP_ERR_UNKNOWN;
    if (good)
        return 0;
    argp_failure(state, 0, 0, "%s", parse->why);
    return EINVAL;
}

/* The rows as argp wants them, closed by a row of zeros; -o is not shown where it does not apply. */
static void describe(const struct bench_collective *collective, struct argp_option rows[static NSETTINGS + 1])
{
    memset(rows, 0, (NSETTINGS + 1) * sizeof *rows);
    for (int i = 0; i < NSETTINGS; i++) {
        rows[i] = settings[i].argp;
        if (rows[i].key == 'o' && !collective->reduces)
            rows[i].flags |= OPTION_HIDDEN;
    }
}

static void set_defaults(struct bench_options *options)
{
    if (!any(options->datatypes, TR_DATATYPE_COUNT))
        options->datatypes[TR_F32] = true;
    if (!any(options->ops, TR_OP_COUNT))
        options->ops[TR_SUM] = true;
    if (!any(options->protocols, TR_PROTOCOL_COUNT))
        options->protocols[TR_PROTOCOL_AUTO] = true;
}

enum options_outcome options_parse(const struct bench_collective *collective, int argc, char **argv, bool loud,
                                   struct bench_options *options)
{
    struct argp_option rows[NSETTINGS + 1];
    describe(collective, rows);
    struct argp argp = {.options = rows, .parser = parse_option};
    struct parse parse = {.collective = collective, .options = options, .outcome = OPTIONS_RUN};
    *options = (struct bench_options){
        .warmup = 2, .checks = 2, .ci_share = 0.02, .time_limit_s = 0.7, .drift_share = 0.1, .tolerance = 0.1};
    unsigned flags = ARGP_NO_HELP | ARGP_NO_EXIT | (loud ? 0 : ARGP_NO_ERRS);
    error_t bad = argp_parse(&argp, argc, argv, flags, NULL, &parse);
    set_defaults(options);
    if (parse.outcome != OPTIONS_RUN)
        return parse.outcome;
    return bad ? OPTIONS_BAD : OPTIONS_RUN;
}

void options_help(const struct bench_collective *collective, bool usage_alone)
{
    struct argp_option rows[NSETTINGS + 1];
    char program[64], text[4096];
    describe(collective, rows);
    int head = snprintf(text, sizeof text, "%s\n", collective->summary);
    snprintf(text + head, sizeof text - (size_t)head, closing, collective->program, collective->program);
    snprintf(program, sizeof program, "%s", collective->program);
    struct argp argp = {.options = rows, .parser = parse_option, .doc = text};
    argp_help(&argp, stdout, usage_alone ? ARGP_HELP_USAGE : ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
              program);
}

/* p2p_options.c - p2p_bench's command line, parsed by glibc's argp the way options.c does it for the other benches. */
#include "bench/p2p_options.h"

#include "bench/p2p_method.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parse {
    struct p2p_options *options;
    enum options_outcome outcome;
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
    if (size_parse(text, bytes) && *bytes > 0)
        return true;
    return refuse(parse, "%s takes a size in bytes from 1, such as 8, 64K, 1M or 2G (powers of 1024), not '%s'", option,
                  text);
}

static bool set_number(struct parse *parse, const char *option, const char *text, long least, long most, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return (!errno && end != text && !*end && *value >= least && *value <= most) ||
           refuse(parse, "%s takes a whole number from %ld to %ld, not '%s'", option, least, most, text);
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

static bool set_factor(struct parse *parse, const char *text)
{
    long factor = 0;
    bool good = set_number(parse, "-f", text, 2, 1000000000, &factor);
    parse->options->range.factor = (size_t)factor;
    return good;
}

enum { MOST_MESSAGE = 1 << 20 };

static bool set_message(struct parse *parse, const char *text)
{
    if (!set_size(parse, "--message", text, &parse->options->message))
        return false;
    return parse->options->message <= MOST_MESSAGE ||
           refuse(parse, "--message takes at most 1M, not '%s': -b and -e give the sizes of transfers in a row", text);
}

static bool add_method(struct parse *parse, const char *name)
{
    bool found = false;
    for (int m = 0; m < p2p_method_count; m++)
        if (strcmp(p2p_methods[m].name, name) == 0)
            parse->options->methods[m] = found = true;
    char list[256];
    p2p_methods_list(list, sizeof list);
    return found || refuse(parse, "-A: there is no method '%s'; these there are: %s", name, list);
}

static bool set_methods(struct parse *parse, const char *text)
{
    char list[256], *rest = NULL;
    parse->options->methods_given = true;
    if (strlen(text) >= sizeof list)
        return refuse(parse, "-A takes names separated by commas, see --help");
    strcpy(list, text);
    int names = 0;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest), names++)
        if (!add_method(parse, name))
            return false;
    return names > 0 || refuse(parse, "-A takes names separated by commas, not '%s'", text);
}

static bool set_rounds(struct parse *parse, const char *text)
{
    long rounds = 0;
    bool good = set_number(parse, "--rounds", text, 1, P2P_MAX_ROUNDS, &rounds);
    parse->options->rounds = (int)rounds;
    parse->options->rounds_given = true;
    return good;
}

static bool set_seed(struct parse *parse, const char *text)
{
    long seed = 0;
    bool good = set_number(parse, "--seed", text, 0, 4294967295, &seed);
    parse->options->seed = (unsigned)seed;
    parse->options->seed_given = true;
    return good;
}

static bool set_together(struct parse *parse, const char *text)
{
    (void)text;
    return parse->options->together = true;
}

static bool set_memory(struct parse *parse, const char *text)
{
    return tr_memory_parse(text, &parse->options->memory) == TR_OK || refuse(parse, "-M: %s", tr_last_error());
}

static bool set_timeout(struct parse *parse, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds > 0 && seconds <= 86400))
        return refuse(parse, "--timeout takes seconds, more than 0 and at most 86400, not '%s'", text);
    parse->options->timeout_s = seconds;
    return true;
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
    (void)text;
    return parse->options->verbose = true;
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

enum { KEY_ROUNDS = 256, KEY_CSV, KEY_TIMEOUT, KEY_USAGE, KEY_MESSAGE, KEY_SEED, KEY_TOGETHER };

static const struct {
    struct argp_option argp;
    setter *set;
} settings[] = {
    {{NULL, 0, NULL, 0, "Sizes (8, 64K, 1M, 2G: bytes, powers of 1024):", 1}, NULL},
    {{"minbytes", 'b', "SIZE", 0, "first size of transfers in a row (host memory 1K, GPU memory 4K)", 0}, set_first},
    {{"maxbytes", 'e', "SIZE", 0, "last size (host memory 4M, GPU memory 256M, less if that does not fit)", 0},
     set_last},
    {{"stepfactor", 'f', "N", 0, "multiply by N from one size to the next (16)", 0}, set_factor},
    {{"message", KEY_MESSAGE, "SIZE", 0, "size of a message there and back (8)", 0}, set_message},

    {{NULL, 0, NULL, 0, "What runs:", 2}, NULL},
    {{"methods", 'A', "LIST", 0, "of flag,store,load,ce,cma,LL,LL128,direct,mpi (all that apply)", 0}, set_methods},
    {{"memory", 'M', "KIND", 0, "host or cuda (cuda where this build and host have a GPU)", 0}, set_memory},
    {{"together", KEY_TOGETHER, NULL, 0, "pairs that share no rank run at once (one pair at a time)", 0}, set_together},

    {{NULL, 0, NULL, 0, "Measuring:", 3}, NULL},
    {{"rounds", KEY_ROUNDS, "N", 0,
      "samples of each test (9; 7 with more than 4 ranks; fewer, but 2, if they took over 80 s)", 0},
     set_rounds},
    {{"seed", KEY_SEED, "N", 0, "of the random order of pairs and tests (from the clock; printed)", 0}, set_seed},
    {{"timeout", KEY_TIMEOUT, "SECONDS", 0,
      "longest wait for a peer (30; of a kernel of this bench 10); a rank that stops answering MPI ends the run up to "
      "twice that "
      "and a minute later",
      0},
     set_timeout},

    {{NULL, 0, NULL, 0, "Output:", 4}, NULL},
    {{"json", 'J', "FILE", 0, "write everything as JSON", 0}, set_json},
    {{"csv", KEY_CSV, "FILE", 0, "write one line a pair and test, with named columns", 0}, set_csv},
    {{"verbose", 'v', NULL, 0, "also each rank's place, and the matrices of every size", 0}, set_verbose},

    {{NULL, 0, NULL, 0, NULL, -1}, NULL},
    {{"help", 'h', NULL, 0, "this text", 0}, ask_help},
    {{NULL, '?', NULL, OPTION_ALIAS, NULL, 0}, ask_help},
    {{"usage", KEY_USAGE, NULL, 0, "the options, short", 0}, ask_usage},
    {{"version", 'V', NULL, 0, "the version", 0}, ask_version},
};

enum { NSETTINGS = sizeof settings / sizeof *settings };

static const char text[] =
    "Time what lies between every two ranks: latency, and bandwidth one way and both ways, by each method.\n"
    "\v"
    "Methods: flag (a word there and back), store (the sender writes the receiver's memory), load (the receiver reads "
    "the "
    "sender's), ce (copy engine), cma (process_vm_writev), LL, LL128, direct (tr_send and tr_recv by each protocol), "
    "mpi. "
    "Latency is half of there and back. Bandwidth is that of transfers in a row, per direction. Every batch's data are "
    "new and are verified; a pair that got wrong data is not reported as a speed. A pair is marked with * if it is "
    "slower than the pairs of the same transport: modified z-score above 3.5 (Iglewicz and Hoaglin 1993) and more than "
    "5% past the median.\n"
    "\n"
    "Exit codes:\n"
    "  0  all was measured and all data were right (outliers do not count as an error)\n"
    "  1  the run failed: MPI, CUDA, a timeout, or a file that cannot be written\n"
    "  2  an option is unknown or its value unusable\n"
    "  3  some pair got wrong data\n"
    "  4  this machine or launch cannot run it: a single rank, ranks the launcher counts otherwise, memory that does "
    "not "
    "fit, methods that all do not apply\n"
    "\n"
    "Examples:\n"
    "  mpirun -np 8 ./p2p_bench\n"
    "  mpirun -np 4 ./p2p_bench -M host -A store,load,mpi -b 4K -e 16M -f 4 -J pairs.json";

/* ---- argp -------------------------------------------------------------------------------------------------------- */

static setter *find_setter(int key)
{
    for (int i = 0; i < NSETTINGS; i++)
        if (settings[i].set && settings[i].argp.key == key)
            return settings[i].set;
    return NULL;
}

static bool validate(struct parse *parse)
{
    const struct p2p_options *options = parse->options;
    char first[SIZE_TEXT], last[SIZE_TEXT];
    if (!options->first_given || !options->last_given || options->range.first <= options->range.last)
        return true;
    return refuse(parse, "-b %s is more than -e %s: give a range that starts at its smaller end",
                  size_format(options->range.first, first), size_format(options->range.last, last));
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct parse *parse = state->input;
    setter *set = find_setter(key);
    bool good = true;
    if (set)
        good = set(parse, value);
    else if (key == ARGP_KEY_ARG)
        good = refuse(parse, "unexpected argument '%s': options start with -, see --help", value);
    else if (key == ARGP_KEY_SUCCESS)
        good = validate(parse);
    else
        return ARGP_ERR_UNKNOWN;
    if (good)
        return 0;
    argp_failure(state, 0, 0, "%s", parse->why);
    return EINVAL;
}

/* The rows as argp wants them, closed by a row of zeros. */
static void describe(struct argp_option rows[static NSETTINGS + 1])
{
    memset(rows, 0, (NSETTINGS + 1) * sizeof *rows);
    for (int i = 0; i < NSETTINGS; i++)
        rows[i] = settings[i].argp;
}

enum options_outcome p2p_options_parse(int argc, char **argv, bool loud, struct p2p_options *options)
{
    struct argp_option rows[NSETTINGS + 1];
    describe(rows);
    struct argp argp = {.options = rows, .parser = parse_option};
    struct parse parse = {.options = options, .outcome = OPTIONS_RUN};
    *options = (struct p2p_options){.message = 8, .range = {.factor = 16}};
    unsigned flags = ARGP_NO_HELP | ARGP_NO_EXIT | (loud ? 0 : ARGP_NO_ERRS);
    error_t bad = argp_parse(&argp, argc, argv, flags, NULL, &parse);
    if (parse.outcome != OPTIONS_RUN)
        return parse.outcome;
    return bad ? OPTIONS_BAD : OPTIONS_RUN;
}

void p2p_options_help(bool usage_alone)
{
    struct argp_option rows[NSETTINGS + 1];
    char program[] = "p2p_bench";
    describe(rows);
    struct argp argp = {.options = rows, .parser = parse_option, .doc = text};
    argp_help(&argp, stdout, usage_alone ? ARGP_HELP_USAGE : ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
              program);
}

/* ---- Defaults ---------------------------------------------------------------------------------------------------- */

void p2p_options_settle(struct p2p_options *options, enum tr_memory memory, int nranks)
{
    struct size_range *range = &options->range;
    bool cuda = memory == TR_MEMORY_CUDA;
    size_t first = cuda ? 4 << 10 : 1 << 10, last = cuda ? 256 << 20 : 4 << 20;
    if (!options->first_given)
        range->first = options->last_given && range->last < first ? range->last : first;
    if (!options->last_given)
        range->last = range->first > last ? range->first : last;
    if (!options->rounds_given)
        options->rounds = nranks > 4 ? 7 : 9; /* from 6 samples on the interval of the median is one of 95% */
}

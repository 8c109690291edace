/* schedule.c - `treering schedule`: the steps of an algorithm, their proof, their simulated time line, their picture. */
#include "tool/schedule.h"

#include "bench/sizes.h"
#include "collectives/check.h"
#include "collectives/error.h"
#include "tool/pricing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "treering schedule";

/* ---- Options ----------------------------------------------------------------------------------------------------- */

enum {
    CHECK_MAX_RANKS = 64, /* check.h */
    KEY_REMOTE = 256,
    KEY_DUMP,
    KEY_CHECK,
    KEY_SIMULATE,
    KEY_SVG,
    KEY_ALPHA,
    KEY_BETA,
    KEY_GAMMA,
    KEY_LAUNCH,
    KEY_LINKS,
    KEY_ALPHA_BETWEEN,
    KEY_BETA_BETWEEN,
    KEY_PIECES
};

struct options {
    const char *name, *model_path, *svg_path;
    struct tr_schedule_spec spec;
    enum tr_protocol protocol;
    size_t bytes;
    int nodes, pieces;
    struct tr_sim_machine machine;
    bool machine_given, dump, check, simulate, json, help;
};

static const struct argp_option rows[] = {
    {"ranks", 'n', "N", 0, "Ranks", 1},
    {"collective", 'C', "NAME", 0, "allreduce (default), reduce_scatter, allgather, broadcast, reduce, sendrecv", 1},
    {"root", 'r', "R", 0, "Root of a broadcast or reduce (default 0)", 1},
    {"remote", KEY_REMOTE, NULL, 0, "Registered buffers: steps may read and write those of other ranks", 1},
    {"protocol", 'p', "NAME", 0, "direct (default): few slots, used again; LL or LL128: a slot for every message", 1},
    {0, 0, NULL, 0, "What to do (default --dump):", 2},
    {"dump", KEY_DUMP, NULL, 0, "Write the steps", 2},
    {"check", KEY_CHECK, NULL, 0, "Prove the schedule and its synchronisation (up to 64 ranks)", 2},
    {"simulate", KEY_SIMULATE, NULL, 0, "Write what happens when, and how long it takes", 2},
    {"svg", KEY_SVG, "FILE", 0, "Draw that: ranks down, time across, an arrow a message (.svg, .pdf, .png)", 2},
    {"json", 'j', NULL, 0, "Write JSON in place of text", 2},
    {0, 0, NULL, 0, "What to simulate:", 3},
    {"size", 's', "M", 0, "Bytes of the whole vector (default 1M)", 3},
    {"pieces", KEY_PIECES, "P", 0, "Pieces that the vector is cut into (default: as a call would)", 3},
    {"model", 'm', "FILE", 0, "The model of a machine (docs/model.md), in place of the figures that follow", 3},
    {"launch", KEY_LAUNCH, "US", 0, "Before the first step (default 0)", 3},
    {"alpha", KEY_ALPHA, "US", 0, "Latency of a message (default 1)", 3},
    {"beta", KEY_BETA, "GB/S", 0, "Bandwidth of a port (default 100)", 3},
    {"gamma", KEY_GAMMA, "GB/S", 0, "Bytes that a rank reduces (default inf)", 3},
    {"nodes", 'k', "K", 0, "Nodes that the ranks fill in order (default 1)", 3},
    {"links", KEY_LINKS, "L", 0, "Links of a node, which its ranks share (default 1)", 3},
    {"alpha-between", KEY_ALPHA_BETWEEN, "US", 0, "Latency between nodes (default 5)", 3},
    {"beta-between", KEY_BETA_BETWEEN, "GB/S", 0, "Bandwidth of a link (default 25)", 3},
    {"help", 'h', NULL, 0, "Write this help", -1},
    {0},
};

static const char about[] =
    "Shows the schedule of an algorithm (ring, tree, dtree, oneshot, twoshot, recursive): its steps, their proof, what "
    "happens when, and a picture of that. No MPI and no GPU is needed.\v"
    "  treering schedule ring -n 4\n"
    "  treering schedule dtree -n 8 --check\n"
    "  treering schedule ring -n 8 --svg ring.svg\n"
    "\n"
    "Exit codes:\n"
    "  0  done\n"
    "  1  a file cannot be read or written, or memory is short\n"
    "  2  an option, or the model file, is not usable\n"
    "  3  the schedule is wrong: the proof found a fault\n"
    "  4  the algorithm does not serve the collective, or the model does not say what is asked for";

struct number_option {
    int key;
    const char *name;
    bool zero;
    size_t offset;
};
#define NUMBER(key, name, zero, field)                           \
    {                                                            \
        key, name, zero, offsetof(struct options, machine.field) \
    }
static const struct number_option numbers[] = {
    NUMBER(KEY_LAUNCH, "--launch", true, launch_us),
    NUMBER(KEY_ALPHA, "--alpha", true, inside.alpha_us),
    NUMBER(KEY_BETA, "--beta", false, inside.beta_gbps),
    NUMBER(KEY_GAMMA, "--gamma", false, gamma_gbps),
    NUMBER(KEY_ALPHA_BETWEEN, "--alpha-between", true, between.alpha_us),
    NUMBER(KEY_BETA_BETWEEN, "--beta-between", false, between.beta_gbps),
};

/* An option that is a number; ARGP_ERR_UNKNOWN: it is another. */
static error_t set_number(struct options *options, int key, const char *text, struct argp_state *state)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].key != key)
            continue;
        options->machine_given = true;
        double *value = (double *)(void *)((char *)options + numbers[i].offset);
        return pricing_number(text, numbers[i].zero, value)
                   ? 0
                   : pricing_refuse(state, "%s takes a number %s 0, not '%s'", numbers[i].name,
                                    numbers[i].zero ? "from" : "above", text);
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t set_whole(struct argp_state *state, const char *option, const char *text, int least, int *value)
{
    enum { MOST = 1 << 24 };
    return pricing_whole(text, least, MOST, value)
               ? 0
               : pricing_refuse(state, "%s takes a whole number from %d to %d, not '%s'", option, least, MOST, text);
}

static error_t set_named(struct options *options, int key, const char *text, struct argp_state *state)
{
    char list[128];
    if (key == 'C')
        return pricing_collective(text, &options->spec.collective, list)
                   ? 0
                   : pricing_refuse(state, "-C takes one of %s, not '%s'", list, text);
    if (key == 'p' && tr_protocol_parse(text, &options->protocol))
        return pricing_refuse(state, "-p: %s", tr_last_error());
    if (key == 's' && !size_parse(text, &options->bytes))
        return pricing_refuse(state, "-s takes a size in bytes such as 8, 64K, 1M or 2G (powers of 1024), not '%s'",
                              text);
    return 0;
}

static error_t set_name(struct options *options, char *text, struct argp_state *state)
{
    if (options->name)
        return pricing_refuse(state, "unexpected argument '%s': one algorithm at a time", text);
    options->name = text;
    return tr_algorithm_parse(text, &options->spec.algorithm) ? pricing_refuse(state, "%s", tr_last_error()) : 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'n':
        return set_whole(state, "-n", text, 1, &options->spec.nranks);
    case 'r':
        return set_whole(state, "-r", text, 0, &options->spec.root);
    case 'k':
        return set_whole(state, "-k", text, 1, &options->nodes);
    case KEY_LINKS:
        return set_whole(state, "--links", text, 1, &options->machine.links_per_node);
    case KEY_PIECES:
        return set_whole(state, "--pieces", text, 1, &options->pieces);
    case 'C':
    case 'p':
    case 's':
        return set_named(options, key, text, state);
    case 'm':
        options->model_path = text;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'h':
        options->help = true;
        return 0;
    case KEY_REMOTE:
        options->spec.remote = true;
        return 0;
    case KEY_DUMP:
        options->dump = true;
        return 0;
    case KEY_CHECK:
        options->check = true;
        return 0;
    case KEY_SIMULATE:
        options->simulate = true;
        return 0;
    case KEY_SVG:
        options->svg_path = text;
        return 0;
    case ARGP_KEY_ARG:
        return set_name(options, text, state);
    default:
        return set_number(options, key, text, state);
    }
}

static const char *fault(const struct options *options)
{
    if (!options->name)
        return "which algorithm? ring, tree, dtree, oneshot, twoshot or recursive";
    if (!options->spec.nranks)
        return "-n RANKS is needed";
    if (options->nodes > options->spec.nranks)
        return "there are more --nodes than ranks";
    if (options->check && options->spec.nranks > CHECK_MAX_RANKS)
        return "--check proves up to 64 ranks: the proof of more takes hours";
    if (options->model_path && options->machine_given)
        return "--model has launch, alpha, beta and gamma: leave these options out";
    if (options->protocol != TR_PROTOCOL_DIRECT && options->spec.remote)
        return "LL protocols go through mailboxes: leave --remote or --protocol out";
    if (options->protocol != TR_PROTOCOL_DIRECT && options->pieces > 1)
        return "LL protocols carry a vector in one piece";
    return NULL;
}

/* ---- What it does ------------------------------------------------------------------------------------------------ */

struct proof {
    size_t steps, waits, signals;
};

static struct proof count(const struct tr_plan *plan)
{
    struct proof proof = {0};
    for (int r = 0; r < plan->schedule->spec.nranks; r++) {
        proof.waits += (size_t)plan->ranks[r].exit.nwaits;
        proof.signals += (size_t)plan->ranks[r].entry.nsignals;
        for (int i = 0; i < plan->schedule->ranks[r].nsteps; i++) {
            proof.steps++;
            proof.waits += (size_t)plan->ranks[r].steps[i].nwaits;
            proof.signals += (size_t)plan->ranks[r].steps[i].nsignals;
        }
    }
    return proof;
}

static int check(const struct schedule_view *view)
{
    struct tr_plan *plan;
    bool ll = view->protocol != TR_PROTOCOL_DIRECT;
    enum tr_status status = tr_plan_build(view->schedule, ll ? TR_PROTOCOL_LL : TR_PROTOCOL_DIRECT, &plan);
    if (status != TR_OK)
        return pricing_fail(program, status);
    status = tr_check_plan(plan);
    struct proof proof = count(plan);
    tr_plan_free(plan);
    if (status == TR_ERR_ARGUMENT) {
        fprintf(stderr, "%s: the schedule is wrong: %s\n", program, tr_last_error());
        return TOOL_EXIT_WRONG;
    }
    if (status != TR_OK)
        return pricing_fail(program, status);
    const struct tr_schedule *s = view->schedule;
    printf("%s by %s on %d ranks is right: %zu steps, %zu waits and %zu signals, which were derived.\n"
           "Proved for %s, in place and out of place, under every interleaving:\n"
           "- every output chunk holds each rank's contribution exactly once, of the right chunk and piece\n"
           "- every wait has its signal, and no rank waits for ever\n"
           "- no mailbox slot and no user buffer is overwritten before its last reader\n"
           "- every rank's exit follows every rank's entry, so that the mailboxes of two calls may alternate\n",
           tr_collective_name(s->spec.collective), tr_algorithm_name(s->spec.algorithm), s->spec.nranks, proof.steps,
           proof.waits, proof.signals, ll ? "one piece" : "1 to as many pieces as show every pattern of overlap");
    return TOOL_EXIT_OK;
}

static enum tr_status machine_of(const struct options *options, struct schedule_view *view)
{
    int n = options->spec.nranks;
    view->machine = options->machine;
    view->machine.ranks_per_node = (n - 1) / options->nodes + 1;
    if (!options->model_path)
        return TR_OK;
    struct tr_model *model;
    enum tr_status status = tr_model_read(options->model_path, &model);
    if (status != TR_OK)
        return status;
    int node = view->machine.ranks_per_node;
    status =
        pricing_machine(model, options->model_path, options->protocol, (double)options->bytes, n, node, &view->machine);
    tr_model_free(model);
    return status;
}

/* As a call would cut it, or into the pieces asked for. */
static struct tr_geometry geometry_of(const struct options *options, const struct tr_schedule *schedule)
{
    struct tr_layout layout = tr_schedule_layout(schedule);
    enum tr_protocol protocol = options->pieces ? TR_PROTOCOL_LL : options->protocol; /* LL: whole */
    struct tr_geometry g = pricing_cut(&layout, options->spec.collective, TR_MEMORY_CUDA, protocol, options->bytes);
    size_t chunk = g.stride < g.total ? g.stride : g.total;
    if (options->pieces && chunk > 0) {
        g.channels = 1;
        g.tile = (chunk - 1) / (size_t)options->pieces + 1;
        g.npieces = (uint32_t)((chunk - 1) / g.tile + 1);
    }
    return g;
}

static int show(const struct options *options, const struct schedule_view *view)
{
    enum tr_status status = TR_OK;
    int code = TOOL_EXIT_OK;
    bool nothing = !options->check && !options->simulate && !options->svg_path;
    if (options->dump || nothing) {
        if (!options->json)
            schedule_dump(view);
        else if (!schedule_dump_json(view))
            status = tr_error(TR_ERR_MEMORY, "cannot write the schedule as JSON");
    }
    if (options->check)
        code = check(view);
    if (options->simulate && status == TR_OK && code == TOOL_EXIT_OK)
        status = options->json ? schedule_trace_json(view) : schedule_trace(view);
    if (options->svg_path && status == TR_OK && code == TOOL_EXIT_OK)
        status = schedule_draw(view, options->svg_path);
    return status == TR_OK ? code : pricing_fail(program, status);
}

static int run(const struct options *options)
{
    struct tr_schedule_spec spec = options->spec;
    spec.unique = options->protocol != TR_PROTOCOL_DIRECT;
    struct tr_schedule *schedule;
    enum tr_status status = tr_schedule_build(&spec, &schedule);
    if (status != TR_OK)
        return pricing_fail(program, status);
    struct schedule_view view = {.program = program,
                                 .schedule = schedule,
                                 .protocol = options->protocol,
                                 .geometry = geometry_of(options, schedule),
                                 .bytes = options->bytes};
    status = machine_of(options, &view);
    int code = status == TR_OK ? show(options, &view) : pricing_fail(program, status);
    tr_schedule_free(schedule);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write to standard output\n", program);
        return TOOL_EXIT_FAILED;
    }
    return code;
}

int tool_schedule(int argc, char **argv)
{
    const struct argp argp = {.options = rows, .parser = parse_option, .args_doc = "NAME", .doc = about};
    struct options options = {
        .protocol = TR_PROTOCOL_DIRECT,
        .bytes = 1 << 20,
        .nodes = 1,
        .machine = {.links_per_node = 1, .inside = {1, 100}, .between = {5, 25}, .gamma_gbps = INFINITY}};
    char name[sizeof program];
    memcpy(name, program, sizeof name);
    argv[0] = name;
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &options))
        return TOOL_EXIT_USAGE;
    if (options.help) {
        argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        return fflush(stdout) == 0 && !ferror(stdout) ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
    }
    const char *why = fault(&options);
    if (!why)
        return run(&options);
    fprintf(stderr, "%s: %s, see --help\n", program, why);
    return TOOL_EXIT_USAGE;
}

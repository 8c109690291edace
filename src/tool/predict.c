/*
 * predict.c - `treering predict`: the time of every algorithm and protocol from the model of a machine, for any number of
 * ranks. What the simulator can do in a moment is simulated, the rest priced by formula.
 */
#include "bench/sizes.h"
#include "collectives/error.h"
#include "model/closed.h"
#include "tool/predict.h"
#include "tool/pricing.h"
#include "tool/tool.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "treering predict";

/* ---- Options ----------------------------------------------------------------------------------------------------- */

enum method { METHOD_AUTO, METHOD_SIMULATE, METHOD_CLOSED, METHOD_COUNT };
static const char *const method_names[METHOD_COUNT] = {"auto", "simulate", "closed"};

enum { MAX_SIZES = 64, MAX_RANKS = 1 << 18 };

struct options {
    const char *model_path;
    int nranks, nodes;
    size_t sizes[MAX_SIZES];
    int nsizes;
    enum tr_collective collective;
    enum tr_algorithm algorithm; /* AUTO: all */
    bool registered, json, markdown, help;
    enum method method;
};

static const struct argp_option rows[] = {
    {"model", 'm', "FILE", 0, "The model of a machine (JSON, docs/model.md), from treering tune or cited figures", 0},
    {"ranks", 'n', "N", 0, "Ranks", 0},
    {"nodes", 'k', "K", 0, "Nodes that they fill in order (default: as many as the model's ranks a node ask for)", 0},
    {"size", 's', "M[,M...]", 0, "Sizes of the whole vector in bytes, such as 8, 64K, 1M, 2G (powers of 1024)", 0},
    {"collective", 'C', "NAME", 0, "allreduce (default), reduce_scatter, allgather, broadcast, reduce", 0},
    {"algorithm", 'A', "NAME", 0, "This one alone (default: all that serve the collective)", 0},
    {"registered", 'r', NULL, 0, "Buffers that the other ranks reach: schedules that read and write them directly", 0},
    {"method", 'M', "NAME", 0,
     "simulate (up to 4096 ranks), closed (formulas), or auto (default): simulated where that takes a moment", 0},
    {"json", 'j', NULL, 0, "Write JSON (schema \"treering-predict\") in place of the table", 0},
    {"winners", 'w', NULL, 0, "Write one row of a Markdown table: the winner at each size", 0},
    {"help", 'h', NULL, 0, "Write this help", 0},
    {0},
};

static const char about[] = "Predicts how long a collective takes by each algorithm and protocol on a machine, from "
                            "its model: launch cost, alpha, "
                            "beta, gamma, and what lies between nodes. No MPI and no GPU is needed.\v"
                            "The schedule of each algorithm is simulated, messages, ports and shared links; where that "
                            "would take long, or past "
                            "4096 ranks, formulas give the time (docs/model.md has both). '*' marks the fastest. Where "
                            "the ranks are as many as "
                            "the model's, the time from its fitted curve stands beside the prediction.\n"
                            "\n"
                            "  treering predict --model h200.json --ranks 64 --size 8,64K,1M,1G\n"
                            "\n"
                            "Exit codes:\n"
                            "  0  predicted\n"
                            "  1  the model cannot be read, or memory is short\n"
                            "  2  an option, or the model file, is not usable\n"
                            "  4  the model does not say what is asked for";

static error_t set_sizes(struct options *options, const char *text, struct argp_state *state)
{
    char list[1024], *rest = NULL;
    if (strlen(text) >= sizeof list)
        return pricing_refuse(state, "-s takes at most %zu characters", sizeof list - 1);
    strcpy(list, text);
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (options->nsizes == MAX_SIZES)
            return pricing_refuse(state, "-s takes at most %d sizes", MAX_SIZES);
        if (!size_parse(name, &options->sizes[options->nsizes++]) || options->sizes[options->nsizes - 1] > (size_t)1
                                                                                                               << 50)
            return pricing_refuse(
                state, "-s takes sizes up to 1024T such as 8, 64K, 1M or 2G (powers of 1024), not '%s'", name);
    }
    return options->nsizes ? 0 : pricing_refuse(state, "-s takes sizes separated by commas, not '%s'", text);
}

static error_t set_algorithm(struct options *options, const char *text, struct argp_state *state)
{
    return tr_algorithm_parse(text, &options->algorithm) ? pricing_refuse(state, "-A: %s", tr_last_error()) : 0;
}

static error_t set_method(struct options *options, const char *text, struct argp_state *state)
{
    for (int m = 0; m < METHOD_COUNT; m++)
        if (strcmp(text, method_names[m]) == 0) {
            options->method = (enum method)m;
            return 0;
        }
    return pricing_refuse(state, "-M takes auto, simulate or closed, not '%s'", text);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    char list[128];
    switch (key) {
    case 'm':
        options->model_path = text;
        return 0;
    case 'n':
        return pricing_whole(text, 1, MAX_RANKS, &options->nranks)
                   ? 0
                   : pricing_refuse(state, "-n takes ranks, 1 to %d, not '%s'", MAX_RANKS, text);
    case 'k':
        return pricing_whole(text, 1, MAX_RANKS, &options->nodes)
                   ? 0
                   : pricing_refuse(state, "-k takes nodes, 1 to %d, not '%s'", MAX_RANKS, text);
    case 's':
        return set_sizes(options, text, state);
    case 'C':
        return pricing_collective(text, &options->collective, list)
                   ? 0
                   : pricing_refuse(state, "-C takes one of %s, not '%s'", list, text);
    case 'A':
        return set_algorithm(options, text, state);
    case 'r':
        options->registered = true;
        return 0;
    case 'M':
        return set_method(options, text, state);
    case 'j':
        options->json = true;
        return 0;
    case 'w':
        options->markdown = true;
        return 0;
    case 'h':
        options->help = true;
        return 0;
    case ARGP_KEY_ARG:
        return pricing_refuse(state, "unexpected argument '%s': options start with -, see --help", text);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *missing(const struct options *options)
{
    if (!options->model_path)
        return "--model FILE is needed";
    if (!options->nranks)
        return "--ranks N is needed";
    if (!options->nsizes)
        return "--size M is needed";
    if (options->nodes > options->nranks)
        return "there are more --nodes than --ranks";
    if (options->collective == TR_SENDRECV && options->nranks != 2)
        return "sendrecv is between 2 ranks";
    return NULL;
}

/* ---- Predicting -------------------------------------------------------------------------------------------------- */

struct prediction {
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    double us, fitted_us; /* fitted: NAN where there is no curve */
    bool simulated;
};

struct point {
    size_t bytes;
    struct prediction predictions[TR_ALGORITHM_COUNT * TR_PROTOCOL_COUNT];
    int npredictions, winner;
};

/* Messages, about: what decides how long a simulation takes. */
static double messages(const struct tr_schedule_spec *spec, const struct tr_geometry *g)
{
    double n = spec->nranks, trees = spec->algorithm == TR_ALGORITHM_DTREE ? 2 : 1;
    double each[TR_ALGORITHM_COUNT] = {[TR_ALGORITHM_TREE] = 2 * n,
                                       [TR_ALGORITHM_DTREE] = 2 * n * trees,
                                       [TR_ALGORITHM_RECURSIVE] = 8 * n * (1 + log2(n)) * (1 + log2(n))};
    return (each[spec->algorithm] > 0 ? each[spec->algorithm] : 2 * n * n) * g->npieces;
}

/* About half a second. */
static const double MOMENT = 2e6;

static bool shall_simulate(const struct options *options, const struct tr_schedule_spec *spec,
                           const struct tr_geometry *geometry)
{
    if (options->method != METHOD_AUTO)
        return options->method == METHOD_SIMULATE;
    return !tr_closed_exists(spec->collective, spec->algorithm) ||
           (spec->nranks <= TR_SIM_MAX_RANKS && messages(spec, geometry) <= MOMENT);
}

static enum tr_status simulate(const struct tr_schedule_spec *spec, const struct tr_geometry *geometry,
                               const struct tr_sim_machine *machine, double *us)
{
    if (spec->nranks > TR_SIM_MAX_RANKS)
        return tr_error(TR_ERR_UNSUPPORTED, "%s on %d ranks is past the %d that can be simulated%s",
                        tr_collective_name(spec->collective), spec->nranks, TR_SIM_MAX_RANKS,
                        tr_closed_exists(spec->collective, spec->algorithm) ? ": use --method closed" : "");
    struct tr_schedule *schedule;
    enum tr_status status = tr_schedule_build(spec, &schedule);
    if (status != TR_OK)
        return status;
    status = tr_simulate(schedule, geometry, PRICING_ELEMENT_BYTES, machine, NULL, NULL, us);
    tr_schedule_free(schedule);
    return status;
}

/* The layout by formula or, where there is none, from the schedule. */
static enum tr_status find_layout(const struct tr_schedule_spec *spec, struct tr_layout *layout)
{
    if (tr_closed_exists(spec->collective, spec->algorithm)) {
        *layout = tr_closed_layout(spec);
        return TR_OK;
    }
    struct tr_schedule *schedule;
    enum tr_status status = tr_schedule_build(spec, &schedule);
    if (status != TR_OK)
        return status;
    *layout = tr_schedule_layout(schedule);
    tr_schedule_free(schedule);
    return TR_OK;
}

static enum tr_status price(const struct options *options, const struct tr_schedule_spec *spec,
                            const struct tr_geometry *geometry, const struct tr_sim_machine *machine,
                            struct prediction *prediction)
{
    prediction->simulated = shall_simulate(options, spec, geometry);
    if (prediction->simulated)
        return simulate(spec, geometry, machine, &prediction->us);
    return tr_closed_form(spec, geometry, PRICING_ELEMENT_BYTES, machine, &prediction->us);
}

/* The time from the curve fitted to this very launch; NAN: there is none. */
static double fitted(const struct options *options, const struct tr_model *model, const struct prediction *prediction,
                     size_t bytes)
{
    for (int i = 0; i < model->ncurves && options->nranks == model->machine.nranks; i++) {
        const struct tr_curve *curve = &model->curves[i];
        if (curve->collective == options->collective && curve->registered == options->registered &&
            curve->algorithm == prediction->algorithm && curve->protocol == prediction->protocol &&
            curve->channels == 0)
            return tr_fit_predict(&curve->fit, (double)bytes);
    }
    return NAN;
}

static int ranks_per_node(const struct options *options, const struct tr_model *model)
{
    if (options->nodes)
        return (options->nranks - 1) / options->nodes + 1;
    return model->ranks_per_node > 0 ? model->ranks_per_node : options->nranks;
}

static enum tr_status predict_one(const struct options *options, const struct tr_model *model, struct point *point,
                                  enum tr_algorithm algorithm, enum tr_protocol protocol)
{
    struct prediction *prediction = &point->predictions[point->npredictions];
    *prediction = (struct prediction){.algorithm = algorithm, .protocol = protocol};
    struct tr_schedule_spec spec = {.collective = options->collective,
                                    .algorithm = algorithm,
                                    .nranks = options->nranks,
                                    .remote = options->registered && protocol == TR_PROTOCOL_DIRECT,
                                    .unique = protocol != TR_PROTOCOL_DIRECT};
    struct tr_layout layout;
    enum tr_status status = find_layout(&spec, &layout);
    if (status != TR_OK)
        return status;
    struct tr_geometry g = pricing_cut(&layout, options->collective, model->machine.memory, protocol, point->bytes);
    if (!pricing_fits(&g, model->machine.memory, protocol))
        return TR_OK;
    struct tr_sim_machine machine;
    status = pricing_machine(model, options->model_path, protocol, (double)point->bytes, options->nranks,
                             ranks_per_node(options, model), &machine);
    if (status == TR_OK)
        status = price(options, &spec, &g, &machine, prediction);
    if (status != TR_OK)
        return status;
    prediction->fitted_us = fitted(options, model, prediction, point->bytes);
    if (point->npredictions == 0 || prediction->us < point->predictions[point->winner].us)
        point->winner = point->npredictions;
    point->npredictions++;
    return TR_OK;
}

static bool has_protocol(const struct tr_model *model, enum tr_protocol protocol)
{
    return tr_model_parameters(model, protocol, 0) != NULL;
}

static enum tr_status predict(const struct options *options, const struct tr_model *model, size_t bytes,
                              struct point *point)
{
    *point = (struct point){.bytes = bytes};
    for (int a = 0; a < TR_ALGORITHM_COUNT; a++)
        for (int p = TR_PROTOCOL_AUTO + 1; p < TR_PROTOCOL_COUNT; p++) {
            enum tr_algorithm algorithm = (enum tr_algorithm)a;
            enum tr_protocol protocol = (enum tr_protocol)p;
            bool wanted = options->algorithm == TR_ALGORITHM_AUTO || options->algorithm == algorithm;
            if (!wanted || !tr_schedule_exists(options->collective, algorithm) || !has_protocol(model, protocol))
                continue;
            enum tr_status status = predict_one(options, model, point, algorithm, protocol);
            if (status != TR_OK)
                return status;
        }
    if (point->npredictions == 0)
        return tr_error(
            TR_ERR_UNSUPPORTED,
            "%s of %zu bytes by %s: no schedule of ours, or no parameters in %s for a protocol that carries it",
            tr_collective_name(options->collective), bytes, tr_algorithm_name(options->algorithm), options->model_path);
    return TR_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static double algbw(size_t bytes, double us)
{
    return (double)bytes / us / 1e3;
}

/* busbw / algbw, as nccl-tests defines it. */
static double bus_factor(const struct options *options)
{
    double share = (options->nranks - 1.0) / options->nranks;
    return options->collective == TR_ALLREDUCE                                               ? 2 * share
           : options->collective == TR_REDUCE_SCATTER || options->collective == TR_ALLGATHER ? share
                                                                                             : 1;
}

static void print_head(const struct options *options, const struct tr_model *model)
{
    int node = ranks_per_node(options, model), nodes = (options->nranks - 1) / node + 1;
    printf("# model: %s (%s)\n# %s", options->model_path, model->origin, tr_collective_name(options->collective));
    printf(", %d ranks on %d node%s of %d%s; flat schedules; predicted, not measured\n", options->nranks, nodes,
           nodes == 1 ? "" : "s", node < options->nranks ? node : options->nranks,
           options->registered ? ", registered buffers" : "");
    printf("%10s  %-10s %-7s %12s %9s %9s  %-9s %12s\n", "size", "algorithm", "proto", "time us", "algbw", "busbw",
           "by", "fitted us");
}

static void print_point(const struct options *options, const struct point *point)
{
    char size[SIZE_TEXT];
    for (int i = 0; i < point->npredictions; i++) {
        const struct prediction *p = &point->predictions[i];
        printf("%10s  %-10s %-7s %12.2f %9.2f %9.2f  %-9s", i ? "" : size_format(point->bytes, size),
               tr_algorithm_name(p->algorithm), tr_protocol_name(p->protocol), p->us, algbw(point->bytes, p->us),
               algbw(point->bytes, p->us) * bus_factor(options), p->simulated ? "simulated" : "formula");
        if (isnan(p->fitted_us))
            printf(" %12s", "-");
        else
            printf(" %12.2f", p->fitted_us);
        printf("%s\n", i == point->winner ? " *" : "");
    }
}

static void print_winner(const struct point *point)
{
    const struct prediction *p = &point->predictions[point->winner];
    printf(" %s %s %.4g |", tr_algorithm_name(p->algorithm), tr_protocol_name(p->protocol), p->us);
}

static json_t *prediction_json(const struct options *options, const struct point *point, int i)
{
    const struct prediction *p = &point->predictions[i];
    double bandwidth = algbw(point->bytes, p->us);
    return json_pack("{ss ss sf sf sf ss so* sb}", "algorithm", tr_algorithm_name(p->algorithm), "protocol",
                     tr_protocol_name(p->protocol), "time_us", p->us, "algbw_gbps", bandwidth, "busbw_gbps",
                     bandwidth * bus_factor(options), "by", p->simulated ? "simulated" : "formula", "fitted_us",
                     isnan(p->fitted_us) ? NULL : json_real(p->fitted_us), "winner", i == point->winner);
}

static json_t *point_json(const struct options *options, const struct point *point)
{
    json_t *predictions = json_array();
    for (int i = 0; i < point->npredictions; i++)
        json_array_append_new(predictions, prediction_json(options, point, i));
    return json_pack("{sI so}", "bytes", (json_int_t)point->bytes, "predictions", predictions);
}

static bool print_json(const struct options *options, const struct tr_model *model, const struct point *points)
{
    json_t *list = json_array();
    for (int i = 0; i < options->nsizes; i++)
        json_array_append_new(list, point_json(options, &points[i]));
    json_t *root = json_pack("{ss si ss ss ss si si sb so}", "schema", "treering-predict", "schema_version", 1, "model",
                             options->model_path, "origin", model->origin, "collective",
                             tr_collective_name(options->collective), "nranks", options->nranks, "ranks_per_node",
                             ranks_per_node(options, model), "registered", options->registered, "points", list);
    bool ok = root && json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 && putchar('\n') != EOF;
    json_decref(root);
    return ok;
}

static bool print(const struct options *options, const struct tr_model *model, const struct point *points)
{
    if (options->json)
        return print_json(options, model, points);
    if (options->markdown)
        printf("| %d |", options->nranks);
    else
        print_head(options, model);
    for (int i = 0; i < options->nsizes; i++)
        if (options->markdown)
            print_winner(&points[i]);
        else
            print_point(options, &points[i]);
    if (options->markdown)
        putchar('\n');
    return true;
}

static int run(const struct options *options)
{
    struct tr_model *model;
    enum tr_status status = tr_model_read(options->model_path, &model);
    if (status != TR_OK)
        return pricing_fail(program, status);
    static struct point points[MAX_SIZES];
    for (int i = 0; i < options->nsizes && status == TR_OK; i++)
        status = predict(options, model, options->sizes[i], &points[i]);
    int code = TOOL_EXIT_OK;
    if (status != TR_OK) {
        code = pricing_fail(program, status);
    } else if (!print(options, model, points) || fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write to standard output\n", program);
        code = TOOL_EXIT_FAILED;
    }
    tr_model_free(model);
    return code;
}

int tool_predict(int argc, char **argv)
{
    const struct argp argp = {.options = rows, .parser = parse_option, .doc = about};
    struct options options = {0};
    char name[sizeof program];
    memcpy(name, program, sizeof name);
    argv[0] = name;
    if (argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT, NULL, &options))
        return TOOL_EXIT_USAGE;
    if (options.help) {
        argp_help(&argp, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        return fflush(stdout) == 0 && !ferror(stdout) ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
    }
    const char *lack = missing(&options);
    if (!lack)
        return run(&options);
    fprintf(stderr, "%s: %s, see --help\n", program, lack);
    return TOOL_EXIT_USAGE;
}

/* pricing.c - what predict and schedule share: names and numbers on the command line, and a model as a machine. */
#include "tool/pricing.h"

#include "collectives/error.h"
#include "tool/tool.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

error_t pricing_refuse(struct argp_state *state, const char *format, ...)
{
    char sentence[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    argp_failure(state, 0, 0, "%s", sentence);
    return EINVAL;
}

bool pricing_collective(const char *name, enum tr_collective *collective, char list[static 128])
{
    size_t used = 0;
    for (int c = 0; c < TR_COLLECTIVE_COUNT; c++) {
        const char *known = tr_collective_name((enum tr_collective)c);
        used += (size_t)snprintf(list + used, 128 - used, "%s%s", c ? ", " : "", known);
        if (strcmp(name, known) == 0) {
            *collective = (enum tr_collective)c;
            return true;
        }
    }
    return false;
}

bool pricing_whole(const char *text, int least, int most, int *value)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < least || number > most)
        return false;
    *value = (int)number;
    return true;
}

bool pricing_number(const char *text, bool zero, double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(zero ? number >= 0 : number > 0))
        return false;
    *value = number;
    return true;
}

/* Channels and the payload of a mailbox slot, by memory. */
static const struct {
    uint32_t channels;
    size_t capacity;
} cuts[TR_MEMORY_COUNT] = {[TR_MEMORY_HOST] = {1, 256 << 10}, [TR_MEMORY_CUDA] = {32, 64 << 10}};

struct tr_geometry pricing_cut(const struct tr_layout *layout, enum tr_collective collective, enum tr_memory memory,
                               enum tr_protocol protocol, size_t bytes)
{
    bool segments = tr_collective_in_is_one_chunk(collective) || tr_collective_out_is_one_chunk(collective);
    size_t count = bytes / PRICING_ELEMENT_BYTES / (segments ? layout->nranks : 1);
    if (protocol != TR_PROTOCOL_DIRECT)
        return tr_layout_whole(layout, collective, count, PRICING_ELEMENT_BYTES, cuts[memory].channels);
    return tr_layout_cut(layout, collective, count, PRICING_ELEMENT_BYTES, cuts[memory].channels,
                         cuts[memory].capacity);
}

bool pricing_fits(const struct tr_geometry *g, enum tr_memory memory, enum tr_protocol protocol)
{
    size_t longest = g->tile < g->stride ? g->tile : g->stride;
    return protocol == TR_PROTOCOL_DIRECT || longest * PRICING_ELEMENT_BYTES <= cuts[memory].capacity;
}

static const double payload_share[TR_PROTOCOL_COUNT] = {
    [TR_PROTOCOL_LL] = 8.0 / 16, [TR_PROTOCOL_LL128] = 120.0 / 128, [TR_PROTOCOL_DIRECT] = 1};

enum tr_status pricing_machine(const struct tr_model *model, const char *path, enum tr_protocol protocol, double bytes,
                               int nranks, int ranks_per_node, struct tr_sim_machine *machine)
{
    const struct tr_parameters *p = tr_model_parameters(model, protocol, bytes);
    if (!p)
        return tr_error(TR_ERR_UNSUPPORTED, "%s has no parameters of protocol %s", path, tr_protocol_name(protocol));
    if (nranks > ranks_per_node && model->between.links_per_node < 1)
        return tr_error(
            TR_ERR_UNSUPPORTED,
            "%s says nothing of several nodes, and %d ranks at %d a node are several: add \"between\" to it "
            "(docs/model.md), or give --nodes 1",
            path, nranks, ranks_per_node);
    *machine = (struct tr_sim_machine){
        .ranks_per_node = ranks_per_node,
        .links_per_node = model->between.links_per_node,
        .inside = {p->alpha_us.value, p->beta_gbps.value},
        .between = {p->alpha_us.value + model->between.alpha_us, model->between.beta_gbps * payload_share[protocol]},
        .gamma_gbps = p->gamma_gbps.value,
        .launch_us = p->launch_us.value,
        .overhead_us = p->overhead_us.value,
    };
    return TR_OK;
}

/* What went wrong, as an exit code; what is not here is TOOL_EXIT_FAILED. */
static const enum tool_exit exit_codes[TR_STATUS_COUNT] = {
    [TR_ERR_ARGUMENT] = TOOL_EXIT_USAGE, [TR_ERR_UNSUPPORTED] = TOOL_EXIT_CANNOT};

int pricing_fail(const char *program, enum tr_status status)
{
    fprintf(stderr, "%s: %s\n", program, tr_last_error());
    return exit_codes[status] ? exit_codes[status] : TOOL_EXIT_FAILED;
}

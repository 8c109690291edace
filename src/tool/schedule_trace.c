/* schedule_trace.c - a simulated schedule as a time line, as JSON, and as a picture (src/report/draw_schedule.py). */
#include "collectives/error.h"
#include "tool/python.h"
#include "tool/schedule.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct trace {
    struct tr_sim_event *events;
    size_t nevents, capacity;
    bool out_of_memory;
    double us;
};

static void record(const struct tr_sim_event *event, void *context)
{
    struct trace *trace = context;
    if (trace->nevents == trace->capacity) {
        size_t capacity = trace->capacity ? 2 * trace->capacity : 256;
        struct tr_sim_event *events = realloc(trace->events, capacity * sizeof *events);
        if (!events) {
            trace->out_of_memory = true;
            return;
        }
        trace->events = events;
        trace->capacity = capacity;
    }
    trace->events[trace->nevents++] = *event;
}

/* By time; a step before its own messages. */
static int compare_events(const void *left, const void *right)
{
    const struct tr_sim_event *a = left, *b = right;
    if (a->start_us != b->start_us)
        return a->start_us < b->start_us ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank - b->rank;
    if (a->kind != b->kind)
        return (int)a->kind - (int)b->kind;
    return a->step != b->step ? a->step - b->step : a->peer - b->peer;
}

/* The caller frees trace->events, also after an error. */
static enum tr_status simulate(const struct schedule_view *view, size_t element_bytes, struct trace *trace)
{
    *trace = (struct trace){0};
    enum tr_status status =
        tr_simulate(view->schedule, &view->geometry, element_bytes, &view->machine, record, trace, &trace->us);
    if (status == TR_OK && trace->out_of_memory)
        status = tr_error(TR_ERR_MEMORY, "no memory for the events of %d ranks", view->schedule->spec.nranks);
    if (status == TR_OK)
        qsort(trace->events, trace->nevents, sizeof *trace->events, compare_events);
    return status;
}

enum { ELEMENT_BYTES = 4 };

static const struct tr_step *step_of(const struct schedule_view *view, const struct tr_sim_event *event)
{
    return &view->schedule->ranks[event->rank].steps[event->step];
}

static void print_event(const struct schedule_view *view, const struct tr_sim_event *event)
{
    const struct tr_step *step = step_of(view, event);
    printf("%12.3f %12.3f  rank %-5d", event->start_us, event->end_us, event->rank);
    if (event->kind == TR_SIM_STEP)
        printf(" step %-5d piece %-4d chunk %d%s%s\n", event->step, event->piece, step->chunk,
               step->span > 1 ? ".." : "", step->final ? " final" : "");
    else
        printf(" %s rank %d\n", event->kind == TR_SIM_SEND ? "  ->" : "  <-", event->peer);
}

enum tr_status schedule_trace(const struct schedule_view *view)
{
    struct trace trace;
    enum tr_status status = simulate(view, ELEMENT_BYTES, &trace);
    if (status == TR_OK) {
        printf("# %zu bytes in %u piece%s; us from the call on: start, end; a step ends when its messages have left\n",
               view->bytes, view->geometry.npieces, view->geometry.npieces == 1 ? "" : "s");
        for (size_t i = 0; i < trace.nevents; i++)
            print_event(view, &trace.events[i]);
        printf("# total %.3f us, %.2f GB/s (algbw); simulated, not measured\n", trace.us,
               (double)view->bytes / trace.us / 1e3);
    }
    free(trace.events);
    return status;
}

static bool reduces(enum tr_collective collective)
{
    return collective == TR_ALLREDUCE || collective == TR_REDUCE_SCATTER || collective == TR_REDUCE;
}

/* What a step sends is the result: it is reduced over all ranks, or passed on from one that had it. */
static bool carries_result(const struct schedule_view *view, const struct tr_step *step)
{
    enum tr_buffer first = view->schedule->refs[step->ref].buffer;
    return !reduces(view->schedule->spec.collective) || step->final || (step->nsrc == 1 && first != TR_IN);
}

static json_t *event_json(const struct schedule_view *view, const struct tr_sim_event *event)
{
    static const char *const kinds[] = {[TR_SIM_STEP] = "step", [TR_SIM_SEND] = "send", [TR_SIM_READ] = "read"};
    const struct tr_step *step = step_of(view, event);
    return json_pack("{ss si si si si si si sb sb sf sf}", "kind", kinds[event->kind], "rank", event->rank, "step",
                     event->step, "piece", event->piece, "peer", event->peer, "chunk", step->chunk, "span", step->span,
                     "final", step->final, "result", carries_result(view, step), "start_us", event->start_us, "end_us",
                     event->end_us);
}

static json_t *trace_json(const struct schedule_view *view, const struct trace *trace)
{
    const struct tr_schedule *s = view->schedule;
    json_t *events = json_array();
    for (size_t i = 0; i < trace->nevents; i++)
        json_array_append_new(events, event_json(view, &trace->events[i]));
    return json_pack("{ss si ss ss ss si si si si sI sf so}", "schema", "treering-trace", "schema_version", 1,
                     "collective", tr_collective_name(s->spec.collective), "algorithm",
                     tr_algorithm_name(s->spec.algorithm), "protocol", tr_protocol_name(view->protocol), "nranks",
                     s->spec.nranks, "ranks_per_node", view->machine.ranks_per_node, "nchunks", s->nchunks, "npieces",
                     (int)view->geometry.npieces, "bytes", (json_int_t)view->bytes, "total_us", trace->us, "events",
                     events);
}

/* Simulate and write the JSON to `stream`. */
static enum tr_status write_trace(const struct schedule_view *view, FILE *stream)
{
    struct trace trace;
    enum tr_status status = simulate(view, ELEMENT_BYTES, &trace);
    json_t *root = status == TR_OK ? trace_json(view, &trace) : NULL;
    if (status == TR_OK && (!root || json_dumpf(root, stream, JSON_INDENT(1) | JSON_REAL_PRECISION(9))))
        status = tr_error(root ? TR_ERR_SYSTEM : TR_ERR_MEMORY, "cannot write the time line as JSON");
    json_decref(root);
    free(trace.events);
    return status;
}

enum tr_status schedule_trace_json(const struct schedule_view *view)
{
    enum tr_status status = write_trace(view, stdout);
    putchar('\n');
    return status;
}

enum tr_status schedule_draw(const struct schedule_view *view, const char *path)
{
    struct tool_script script;
    const char *const arguments[] = {path, NULL};
    enum tr_status status = tool_script_start("draw_schedule.py", arguments, &script);
    if (status != TR_OK)
        return status;
    enum tr_status written = write_trace(view, script.input);
    status = tool_script_finish(&script);
    return status != TR_OK ? status : written;
}

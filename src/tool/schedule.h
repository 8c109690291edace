/* schedule.h - `treering schedule`, and what its files share. */
#ifndef TOOL_SCHEDULE_H
#define TOOL_SCHEDULE_H

#include "model/simulate.h"
#include "tool/tool.h"

#include <stdbool.h>

tool_command tool_schedule;

/* A schedule and what it is simulated with. */
struct schedule_view {
    const char *program;
    const struct tr_schedule *schedule;
    enum tr_protocol protocol;
    struct tr_geometry geometry;
    struct tr_sim_machine machine;
    size_t bytes; /* of the vector */
};

/* schedule_dump.c: the steps, for people or as JSON, on standard output. False: memory is short. */
void schedule_dump(const struct schedule_view *view);
bool schedule_dump_json(const struct schedule_view *view);
/* "IN[3]", or "2:BOX[0]" where it is another rank's. */
enum { REF_TEXT = 40 };
const char *schedule_ref(const struct tr_ref *ref, int rank, char text[static REF_TEXT]);

/* schedule_trace.c: simulate, and write the time line, for people or as JSON, or a picture into a file. */
enum tr_status schedule_trace(const struct schedule_view *view);
enum tr_status schedule_trace_json(const struct schedule_view *view);
enum tr_status schedule_draw(const struct schedule_view *view, const char *path);

#endif

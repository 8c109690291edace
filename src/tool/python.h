/* python.h - running one of our Python scripts (src/report/), with the Python that configure found. */
#ifndef TOOL_PYTHON_H
#define TOOL_PYTHON_H

#include "treering.h"

#include <stdio.h>
#include <sys/types.h>

struct tool_script {
    FILE *input; /* the script's standard input: write here what it is to read */
    pid_t pid;
    const char *name;
};

/* Start the script `name`, such as "draw_schedule.py", with `arguments` (a NULL ends them): the one in the build folder
 * that the program stands in, else the installed one. SIGPIPE is ignored from here on: a script that ends early shows in
 * tool_script_finish(). Errors: SYSTEM (no script, no Python, no process). */
enum tr_status tool_script_start(const char *name, const char *const *arguments, struct tool_script *script);

/* Become the script, with `arguments` (a NULL ends them); its exit code is then the process's. Returns only if that fails.
 * Errors: SYSTEM. */
enum tr_status tool_script_exec(const char *name, char *const *arguments);

/* Close its input and wait for its end. Errors: SYSTEM (it failed; what it said stands on standard error). */
enum tr_status tool_script_finish(struct tool_script *script);

#endif

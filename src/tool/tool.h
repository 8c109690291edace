/*
 * tool.h - the `treering` command: one file a subcommand, a row of treering.c's table each.
 */
#ifndef TOOL_TOOL_H
#define TOOL_TOOL_H

/* Exit codes, the same as the benches' (bench/options.h). */
enum tool_exit {
    TOOL_EXIT_OK = 0,
    TOOL_EXIT_FAILED = 1, /* MPI, CUDA, a file that cannot be read or written */
    TOOL_EXIT_USAGE = 2,
    TOOL_EXIT_WRONG = 3, /* what was examined is not right */
    TOOL_EXIT_CANNOT = 4 /* this machine or launch cannot do it */
};

/* A subcommand: argv[0] is "treering NAME", then its own arguments. Returns the process's exit code. */
typedef int tool_command(int argc, char **argv);

#endif

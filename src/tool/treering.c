/* treering.c - the `treering` command: finds the subcommand. */
#include "tool/doctor.h"
#include "tool/fit.h"
#include "tool/predict.h"
#include "tool/report.h"
#include "tool/schedule.h"
#include "tool/tool.h"
#include "tool/tune.h"
#include "tool/validate.h"
#include "treering.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    tool_command *run;
} commands[] = {
    {"doctor", "what will break in this launch on this machine, and what to do", tool_doctor},
    {"fit", "alpha, beta, gamma and curves from result files, as a model", tool_fit},
    {"predict", "how long a collective takes on a machine, by each algorithm, from its model", tool_predict},
    {"report", "what was measured, as one HTML page, SVG files or Markdown", tool_report},
    {"schedule", "the steps of an algorithm, their proof, their time line and a picture of it", tool_schedule},
    {"tune", "measure this machine and launch, and write the model from which AUTO chooses", tool_tune},
    {"validate", "what a model predicts beside what was measured since", tool_validate},
};

enum { NCOMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *stream)
{
    fputs("Usage: treering COMMAND [OPTION...]\n\nCommands (treering COMMAND --help says more):\n", stream);
    for (int i = 0; i < NCOMMANDS; i++)
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].summary);
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? TOOL_EXIT_USAGE : TOOL_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("treering (Treering) %s\n", tr_version());
        return TOOL_EXIT_OK;
    }
    for (int i = 0; i < NCOMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "treering: there is no command '%s': treering --help lists them\n", argv[1]);
    return TOOL_EXIT_USAGE;
}

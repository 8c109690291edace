/* report.c - `treering report`: what was measured as one page. The script in src/report/ reads the options and does it. */
#include "tool/report.h"
#include "tool/python.h"

#include <stdio.h>

int tool_report(int argc, char **argv)
{
    (void)argc;
    tool_script_exec("report.py", argv + 1);
    fprintf(stderr, "treering report: %s\n", tr_last_error());
    return TOOL_EXIT_CANNOT;
}

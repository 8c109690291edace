/* report.h - `treering report`. */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include "tool/tool.h"

tool_command tool_report;

#endif

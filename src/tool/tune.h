/* tune.h - `treering tune`: measure a machine and launch, and write its model. */
#ifndef TOOL_TUNE_H
#define TOOL_TUNE_H

#include "tool/tool.h"

tool_command tool_tune;

#endif

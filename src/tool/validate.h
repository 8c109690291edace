/* validate.h - `treering validate`: a model's predictions beside results that it was not fitted to. */
#ifndef TOOL_VALIDATE_H
#define TOOL_VALIDATE_H

#include "tool/tool.h"

tool_command tool_validate;

#endif

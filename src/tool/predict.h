/* predict.h - `treering predict`. */
#ifndef TOOL_PREDICT_H
#define TOOL_PREDICT_H

#include "tool/tool.h"

tool_command tool_predict;

#endif

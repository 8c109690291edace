/* doctor.h - `treering doctor`. */
#ifndef TOOL_DOCTOR_H
#define TOOL_DOCTOR_H

#include "tool/tool.h"

tool_command tool_doctor;

#endif

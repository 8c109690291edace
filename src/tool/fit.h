/* fit.h - `treering fit`: a model from results. */
#ifndef TOOL_FIT_H
#define TOOL_FIT_H

#include "model/machine.h"
#include "tool/tool.h"

tool_command tool_fit;

/* fit_print.c: the model, its fits beside theory, and where one algorithm gives way to another, on standard output. */
void fit_print(const struct tr_model *model, const struct tr_priced *priced, int npriced);

#endif

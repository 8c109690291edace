/* points.h - measured points beside what a model says of them; for `treering fit` and `treering validate`. */
#ifndef TOOL_POINTS_H
#define TOOL_POINTS_H

#include "model/machine.h"

/* What the model's parameters say of a point, us; NAN: its protocol has none. */
double points_predict(const struct tr_model *model, const struct tr_priced *priced);

/* Whether a curve is for the way to run that a point was measured with. */
bool points_belongs(const struct tr_curve *curve, const struct tr_priced *priced);

/* "registered" or "plain". */
const char *points_buffers(bool registered);

/* On standard output, by collective and buffers: how many points are predicted within 25%, and the worst; the parameters'
 * for the best number of channels of each point. */
void points_print_errors(const struct tr_model *model, const struct tr_priced *priced, int npriced);

#endif

/* choice.h - which way to run a collective is the fastest at each size, by the curves of a model. */
#ifndef TR_CHOICE_H
#define TR_CHOICE_H

#include "model/model.h"

struct tr_chooser;

/* Make a chooser from curves, which are copied. Errors: MEMORY. The caller frees it with tr_chooser_free(). */
enum tr_status tr_chooser_create(const struct tr_curve *curves, int ncurves, struct tr_chooser **chooser);
void tr_chooser_free(struct tr_chooser *chooser); /* NULL is allowed */

/* Fill in the fields of `tuning` that are AUTO or 0, by the least predicted time among the curves that agree with the
 * others. False, and nothing is changed, where no curve does. `bytes`: of the whole vector. */
bool tr_chooser_pick(const struct tr_chooser *chooser, enum tr_collective collective, size_t bytes, bool registered,
                     struct tr_tuning *tuning);

/* One row of what was chosen, for people: up to `max_bytes` (SIZE_MAX: without end). */
struct tr_choice {
    size_t max_bytes;
    const struct tr_curve *curve; /* the chooser's */
};

/* The rows for one collective, by size; `rows` is the chooser's. 0: no curve is for it. */
int tr_chooser_rows(const struct tr_chooser *chooser, enum tr_collective collective, bool registered,
                    const struct tr_choice **rows);

#endif

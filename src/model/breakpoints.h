/* breakpoints.h - where one line T(m) = alpha + m / beta ends and the next begins. */
#ifndef TR_BREAKPOINTS_H
#define TR_BREAKPOINTS_H

#include "model/line.h"

/* Points first .. first + npoints - 1, and their line. */
struct tr_piece {
    int first, npoints;
    struct tr_line line;
};

/* Cut points that are sorted by size, of at least 3 sizes, into 1 to TR_FIT_MAX_SEGMENTS pieces. Errors: MEMORY. */
enum tr_status tr_breakpoints_find(const struct tr_fit_point *points, int n,
                                   struct tr_piece pieces[static TR_FIT_MAX_SEGMENTS], int *npieces);

#endif

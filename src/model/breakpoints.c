/* breakpoints.c - cut a curve into lines: the line of every possible piece, and the best of all cuts (segmentation.c). */
#include "model/breakpoints.h"
#include "collectives/error.h"
#include "model/segmentation.h"

#include <math.h>
#include <stdlib.h>

/* Different sizes in a piece: two would fit any line. Where there are points enough to tell, the last may have as few: a
 * sweep often ends soon after the vectors have outgrown a cache. */
enum { LEAST_SIZES = 3, LEAST_LAST_SIZES = 2, ENOUGH_POINTS = 15 };
_Static_assert((int)TR_FIT_MAX_SEGMENTS <= (int)TR_MAX_PIECES, "a curve's pieces are cut by segmentation.c");

/* Places where a piece may begin: place[i] is the index of the first point of a size; the last is n. */
struct places {
    int place[TR_MAX_PLACES + 1];
    int n;
};

static int count_sizes(const struct tr_fit_point *points, int n)
{
    int sizes = n > 0;
    for (int i = 1; i < n; i++)
        sizes += points[i].bytes != points[i - 1].bytes;
    return sizes;
}

/* Every size, evenly fewer where there are more than places. */
static struct places find_places(const struct tr_fit_point *points, int n)
{
    struct places places = {.n = 0};
    int stride = (count_sizes(points, n) + TR_MAX_PLACES - 1) / TR_MAX_PLACES, size = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && points[i].bytes == points[i - 1].bytes)
            continue;
        if (size++ % stride == 0)
            places.place[places.n++] = i;
    }
    places.place[places.n] = n;
    return places;
}

static void fit_lines(const struct tr_fit_point *points, const struct places *p, struct tr_weighted *scratch,
                      struct tr_line *lines, double *loss)
{
    for (int from = 0; from < p->n; from++)
        for (int to = from + 1; to <= p->n; to++) {
            const struct tr_fit_point *first = &points[p->place[from]];
            int n = p->place[to] - p->place[from], at = from * (p->n + 1) + to;
            loss[at] = INFINITY;
            bool may_be_short = from > 0 && to == p->n && p->place[p->n] >= ENOUGH_POINTS;
            if (count_sizes(first, n) < (may_be_short ? LEAST_LAST_SIZES : LEAST_SIZES))
                continue;
            lines[at] = tr_line_fit(first, n, scratch);
            loss[at] = lines[at].loss;
        }
}

enum tr_status tr_breakpoints_find(const struct tr_fit_point *points, int n,
                                   struct tr_piece pieces[static TR_FIT_MAX_SEGMENTS], int *npieces)
{
    struct places p = find_places(points, n);
    size_t room = (size_t)(p.n + 1) * (size_t)(p.n + 1);
    enum tr_status status = TR_OK;
    struct tr_weighted *scratch = calloc((size_t)n, sizeof *scratch);
    struct tr_line *lines = calloc(room, sizeof *lines);
    double *loss = calloc(room, sizeof *loss);
    if (!scratch || !lines || !loss) {
        status = tr_error(TR_ERR_MEMORY, "no memory to fit %d points: fit fewer", n);
        goto free_buffers;
    }
    fit_lines(points, &p, scratch, lines, loss);
    const struct tr_segmentation cut = {loss, p.n, n, 2, TR_FIT_MAX_SEGMENTS};
    int places[TR_MAX_PIECES + 1], k = tr_segmentation_cut(&cut, places);
    for (int i = 0; i < k; i++) {
        int first = p.place[places[i]], end = p.place[places[i + 1]];
        pieces[i] = (struct tr_piece){first, end - first, lines[places[i] * (p.n + 1) + places[i + 1]]};
    }
    *npieces = k;
free_buffers:
    free(loss);
    free(lines);
    free(scratch);
    return status;
}

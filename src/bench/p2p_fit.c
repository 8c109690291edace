/* p2p_fit.c - T(m) = alpha + m / beta of a pair's transfers in a row. */
#include "bench/p2p_fit.h"

#include "bench/fail.h"
#include "bench/p2p_method.h"

#include <stdlib.h>

/* The samples of a method's one-way tests to `to`; how many. */
static int collect(const struct p2p *p2p, const struct p2p_method *method, int to, const double *samples,
                   struct tr_fit_point *points)
{
    int n = 0;
    for (int t = 0; t < p2p->ntests; t++) {
        const struct p2p_test *test = &p2p->tests[t];
        size_t at = (size_t)(to * p2p->ntests + t);
        if (test->method != method || test->kind != P2P_ONE_WAY || p2p->results[at].state != P2P_MEASURED)
            continue;
        for (int s = 0; s < p2p->rounds; s++)
            points[n++] = (struct tr_fit_point){.bytes = (double)test->bytes,
                                                .us = samples[at * (size_t)p2p->options.rounds + (size_t)s]};
    }
    return n;
}

static struct p2p_fit summary_of(const struct tr_fit *fit)
{
    return (struct p2p_fit){.fitted = true,
                            .alpha_us = fit->segments[0].alpha_us,
                            .beta_gbps = fit->segments[fit->nsegments - 1].beta_gbps,
                            .npieces = fit->nsegments,
                            .median_residual = fit->median_residual,
                            .largest_residual = fit->largest_residual};
}

void p2p_fit_all(struct p2p *p2p, const double *samples)
{
    struct tr_fit_point *points = malloc((size_t)p2p->ntests * (size_t)p2p->rounds * sizeof *points);
    if (!points)
        bench_die(&p2p->bench, "no memory to fit %d tests", p2p->ntests);
    for (int to = 0; to < p2p->nranks; to++)
        for (int m = 0; m < p2p->nmethods && to != p2p->rank; m++) {
            struct tr_fit fit;
            int n = collect(p2p, &p2p_methods[p2p->methods[m]], to, samples, points);
            if (n > 0 && tr_fit_curve(points, n, p2p->options.seed, &fit) == TR_OK)
                p2p->fits[to * p2p->nmethods + m] = summary_of(&fit);
        }
    free(points);
}

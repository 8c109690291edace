/*
 * p2p_outlier.h - which of several like things is slower than the rest, by a robust test.
 *
 * The modified z-score of Iglewicz and Hoaglin ("How to Detect and Handle Outliers", ASQC 1993): 0.6745 (x - median) / MAD,
 * MAD the median of |x - median|; past 3.5 it marks an outlier. Where more than half of the values are equal MAD is 0, and
 * the mean of |x - median| takes its place: (x - median) / (1.2533 x mean). Only slow ones are marked, and only where the
 * difference matters: the low end of the interval of x is more than 5% past the median.
 */
#ifndef BENCH_P2P_OUTLIER_H
#define BENCH_P2P_OUTLIER_H

#include <stdbool.h>

#define P2P_OUTLIER_SCORE 3.5
#define P2P_OUTLIER_SHARE 0.05
enum { P2P_OUTLIER_LEAST = 5 }; /* with fewer values none can be told from the rest */

struct p2p_value {
    double x;   /* a time: more is slower */
    double low; /* the low end of its interval */
    bool outlier;
    double score;
};

/* Sets outlier and score; false, and none marked, if there are too few values or memory lacks. */
bool p2p_find_outliers(struct p2p_value *values, int n);

#endif

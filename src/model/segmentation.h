/* segmentation.h - cut a row of places into pieces: how many, and where, from the loss of every possible piece. */
#ifndef TR_SEGMENTATION_H
#define TR_SEGMENTATION_H

#include "treering.h"

enum { TR_MAX_PIECES = 6, TR_MAX_PLACES = 64 };

struct tr_segmentation {
    const double
        *loss;   /* [from * (nplaces + 1) + to]: sum of relative deviations in places from .. to - 1; INFINITY: none */
    int nplaces; /* 1 .. TR_MAX_PLACES */
    int n;       /* points in all places together */
    int terms;   /* coefficients that a piece has */
    int most;    /* pieces, <= TR_MAX_PIECES */
};

/* Write the first place of each piece, and the end; returns how many pieces there are. */
int tr_segmentation_cut(const struct tr_segmentation *segmentation, int places[static TR_MAX_PIECES + 1]);

#endif

/* sendrecv.c - one message from rank 0 to rank 1 of a schedule of two: what tr_send() and tr_recv() run. */
#include "collectives/schedule.h"

void tr_sendrecv(struct tr_schedule *s)
{
    struct tr_ref in = {0, TR_IN, 0}, box = {1, TR_BOX, 0}, out = {1, TR_OUT, 0};
    s->nchunks = 1;
    s->depth = s->spec.unique || s->spec.remote ? 1 : 2;
    if (s->spec.remote) {
        tr_emit_copy(s, 0, 0, in, out);
        return;
    }
    tr_emit_copy(s, 0, 0, in, box);
    tr_emit_copy(s, 1, 0, box, out);
}

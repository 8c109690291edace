/*
 * check.h - the proof of a plan.
 *
 * The plan is unrolled for a number of pieces and run once, symbolically: every location holds the set of ranks whose
 * contribution it contains. Beside the run goes a vector clock for every rank. If every two conflicting accesses are
 * ordered by the waits (no data race), then every other interleaving gives the same result, so the one run proves all of
 * them; if the waits form no cycle, none of them deadlocks. Checked:
 * - each output chunk holds each contribution exactly once, of the right chunk and piece, and a final step made it;
 * - every wait has its signal, and all ranks reach their exit;
 * - no mailbox slot or user buffer is overwritten before its last reader, out of place and in place;
 * - every rank's exit follows every rank's entry (what the alternating mailboxes rely on), and the last access to a
 *   user buffer;
 * - no step touches a slot or chunk outside its buffer, and nobody writes IN.
 */
#ifndef TR_CHECK_H
#define TR_CHECK_H

#include "collectives/plan.h"

/* TR_OK if the plan is right for 1 .. enough pieces to see every pattern of overlap (LL: one piece), in place and not.
 * Otherwise TR_ERR_ARGUMENT, and tr_last_error() says which rank, step and chunk is wrong, and how. Up to 64 ranks. */
enum tr_status tr_check_plan(const struct tr_plan *plan);

/* Build, derive and check one schedule. */
enum tr_status tr_check_spec(const struct tr_schedule_spec *spec, enum tr_protocol protocol);

#endif

/* pricing.h - what predict and schedule share: names and numbers on the command line, and a model as a machine. */
#ifndef TOOL_PRICING_H
#define TOOL_PRICING_H

#include "model/model.h"
#include "model/simulate.h"

#include <argp.h>

/* Record in argp's way what is wrong with an option; EINVAL, for a parser to return. */
error_t pricing_refuse(struct argp_state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "allreduce" and the like. False: no such collective; `list` then has the names. */
bool pricing_collective(const char *name, enum tr_collective *collective, char list[static 128]);
bool pricing_whole(const char *text, int least, int most, int *value);
/* A number above 0 (or, where `zero` may be, from 0), "inf" included. */
bool pricing_number(const char *text, bool zero, double *value);

/* How a vector is cut for `layout`: for LL protocols in one piece, else as the executors do, with the channels and slots of
 * a long call: 32 x 64 KiB on GPUs, 1 x 256 KiB between CPU ranks. `bytes`: of the whole vector, in floats, cut down to
 * what all ranks have alike. */
struct tr_geometry pricing_cut(const struct tr_layout *layout, enum tr_collective collective, enum tr_memory memory,
                               enum tr_protocol protocol, size_t bytes);
enum { PRICING_ELEMENT_BYTES = 4 };

/* Whether a message fits into its slot, as it must under LL protocols. */
bool pricing_fits(const struct tr_geometry *geometry, enum tr_memory memory, enum tr_protocol protocol);

/* What the model says of `nranks` ranks, `ranks_per_node` a node, under a protocol and for a vector of `bytes`. LL sends 8
 * of 16 bytes as data and LL128 120 of 128, so that much of a link between nodes is theirs. Errors: UNSUPPORTED (the model
 * knows nothing of several nodes, or of the protocol). */
enum tr_status pricing_machine(const struct tr_model *model, const char *path, enum tr_protocol protocol, double bytes,
                               int nranks, int ranks_per_node, struct tr_sim_machine *machine);

/* The exit code for an error, whose sentence has been written. */
int pricing_fail(const char *program, enum tr_status status);

#endif

/*
 * machine.h - one alpha, beta, gamma, overhead and launch cost of a machine, fitted to all algorithms at once.
 *
 * Every point that one of our algorithms was measured at is priced by its schedule (cost.h); the parameters of a protocol
 * are those with which the prices come nearest to the times, by least absolute relative deviations, none negative. Where
 * caches make small vectors cheaper than large ones, there are several ranges of sizes. Where an algorithm was measured
 * with several numbers of channels, the fastest at each size counts: that is how it would be run.
 */
#ifndef TR_MACHINE_H
#define TR_MACHINE_H

#include "model/cost.h"
#include "model/model.h"
#include "model/result_file.h"

/* A measured point of one of our algorithms, and what its schedule costs. */
struct tr_priced {
    enum tr_collective collective;
    bool registered;
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    int channels;       /* that ran */
    int fixed_channels; /* that were asked for; 0: chosen for each size */
    bool best;          /* no other number of channels was faster at this size */
    double bytes, us;
    struct tr_cost cost;
};

/* Price all measured points of our algorithms in `nfiles` files, which must be of one machine and launch. The caller frees
 * `priced`. Errors: ARGUMENT (several machines), MEMORY, and those of tr_workload_cost(). */
enum tr_status tr_machine_price(struct tr_result_file *const files[], int nfiles, struct tr_priced **priced,
                                int *npriced);

/* Fit them; the caller frees `parameters`. A protocol with too few points has none. Errors: MEMORY. */
enum tr_status tr_machine_fit(const struct tr_priced *priced, int npriced, unsigned seed,
                              struct tr_parameters **parameters, int *nparameters);

/* What parameters say a schedule takes, us. */
double tr_machine_predict(const struct tr_parameters *parameters, const struct tr_cost *cost);

/* Parameters and curves of result files in one model, which the caller frees with tr_model_free(). Curves with points of
 * fewer than 3 sizes are left out. Errors: as above. */
enum tr_status tr_machine_model(struct tr_result_file *const files[], int nfiles, const struct tr_priced *priced,
                                int npriced, unsigned seed, struct tr_model **model);

#endif

/* timing.c - one batch of calls, timed. */
#include "bench/timing.h"
#include "bench/backend.h"
#include "bench/buffers.h"
#include "bench/contender.h"
#include "bench/fail.h"

/* A failure of the backend is this rank's alone. */
static void must(struct bench *bench, bool good)
{
    if (!good)
        bench_die(bench, "%s", bench->backend->error());
}

/* A batch, ready to run. */
struct batch {
    struct bench *bench;
    const struct timing_call *call;
    struct buffers_pointers at;
    int iterations;
    void *graph;  /* NULL: calls are made one by one */
    int launches; /* of the graph */
};

static size_t element_bytes(const struct timing_call *call)
{
    return tr_datatype_size(call->datatype);
}

static enum tr_status call_at(struct bench *bench, const struct timing_call *call, struct buffers_pointers at,
                              size_t count)
{
    return bench->collective->call(at.send, at.recv, count, call->datatype, call->op, bench->comm,
                                   bench->backend->stream());
}

static struct buffers_pointers pointers(const struct bench *bench, const struct timing_call *call, bool checked)
{
    return buffers_of(bench, call->contender, call->shape, element_bytes(call), checked);
}

enum tr_status timing_call_once(struct bench *bench, const struct timing_call *call)
{
    enum tr_status status = contender_choose(bench, call->contender);
    if (status == TR_OK)
        status = call_at(bench, call, pointers(bench, call, false), call->shape->count);
    must(bench, bench->backend->wait());
    return status ? status : tr_comm_async_error(bench->comm);
}

/* All calls of a batch. */
static enum tr_status make_calls(const struct batch *batch)
{
    enum tr_status status = TR_OK;
    for (int i = 0; i < batch->iterations && status == TR_OK; i++) {
        status = call_at(batch->bench, batch->call, batch->at, batch->call->shape->count);
        if (batch->bench->options.blocking)
            must(batch->bench, batch->bench->backend->wait());
    }
    return status;
}

static enum tr_status launch_graph(const struct batch *batch)
{
    for (int i = 0; i < batch->launches; i++)
        must(batch->bench, batch->bench->backend->graph_launch(batch->graph));
    return TR_OK;
}

static enum tr_status capture(struct batch *batch)
{
    const struct bench_backend *backend = batch->bench->backend;
    must(batch->bench, backend->capture_start());
    enum tr_status status = make_calls(batch);
    must(batch->bench, backend->capture_stop(&batch->graph));
    return status;
}

/* The same outside the clock: caches are warm, a graph is on the device, and the ranks leave it together. Where calls
 * consume their input, not in the buffers that are checked (a graph runs there before they are written anew). */
static enum tr_status warm_up(const struct batch *batch)
{
    if (!batch->graph)
        return call_at(batch->bench, batch->call, pointers(batch->bench, batch->call, false),
                       batch->call->shape->count);
    must(batch->bench, batch->bench->backend->graph_launch(batch->graph));
    return TR_OK;
}

/* A short call of the same contender, in the same place: the ranks leave it together. */
static enum tr_status meet(struct bench *bench, const struct timing_call *call)
{
    must(bench, bench->backend->wait());
    MPI_Barrier(MPI_COMM_WORLD);
    return call_at(bench, call, pointers(bench, call, false), call->shape->count ? 1 : 0);
}

/* Write the input of an in-place call where the checked batch works. */
static void renew_input(struct bench *bench, const struct timing_call *call, const struct pattern *check)
{
    size_t bytes =
        (call->shape->send > call->shape->recv ? call->shape->send : call->shape->recv) * element_bytes(call);
    void *base = bench->buffers[call->contender->memory].recv;
    must(bench, bench->backend->poison(base, bytes));
    must(bench, bench->backend->fill(check, bench->rank, pointers(bench, call, true).send, call->shape->send));
}

/* Poison the output (what a short call wrote into it, too); then all ranks start together. */
static enum tr_status prepare_check(struct bench *bench, const struct timing_call *call, const struct pattern *check)
{
    if (bench->options.in_place) {
        renew_input(bench, call, check);
        return meet(bench, call);
    }
    void *output = pointers(bench, call, true).recv;
    must(bench, bench->backend->poison(output, call->shape->recv * element_bytes(call)));
    enum tr_status status = meet(bench, call);
    size_t touched = call->shape->recv < (size_t)bench->nranks ? call->shape->recv : (size_t)bench->nranks;
    must(bench, bench->backend->poison(output, touched * element_bytes(call)));
    return status;
}

static enum tr_status run(const struct batch *batch)
{
    return batch->graph ? launch_graph(batch) : make_calls(batch);
}

/* The clock around the batch. */
static enum tr_status timed(const struct batch *batch, struct timing_sample *sample)
{
    struct bench *bench = batch->bench;
    bool one_device = bench->info.ranks_on_device == bench->nranks;
    must(bench, bench->backend->enter());
    must(bench, bench->backend->clock_start());
    enum tr_status status = run(batch);
    must(bench, bench->backend->clock_stop(&sample->seconds));
    must(bench, bench->backend->entered(one_device, &sample->entry_ns, &sample->entry_uncertainty_ns));
    sample->seconds /= (double)batch->iterations * batch->launches;
    return status ? status : tr_comm_async_error(bench->comm);
}

/* Everything before the clock. */
static enum tr_status prepare(struct batch *batch, const struct pattern *check)
{
    struct bench *bench = batch->bench;
    enum tr_status status = contender_choose(bench, batch->call->contender);
    if (status == TR_OK && bench->options.graph_launches)
        status = capture(batch);
    MPI_Barrier(MPI_COMM_WORLD);
    if (status == TR_OK)
        status = warm_up(batch);
    if (status == TR_OK && check)
        status = prepare_check(bench, batch->call, check);
    return status;
}

bool timing_verifies_singly(const struct bench *bench)
{
    return bench->options.checks && bench->options.in_place && bench->collective->in_place_consumes;
}

enum {
    MOST_ITERATIONS = 1000,
    MOST_CAPTURED = 100 /* calls in a graph, unless -n says otherwise */
};
int timing_fit(const struct bench *bench, double batch_s, double seconds)
{
    int most = bench->options.graph_launches ? MOST_CAPTURED : MOST_ITERATIONS;
    double fitting = batch_s / (seconds + 1e-9);
    return fitting < 1 ? 1 : fitting > most ? most : (int)fitting;
}

int timing_iterations(const struct bench *bench, double seconds)
{
    static const double batch_s = 1e-3, oversubscribed_batch_s = 15e-3;
    if (bench->options.iterations)
        return bench->options.iterations;
    return timing_fit(bench, bench->oversubscribed ? oversubscribed_batch_s : batch_s, seconds);
}

enum tr_status timing_batch(struct bench *bench, const struct timing_call *call, int iterations,
                            const struct pattern *check, struct timing_sample *sample)
{
    bool single = check && timing_verifies_singly(bench);
    bool graph = bench->options.graph_launches > 0;
    struct batch batch = {.bench = bench,
                          .call = call,
                          .at = pointers(bench, call, check != NULL),
                          .iterations = single ? 1 : iterations,
                          .launches = graph && !single ? bench->options.graph_launches : 1};
    *sample = (struct timing_sample){0};
    enum tr_status status = prepare(&batch, check);
    if (status == TR_OK)
        status = timed(&batch, sample);
    if (batch.graph)
        bench->backend->graph_free(batch.graph);
    if (status == TR_OK && check)
        must(bench, bench->backend->count_wrong(check, batch.at.recv, call->shape->recv, &sample->wrong));
    return status;
}

/*
 * exec_cuda.c - the executor for GPU ranks: a call is one kernel, whose thread blocks are the channels. The kernel gets the
 * rank's program with absolute addresses as its argument (cuda_lower.c), reads the call's epoch from GPU memory and
 * advances it, so that a captured CUDA graph can be replayed.
 */
#include "collectives/exec_cuda.h"

#include "collectives/error.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(TR_SUM == 0 && TR_PROD == 1 && TR_MIN == 2 && TR_MAX == 3 && TR_AVG == 4, "cuda_arithmetic.cuh");
_Static_assert(TR_PROTOCOL_LL == 1 && TR_PROTOCOL_LL128 == 2 && TR_PROTOCOL_DIRECT == 3, "cuda_kernel.cuh");

typedef const void *kernel_fn(int op, int protocol, int fan);

static kernel_fn *const kernels[TR_DATATYPE_COUNT] = {
    [TR_F64] = tr_cuda_kernel_f64,   [TR_F32] = tr_cuda_kernel_f32, [TR_F16] = tr_cuda_kernel_f16,
    [TR_BF16] = tr_cuda_kernel_bf16, [TR_I64] = tr_cuda_kernel_i64, [TR_I32] = tr_cuda_kernel_i32,
    [TR_U8] = tr_cuda_kernel_u8,
};

static uint32_t max_channels(const struct tr_comm *comm)
{
    const struct tr_cuda_exec *ex = comm->exec;
    return ex->max_channels;
}

static void forget(struct tr_comm *comm, struct tr_cached_program *cached)
{
    (void)comm;
    free(cached->exec_state);
    cached->exec_state = NULL;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static size_t tile_bytes(const struct tr_call *call)
{
    return call->geometry.tile * tr_datatype_size(call->datatype);
}

/* Threads of a block: one for each packet, line lane or 16-byte vector of its tile, whole warps. */
static unsigned thread_count(const struct tr_call *call)
{
    static const size_t thread_bytes[TR_PROTOCOL_COUNT] = {[TR_PROTOCOL_LL] = TR_CUDA_LL_PAYLOAD,
                                                           [TR_PROTOCOL_LL128] = TR_CUDA_LL128_PAYLOAD / 8,
                                                           [TR_PROTOCOL_DIRECT] = 16};
    size_t threads = (tile_bytes(call) / thread_bytes[call->protocol] / 32 + 1) * 32;
    return threads < TR_CUDA_MAX_THREADS ? (unsigned)threads : TR_CUDA_MAX_THREADS;
}

/* Whether a block has enough threads to give each packet of the tile several. */
static bool fits_fan(const struct tr_call *call, const struct tr_cuda_kept *kept)
{
    return call->protocol == TR_PROTOCOL_LL && kept->blob_bytes <= TR_CUDA_SMALL_BLOB &&
           tile_bytes(call) <= TR_CUDA_MAX_THREADS / TR_CUDA_FAN_LANES * TR_CUDA_LL_PAYLOAD;
}

static unsigned fan_thread_count(const struct tr_call *call)
{
    size_t packets = (tile_bytes(call) + TR_CUDA_LL_PAYLOAD - 1) / TR_CUDA_LL_PAYLOAD;
    return (unsigned)(packets * TR_CUDA_FAN_LANES + 31) / 32 * 32;
}

/* Calls on one communicator run one after the other even when the user changes streams. A captured call is ordered by the
 * graph that it becomes part of. */
static enum tr_status order_streams(struct tr_cuda_exec *ex, cudaStream_t stream)
{
    if (ex->has_last && ex->last_stream == stream)
        return TR_OK;
    enum cudaStreamCaptureStatus capture;
    cudaError_t error = cudaStreamIsCapturing(stream, &capture);
    if (error == cudaSuccess && capture != cudaStreamCaptureStatusNone)
        return TR_OK;
    if (error == cudaSuccess && ex->has_last)
        error = cudaEventRecord(ex->order, ex->last_stream);
    if (error == cudaSuccess && ex->has_last)
        error = cudaStreamWaitEvent(stream, ex->order, 0);
    ex->last_stream = stream;
    ex->has_last = true;
    return tr_cuda_status(error, "ordering a call after the last one's stream");
}

/* Whether this call's blocks may come in while the last call's still run: blocks of all ranks on a GPU must be resident
 * together, and early ones could take the place that another rank's running call needs. */
static bool may_overlap(const struct tr_cuda_exec *ex, uint32_t channels)
{
    return ex->overlaps_launches && (channels + ex->last_channels) * ex->fullest <= (uint32_t)ex->multiprocessors;
}

static enum tr_status launch(struct tr_comm *comm, const struct tr_call *call, void *args, size_t shared_bytes,
                             bool fan)
{
    struct tr_cuda_exec *ex = comm->exec;
    uint32_t channels = call->geometry.channels;
    cudaLaunchAttribute overlap = {.id = cudaLaunchAttributeProgrammaticStreamSerialization};
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {
        .gridDim = {channels, 1, 1},
        .blockDim = {fan ? fan_thread_count(call) : thread_count(call), 1, 1},
        .dynamicSmemBytes = shared_bytes,
        .stream = call->stream,
        .attrs = &overlap,
        .numAttrs = may_overlap(ex, channels),
    };
    ex->last_channels = channels;
    const void *kernel = kernels[call->datatype]((int)call->op, (int)call->protocol, fan);
    return tr_cuda_status(cudaLaunchKernelExC(&config, kernel, (void *[]){args}), "launching a collective");
}

static enum tr_status async_error(struct tr_comm *comm)
{
    const struct tr_cuda_exec *ex = comm->exec;
    const volatile struct tr_cuda_report *report = ex->report;
    cudaError_t error = cudaPeekAtLastError();
    if (report->reason == TR_CUDA_TIMEOUT)
        return tr_error(
            TR_ERR_TIMEOUT,
            "%s, call %u of the communicator: waited %g s for rank %u; look for a rank that has ended or makes "
            "other calls, or raise TREERING_TIMEOUT",
            tr_collective_name((enum tr_collective)report->collective), report->epoch, comm->timeout_s, report->peer);
    if (report->reason == TR_CUDA_ABORTED)
        return tr_error(TR_ERR_ABORTED, "%s, call %u of the communicator: aborted, here or by a peer",
                        tr_collective_name((enum tr_collective)report->collective), report->epoch);
    return error == cudaSuccess
               ? TR_OK
               : tr_error(TR_ERR_CUDA, "the GPU reports: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
}

static enum tr_status run(struct tr_comm *comm, const struct tr_call *call)
{
    struct tr_cuda_exec *ex = comm->exec;
    if (((const volatile struct tr_cuda_report *)ex->report)->reason != TR_CUDA_FINE) {
        enum tr_status status = async_error(comm);
        tr_comm_break(comm, status);
        return status;
    }
    enum tr_status status = order_streams(ex, call->stream);
    if (status != TR_OK)
        return status;
    if (!call->cached->exec_state) {
        struct tr_cuda_kept *made;
        status = tr_cuda_keep(call->cached, &made);
        if (status != TR_OK)
            return status;
        call->cached->exec_state = made;
    }
    const struct tr_cuda_kept *kept = call->cached->exec_state;
    if (fits_fan(call, kept)) {
        struct tr_cuda_small_args args;
        tr_cuda_lower(comm, call, kept, &args.call, args.blob);
        return launch(comm, call, &args, kept->blob_bytes, true);
    }
    struct tr_cuda_large_args args;
    tr_cuda_lower(comm, call, kept, &args.call, args.blob);
    return launch(comm, call, &args, kept->blob_bytes, false);
}

static void abort_ranks(struct tr_comm *comm)
{
    struct tr_cuda_exec *ex = comm->exec;
    const uint32_t one = 1;
    size_t width = sizeof one;
    uint32_t *ones = malloc(ex->collectives.channels * width);
    if (!ones)
        return;
    for (uint32_t c = 0; c < ex->collectives.channels; c++)
        ones[c] = one;
    for (int r = 0; r < comm->size; r++) {
        char *abort_word = (char *)ex->arenas[r] + offsetof(struct tr_cuda_state, abort);
        cudaMemcpy2DAsync(abort_word, TR_CUDA_LINE, ones, width, width, ex->collectives.channels,
                          cudaMemcpyHostToDevice, ex->side);
    }
    cudaStreamSynchronize(ex->side);
    free(ones);
}

/* ---- Registered memory ------------------------------------------------------------------------------------------- */

static void mem_release(struct tr_comm *comm, struct tr_registration *registration)
{
    struct tr_cuda_exec *ex = comm->exec;
    if (registration->exec_state)
        tr_cuda_withdraw(comm, &ex->mappings, registration->exec_state);
    free(registration->exec_state);
    free(registration->peer);
    if (registration->owned)
        cudaFree(registration->base);
}

/* Share [base, base + bytes) and fill the registration. Collective. */
static enum tr_status share(struct tr_comm *comm, void *base, size_t bytes, struct tr_registration *registration)
{
    struct tr_cuda_exec *ex = comm->exec;
    void **peers = calloc((size_t)comm->size, sizeof *peers);
    struct tr_cuda_share *shares = calloc((size_t)comm->size, sizeof *shares);
    enum tr_status status = peers && shares ? TR_OK : tr_error(TR_ERR_MEMORY, "no memory to register memory");
    status = tr_comm_agree(comm, status);
    if (status == TR_OK)
        status = tr_cuda_exchange(comm, &ex->mappings, base, shares, peers);
    if (status != TR_OK) {
        free(peers);
        free(shares);
        return status;
    }
    registration->base = base;
    registration->bytes = bytes;
    registration->peer = peers;
    registration->exec_state = shares;
    return TR_OK;
}

static enum tr_status mem_alloc(struct tr_comm *comm, size_t bytes, struct tr_registration *registration)
{
    void *base = NULL;
    enum tr_status status = tr_comm_agree(comm, tr_cuda_status(cudaMalloc(&base, bytes), "tr_mem_alloc"));
    if (status == TR_OK)
        status = share(comm, base, bytes, registration);
    if (status != TR_OK) {
        cudaFree(base);
        return status;
    }
    registration->owned = true;
    return TR_OK;
}

static enum tr_status mem_register(struct tr_comm *comm, void *ptr, size_t bytes, struct tr_registration *registration)
{
    return share(comm, ptr, bytes, registration);
}

static const struct tr_executor executor = {
    .name = "cuda",
    .create = tr_cuda_create,
    .destroy = tr_cuda_destroy,
    .run = run,
    .slot_capacity = tr_cuda_slot_capacity,
    .max_channels = max_channels,
    .mem_alloc = mem_alloc,
    .mem_register = mem_register,
    .mem_release = mem_release,
    .forget = forget,
    .async_error = async_error,
    .abort = abort_ranks,
};

const struct tr_executor *tr_exec_cuda(void)
{
    return &executor;
}

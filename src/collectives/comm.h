/*
 * comm.h - the communicator, and the seam between the calls and the executors.
 *
 * A call goes: collectives.c checks its arguments, select.c resolves AUTO, cache.c gives the program, geometry.c cuts the
 * vector, and the communicator's executor runs it. The executors are exec_host.c (one process a rank, shared memory) and
 * exec_cuda.c (one kernel, CUDA IPC).
 */
#ifndef TR_COMM_H
#define TR_COMM_H

#include "collectives/plan.h"

#include <sched.h>
#include <stdint.h>

/*
 * How a vector is cut (all in elements):
 *
 *     chunk c    = [c * stride, min((c + 1) * stride, total))
 *     tile (p,b) = the part [(p * channels + b) * tile, ... + tile) of every chunk: piece p, channel b
 *
 * A step of piece p on channel b works on tile (p,b) of its chunk: offset index * stride + (p * channels + b) * tile into
 * IN and OUT, offset 0 of a BOX slot. Tiles past a chunk's end are empty; their steps still wait and signal.
 */
struct tr_geometry {
    size_t total;
    size_t stride;
    size_t tile;
    uint32_t npieces;
    uint32_t channels;
};

/* Elements in the tile of piece p, channel b of chunk c. */
static inline size_t tr_tile_length(const struct tr_geometry *g, size_t chunk, size_t piece, size_t channel)
{
    size_t start = (piece * g->channels + channel) * g->tile;
    size_t chunk_start = chunk * g->stride;
    size_t chunk_length = chunk_start >= g->total ? 0 : g->total - chunk_start;
    if (chunk_length > g->stride)
        chunk_length = g->stride;
    if (start >= chunk_length)
        return 0;
    return chunk_length - start < g->tile ? chunk_length - start : g->tile;
}

/* Memory that all ranks can map. peer[r] is where this process sees rank r's `base`. */
struct tr_registration {
    void *base;
    size_t bytes;
    void **peer;
    bool owned;       /* tr_mem_alloc() rather than tr_mem_register() */
    void *exec_state; /* the executor's */
    struct tr_registration *next;
};

/* Mailboxes and flags come in domains: one for the collectives, one for each ordered pair of tr_send/tr_recv. In a pair's
 * programs rank 0 is the sender, rank 1 the receiver. */
struct tr_domain {
    int sender, receiver; /* both -1: the collectives' */
};

/* One call, ready to run. */
struct tr_call {
    enum tr_collective collective;
    enum tr_protocol protocol; /* resolved */
    enum tr_datatype datatype;
    enum tr_op op;
    const void *in; /* may be NULL where the rank has no part in it */
    void *out;
    /* When program->remote: where the buffers that hold the whole vector are registered, with the offset. Others touch
     * only these: both in an all-reduce, IN in a reduce-scatter or reduce, OUT in an all-gather or broadcast. The other
     * buffer is this rank's own business, its registration NULL. Not remote: both NULL. */
    const struct tr_registration *in_registration;
    const struct tr_registration *out_registration;
    size_t in_offset, out_offset; /* bytes from the registration's base, the same on every rank */
    struct tr_geometry geometry;
    struct tr_domain domain;
    const struct tr_program *program;
    struct tr_cached_program *cached; /* where the executor keeps what belongs to the program */
    void *stream;
};

/* What decides how a call runs, and below it what was found for it. */
struct tr_shape {
    enum tr_collective collective;
    size_t count, element_bytes;
    int root;        /* the peer in a send or receive */
    int rank;        /* of the schedule: 0 or 1 in a send or receive */
    int nranks;      /* of the schedule; 0: nothing here yet */
    bool registered; /* the buffers that hold the whole vector are, on every rank */
    struct tr_domain domain;

    struct tr_tuning tuning;          /* AUTO resolved */
    struct tr_cached_program *cached; /* NULL: NCCL's or MPI's call */
    struct tr_geometry geometry;
};

/* A program in the cache; `exec_state` is the executor's (a copy in GPU memory, say), freed through forget(). */
struct tr_cached_program {
    struct tr_schedule_spec spec;
    enum tr_protocol protocol; /* LL or DIRECT */
    struct tr_program *program;
    void *exec_state;
    struct tr_cached_program *next;
};

struct tr_comm;

/* What an executor does. All functions record a sentence when they fail. */
struct tr_executor {
    const char *name;
    enum tr_status (*create)(struct tr_comm *comm);                          /* collective; sets comm->exec */
    void (*destroy)(struct tr_comm *comm);                                   /* safe after a failed create */
    enum tr_status (*run)(struct tr_comm *comm, const struct tr_call *call); /* host: done; GPU: enqueued */
    /* Payload bytes that one mailbox slot holds when `slots` slots (x depth) share a channel's mailbox, `channels`
     * channels are in use; 0: the protocol is not available. A multiple of 16, or 0. */
    size_t (*slot_capacity)(const struct tr_comm *comm, enum tr_protocol protocol, const struct tr_domain *domain,
                            uint32_t channels, size_t slots);
    uint32_t (*max_channels)(const struct tr_comm *comm);
    /* Whether steps of a call that moves `bytes` in all may touch unregistered buffers of other ranks, because the
     * executor reaches them all the same. The same on every rank; NULL: never. */
    bool (*reaches_private)(const struct tr_comm *comm, enum tr_collective collective, size_t bytes);
    enum tr_status (*mem_alloc)(struct tr_comm *comm, size_t bytes, struct tr_registration *registration);
    enum tr_status (*mem_register)(struct tr_comm *comm, void *ptr, size_t bytes, struct tr_registration *registration);
    void (*mem_release)(struct tr_comm *comm, struct tr_registration *registration); /* undoes either */
    void (*forget)(struct tr_comm *comm, struct tr_cached_program *cached);
    enum tr_status (*async_error)(struct tr_comm *comm); /* with its sentence; never blocks */
    void (*abort)(struct tr_comm *comm);
};

extern const struct tr_executor tr_exec_host;
/* The CUDA executor, or NULL in a build without CUDA (cuda_none.c). */
const struct tr_executor *tr_exec_cuda(void);
/* GPUs that this process sees; 0 without CUDA. Never fails. */
int tr_cuda_device_count(void);
/* GPU memory that a communicator of `ranks` ranks takes on each of them; 0 without CUDA. */
size_t tr_cuda_arena_bytes(int ranks);

struct tr_chooser; /* model/choice.h */
struct tr_machine; /* model/model.h */
struct tr_nccl;    /* nccl.c, or nccl_none.c in a build without NCCL */

struct tr_comm {
    int rank, size;
    MPI_Comm mpi; /* a duplicate, the library's own */
    struct tr_config config;
    double timeout_s;
    enum tr_memory memory;
    const struct tr_executor *executor;
    void *exec; /* the executor's state */
    struct tr_tuning tuning;
    struct tr_shape recent[TR_COLLECTIVE_COUNT]; /* of the last call of each, under the present tuning */
    struct tr_cached_program *programs;
    struct tr_registration *registrations;
    struct tr_nccl *nccl;       /* NULL: not up */
    struct tr_chooser *chooser; /* of the machine's model; NULL: the built-in table */
    struct tr_comm_info info;
    enum tr_status broken; /* not TR_OK after a timeout or an abort: every later call returns it */
};

/* comm.c: agree on a status over ranks. Collective. TR_OK if every rank passed TR_OK; else every rank gets the status of
 * the first rank that failed, with its sentence. Waits no longer than the timeout; a broken communicator agrees at once. */
enum tr_status tr_comm_agree(struct tr_comm *comm, enum tr_status status);
/* comm.c: gather `bytes` of every rank into all[size * bytes] on each. Collective, with the same deadline. */
enum tr_status tr_comm_gather(struct tr_comm *comm, const void *mine, void *all, size_t bytes);
/* comm.c: wait until `n` (at most 2) MPI requests of the communicator are complete, with the same deadline. */
enum tr_status tr_comm_wait(struct tr_comm *comm, int n, MPI_Request *requests, const char *what);
/* comm.c: remember that the communicator cannot be used any more; later calls return `status`. */
void tr_comm_break(struct tr_comm *comm, enum tr_status status);
/* CLOCK_MONOTONIC, seconds. */
double tr_seconds(void);
/* comm.c: what is equal on two ranks that can share memory: TREERING_HOST_ID, else host name and boot id. */
void tr_describe_place(char *place, size_t bytes, const char *host);

/* cache.c: whether ranks may touch each other's `buffer` (IN or OUT) in a registered call: where it holds the whole vector on
 * every rank and so has one place that all know. The rest (the OUT of a reduce-scatter lies elsewhere on every rank when
 * in place, that of a reduce is the root's alone) belongs to its rank. */
bool tr_collective_shares(enum tr_collective collective, enum tr_buffer buffer);

/* cache.c: the schedule that a call runs: as tr_schedule_build(), but with spec.remote an algorithm that touches other than
 * shared buffers of other ranks is built staged. */
enum tr_status tr_call_schedule(const struct tr_schedule_spec *spec, struct tr_schedule **schedule);
/* cache.c: the program of a spec and protocol for `rank` of the spec, built, in debug builds checked, and kept. */
enum tr_status tr_cache_get(struct tr_comm *comm, const struct tr_schedule_spec *spec, enum tr_protocol protocol,
                            int rank, struct tr_cached_program **cached);
void tr_cache_clear(struct tr_comm *comm);

/* What of a schedule decides how a vector is cut for it. */
struct tr_layout {
    size_t nranks, nchunks;
    size_t nslots; /* mailbox slots a rank; 0: pieces are not bounded by a slot's capacity */
    size_t depth, max_lag;
};
struct tr_layout tr_schedule_layout(const struct tr_schedule *schedule);

/* geometry.c: cut `count` elements (of a collective's call) for a schedule of any number of ranks. `capacity` is the slot
 * payload in bytes. */
struct tr_geometry tr_layout_cut(const struct tr_layout *layout, enum tr_collective collective, size_t count,
                                 size_t element_bytes, uint32_t channels, size_t capacity);
/* The same in one piece, as the LL protocols need it; the caller compares the tile with the slots' capacity. */
struct tr_geometry tr_layout_whole(const struct tr_layout *layout, enum tr_collective collective, size_t count,
                                   size_t element_bytes, uint32_t channels);

/* geometry.c: the same for a program. */
struct tr_geometry tr_geometry_cut(enum tr_collective collective, int nranks, size_t count, size_t element_bytes,
                                   const struct tr_program *program, uint32_t channels, size_t capacity);
struct tr_geometry tr_geometry_whole(enum tr_collective collective, int nranks, size_t count, size_t element_bytes,
                                     const struct tr_program *program, uint32_t channels);

/* select.c: resolve AUTO fields for a call. `bytes` is the size of the whole vector. */
enum tr_status tr_select(const struct tr_comm *comm, enum tr_collective collective, size_t bytes, bool registered,
                         struct tr_tuning *tuning);

/* select_model.c: the model that AUTO chooses from, if there is one for this machine and launch. Collective. */
enum tr_status tr_select_open_model(struct tr_comm *comm);
/* select_model.c: the machine and launch of a communicator, as models and results name them. */
void tr_comm_machine(const struct tr_comm *comm, struct tr_machine *machine);
/* select_model.c: where the model of a machine is looked for and written, in the user's folder. */
enum tr_status tr_model_default_path(const struct tr_machine *machine, char *path, size_t size);

/* compare.c: with config.check_calls, TR_ERR_MISMATCH unless every rank makes this call with matching arguments; of a pair
 * of tr_send() and tr_recv() both sides. Collective over them. */
enum tr_status tr_compare_call(struct tr_comm *comm, const struct tr_call *call, size_t count, int root);

/* memory.c: the registration that contains [ptr, ptr + bytes), or NULL. */
struct tr_registration *tr_registration_find(const struct tr_comm *comm, const void *ptr, size_t bytes);
/* Its place in the list, which is the same on every rank; -1 for NULL. */
int tr_registration_index(const struct tr_comm *comm, const struct tr_registration *registration);
/* Release what is still registered, at the communicator's end. */
void tr_registrations_clear(struct tr_comm *comm);

/* topology.c (hwloc): fill info.binding and info.topology, and bind this rank unless config.no_bind. Collective. `bus_id`
 * is the rank's GPU ("0000:1b:00.0"), NULL on the host. comm.c calls it for host communicators, the CUDA executor's
 * create() for its own. */
enum tr_status tr_topology_bind(struct tr_comm *comm, const char *bus_id);
/* topology.c: the CPUs of the NUMA nodes next to a GPU; all of them where hwloc does not know the GPU. Errors: SYSTEM. */
enum tr_status tr_topology_near(const char *bus_id, cpu_set_t *near);

/* nccl.c. create leaves comm->nccl NULL and says why in info.why_no_nccl when NCCL cannot serve; that is not an error. */
enum tr_status tr_nccl_create(struct tr_comm *comm);
void tr_nccl_destroy(struct tr_comm *comm);
enum tr_status tr_nccl_run(struct tr_comm *comm, enum tr_collective collective, const void *in, void *out, size_t count,
                           enum tr_datatype datatype, enum tr_op op, int root, void *stream);
enum tr_status tr_nccl_mem_alloc(struct tr_comm *comm, size_t bytes, void **ptr);
enum tr_status tr_nccl_mem_free(struct tr_comm *comm, void *ptr);
/* Whether [ptr, ptr + bytes) lies in memory from tr_nccl_mem_alloc(). */
bool tr_nccl_is_window(const struct tr_comm *comm, const void *ptr, size_t bytes);

/* mpi.c: the call by MPI's own collective, host memory. */
enum tr_status tr_mpi_run(struct tr_comm *comm, enum tr_collective collective, const void *in, void *out, size_t count,
                          enum tr_datatype datatype, enum tr_op op, int root);

#endif

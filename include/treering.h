/*
 * treering.h - the public interface of Treering, a collective library for GPUs (and CPUs) of one host.
 *
 * Error contract, stated once for the whole file:
 * - Every function that can fail returns an enum tr_status; TR_OK is 0. Outputs come last and are written only on TR_OK.
 * - A failing call leaves a sentence in tr_last_error(): what failed, on which rank and host, why, and what to do.
 * - No function prints or exits. No function waits for a peer longer than the communicator's timeout.
 * - "Collective" functions must be called by every rank of the communicator, in the same order, with matching arguments.
 *
 * Counts and offsets are size_t; counts are in elements of the datatype unless a name ends in _bytes.
 */
#ifndef TREERING_H
#define TREERING_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TR_VERSION_MAJOR 0
#define TR_VERSION_MINOR 1
#define TR_VERSION_PATCH 0

/* ---- Status ------------------------------------------------------------------------------------------------------ */

enum tr_status {
    TR_OK = 0,
    TR_ERR_ARGUMENT,    /* an argument is out of range; tr_last_error() names it */
    TR_ERR_UNSUPPORTED, /* valid, but this build, device or communicator cannot do it */
    TR_ERR_MEMORY,      /* host, shared or GPU memory could not be had */
    TR_ERR_MISMATCH,    /* ranks passed arguments that do not match */
    TR_ERR_TIMEOUT,     /* a peer did not arrive within the communicator's timeout */
    TR_ERR_PEER,        /* a peer's process has ended */
    TR_ERR_ABORTED,     /* the communicator was aborted, here or by a peer */
    TR_ERR_CUDA,        /* a CUDA call failed */
    TR_ERR_NCCL,        /* an NCCL call failed */
    TR_ERR_MPI,         /* an MPI call failed */
    TR_ERR_SYSTEM,      /* an operating system call failed */
    TR_ERR_INTERNAL,    /* a broken invariant of the library: please report it */
    TR_STATUS_COUNT
};

/* A short constant text for a status, such as "timed out waiting for a peer". Never NULL. */
const char *tr_strerror(enum tr_status status);

/* The sentence left by the calling thread's last failing call; "" when none failed. Valid until its next failing call. */
const char *tr_last_error(void);

/* The library's version, "major.minor.patch". */
const char *tr_version(void);

/* ---- Types ------------------------------------------------------------------------------------------------------- */

enum tr_datatype { TR_F64, TR_F32, TR_F16, TR_BF16, TR_I64, TR_I32, TR_U8, TR_DATATYPE_COUNT };

/* Sums, products and averages of f16 and bf16 accumulate in f32 within a step. Integer sums wrap. TR_AVG is the sum
 * divided by the number of ranks (integers: truncated towards zero). TR_MIN and TR_MAX: any NaN input gives NaN,
 * and -0 is less than +0. */
enum tr_op { TR_SUM, TR_PROD, TR_MIN, TR_MAX, TR_AVG, TR_OP_COUNT };

enum tr_collective {
    TR_ALLREDUCE,
    TR_REDUCE_SCATTER,
    TR_ALLGATHER,
    TR_BROADCAST,
    TR_REDUCE,
    TR_SENDRECV,
    TR_COLLECTIVE_COUNT
};

/* How a collective is carried out. NCCL, NCCL_SYM (its symmetric windows) and MPI hand the call to those libraries. */
enum tr_algorithm {
    TR_ALGORITHM_AUTO,
    TR_ALGORITHM_RING,  /* Patarasuk and Yuan 2009; rooted collectives: a pipelined chain */
    TR_ALGORITHM_TREE,  /* one pipelined binary tree */
    TR_ALGORITHM_DTREE, /* two binary trees, each inner node of one a leaf of the other (Sanders, Speck, Traeff 2009) */
    TR_ALGORITHM_ONESHOT,   /* everybody sends everything to everybody, each reduces in rank order */
    TR_ALGORITHM_TWOSHOT,   /* direct reduce-scatter, then direct all-gather */
    TR_ALGORITHM_RECURSIVE, /* recursive halving and doubling (Thakur, Rabenseifner, Gropp 2005) */
    TR_ALGORITHM_NCCL,
    TR_ALGORITHM_NCCL_SYM,
    TR_ALGORITHM_MPI,
    TR_ALGORITHM_COUNT
};

/* How bytes and flags travel between ranks. */
enum tr_protocol {
    TR_PROTOCOL_AUTO,
    TR_PROTOCOL_LL,     /* flag beside every 4 bytes (GPU) or every 56 bytes (CPU): no barrier, lowest latency */
    TR_PROTOCOL_LL128,  /* 120 bytes data, 8 bytes flag in a 128-byte line (GPU only) */
    TR_PROTOCOL_DIRECT, /* plain data, then a flag: full bandwidth */
    TR_PROTOCOL_COUNT
};

enum tr_memory { TR_MEMORY_AUTO, TR_MEMORY_HOST, TR_MEMORY_CUDA, TR_MEMORY_COUNT };

size_t tr_datatype_size(enum tr_datatype datatype); /* bytes; 0 for an invalid datatype */

/* The names that the benches print and parse ("f32", "sum", "allreduce", "ring", "LL", "cuda"); "?" if out of range. */
const char *tr_datatype_name(enum tr_datatype datatype);
const char *tr_op_name(enum tr_op op);
const char *tr_collective_name(enum tr_collective collective);
const char *tr_algorithm_name(enum tr_algorithm algorithm);
const char *tr_protocol_name(enum tr_protocol protocol);
const char *tr_memory_name(enum tr_memory memory);

/* The inverse. TR_ERR_ARGUMENT, and a sentence that lists the valid names, when `name` is none of them. */
enum tr_status tr_datatype_parse(const char *name, enum tr_datatype *datatype);
enum tr_status tr_op_parse(const char *name, enum tr_op *op);
enum tr_status tr_algorithm_parse(const char *name, enum tr_algorithm *algorithm);
enum tr_status tr_protocol_parse(const char *name, enum tr_protocol *protocol);
enum tr_status tr_memory_parse(const char *name, enum tr_memory *memory);

/* ---- Communicator ------------------------------------------------------------------------------------------------ */

struct tr_comm; /* opaque; owned by the caller, one at a time may be used from one thread */

/* Zero-initialise and set what should differ from the default (0 means "default" in every field). */
struct tr_config {
    enum tr_memory memory; /* AUTO: CUDA where this build and host have a GPU, else HOST */
    int device;            /* CUDA device ordinal + 1; 0: the GPU nearest to the rank, round robin over local ranks */
    double timeout_s;      /* longest wait for a peer, seconds; default 30 (TREERING_TIMEOUT overrides the default) */
    int no_bind;           /* non-zero: leave the CPU binding as the launcher set it */
    int check_calls;       /* non-zero: compare the arguments of every call over ranks (slow; TREERING_CHECK=1) */
    unsigned first_epoch;  /* where the call counter starts; for tests of its wrap-around; default 1 */
    int no_nccl;           /* non-zero: do not bring up NCCL beside ours */
    const char *model; /* path of the model from which AUTO chooses (`treering tune` writes it), read by rank 0 while
                              the communicator is made; "none": the built-in table; NULL: $TREERING_MODEL, else the
                              one in the user's folder for this machine and number of ranks, else the table */
};

/* Create a communicator over the ranks of `mpi_comm` (duplicated; the caller keeps its own). Collective.
 * `config` may be NULL. All ranks must be on one host and, for CUDA, able to map each other's GPU memory; several ranks
 * may share a GPU (run them under MPS). Errors: UNSUPPORTED, MEMORY, CUDA, SYSTEM, MPI. */
enum tr_status tr_comm_create(MPI_Comm mpi_comm, const struct tr_config *config, struct tr_comm **comm);

/* Free everything the communicator holds; NULL is allowed. Collective unless the communicator was aborted. */
enum tr_status tr_comm_destroy(struct tr_comm *comm);

/* Tell every rank to give up: running and later calls end with TR_ERR_ABORTED. Not collective; may be called while
 * another thread waits inside a call. */
enum tr_status tr_comm_abort(struct tr_comm *comm);

/* The asynchronous error state: TR_OK while all is well, else what broke (tr_last_error() has the sentence). For GPU
 * calls errors that happen on the device show here; never blocks. */
enum tr_status tr_comm_async_error(struct tr_comm *comm);

int tr_comm_rank(const struct tr_comm *comm);
int tr_comm_size(const struct tr_comm *comm);
enum tr_memory tr_comm_memory(const struct tr_comm *comm); /* TR_MEMORY_HOST or TR_MEMORY_CUDA */

/* What a communicator holds and where it runs; for people and for the benches' -v. */
struct tr_comm_info {
    size_t host_bytes;     /* host memory of this rank (shared segment and tables), beyond what the user registered */
    size_t device_bytes;   /* GPU memory of this rank, likewise */
    size_t nccl_bytes;     /* GPU memory that NCCL took at its creation (free memory before less after); 0: no NCCL */
    int has_nccl;          /* NCCL is up on this communicator */
    int nccl_version;      /* as ncclGetVersion() gives it; 0: none */
    int device;            /* CUDA device ordinal, -1 on the host */
    int ranks_on_device;   /* ranks of this communicator on this rank's GPU (host memory: 0) */
    char device_name[64];  /* "NVIDIA H200"; "" on the host */
    char device_uuid[48];  /* "GPU-..." ; "" on the host */
    char host[64];         /* host name */
    char binding[128];     /* the CPUs this rank is bound to, hwloc list syntax, and why */
    char transport[128];   /* how this rank reaches the others: "shared memory", "CUDA IPC, 7 ranks on this GPU, ..." */
    char topology[128];    /* one line: packages, NUMA nodes, cores, PUs, GPUs */
    char cpu_name[96];     /* the CPU's model; "" where hwloc does not know it */
    char model[256];       /* what AUTO chooses from: the model's path, or "built-in table" */
    char why_no_nccl[192]; /* a sentence when has_nccl is 0 */
};
enum tr_status tr_comm_get_info(const struct tr_comm *comm, struct tr_comm_info *info);

/* Choose how later calls run. AUTO (the default) and 0 leave the choice to the library; an algorithm that does not serve
 * a collective makes that call fail with TR_ERR_UNSUPPORTED. Same values on all ranks. */
struct tr_tuning {
    enum tr_algorithm algorithm;
    enum tr_protocol protocol;
    int channels; /* thread blocks (GPU) that share the vector; 0: chosen by size. Host memory: always 1 */
};
enum tr_status tr_comm_set_tuning(struct tr_comm *comm, const struct tr_tuning *tuning);

/* What a call of this shape would run, AUTO resolved. `registered`: non-zero if both buffers are registered. */
enum tr_status tr_comm_resolve(struct tr_comm *comm, enum tr_collective collective, size_t count,
                               enum tr_datatype datatype, enum tr_op op, int registered, struct tr_tuning *resolved);

/* ---- Registered memory ------------------------------------------------------------------------------------------- */

/* Allocate `bytes` (> 0, the same on every rank) that every rank can map: shared memory on the host, GPU memory on CUDA.
 * Collective. A call runs at full speed, without staging, when the buffers that hold the whole vector (all-reduce: both;
 * reduce-scatter and reduce: sendbuf; all-gather and broadcast: recvbuf) are registered on every rank. They must then lie
 * at the same offset of the same registration everywhere. Freed by tr_mem_free(); aligned to 256 bytes. */
enum tr_status tr_mem_alloc(struct tr_comm *comm, size_t bytes, void **ptr);

/* Free what tr_mem_alloc() gave. Collective; NULL is allowed. */
enum tr_status tr_mem_free(struct tr_comm *comm, void *ptr);

/* Register memory the caller allocated with cudaMalloc (any part of an allocation). Collective, same `bytes` everywhere.
 * The memory stays the caller's and must outlive tr_mem_deregister(). TR_ERR_UNSUPPORTED on host communicators (private
 * pages cannot be mapped by peers: use tr_mem_alloc) and for GPU memory that has no IPC handle (VMM, async pools). */
enum tr_status tr_mem_register(struct tr_comm *comm, void *ptr, size_t bytes);
enum tr_status tr_mem_deregister(struct tr_comm *comm, void *ptr);

/* Like tr_mem_alloc(), but registered as an NCCL symmetric window, for TR_ALGORITHM_NCCL_SYM. Collective. */
enum tr_status tr_mem_alloc_nccl(struct tr_comm *comm, size_t bytes, void **ptr);
enum tr_status tr_mem_free_nccl(struct tr_comm *comm, void *ptr);

/* ---- Collectives ------------------------------------------------------------------------------------------------- */

/*
 * All of them: collective; `stream` is a cudaStream_t as void * on CUDA communicators (the call returns once the work is
 * in the stream, and may be captured into a CUDA graph and replayed) and must be NULL on host communicators (the call
 * returns when the result is there). One stream at a time: a call on another stream is ordered after the earlier ones, for
 * which the last call's stream must still exist; captured calls are ordered by whoever launches the graph. The calling
 * thread's current CUDA device must be the communicator's, which tr_comm_create() makes it.
 * Buffers may be registered or not; those that are not go through mailboxes, and long messages between CPU ranks through
 * process_vm_writev() where the kernel allows it. Send and receive buffers must not overlap unless in place.
 * The result is bitwise the same from run to run; for all-reduce also on every rank.
 * A call returns only after every rank has entered it (GPU: completes in stream order likewise). Count 0 is a no-op: it
 * returns TR_OK at once, touches no buffer (they may be NULL) and waits for nobody.
 */

/* recvbuf[i] = op over ranks of sendbuf[i], i < count. In place: sendbuf == recvbuf. */
enum tr_status tr_allreduce(const void *sendbuf, void *recvbuf, size_t count, enum tr_datatype datatype, enum tr_op op,
                            struct tr_comm *comm, void *stream);

/* sendbuf: nranks x recvcount; recvbuf: recvcount, the rank's own segment reduced. In place: recvbuf == sendbuf +
 * rank * recvcount. */
enum tr_status tr_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount, enum tr_datatype datatype,
                                 enum tr_op op, struct tr_comm *comm, void *stream);

/* sendbuf: sendcount; recvbuf: nranks x sendcount, in rank order. In place: sendbuf == recvbuf + rank * sendcount. */
enum tr_status tr_allgather(const void *sendbuf, void *recvbuf, size_t sendcount, enum tr_datatype datatype,
                            struct tr_comm *comm, void *stream);

/* recvbuf on every rank = sendbuf of `root` (read there only). In place on the root: sendbuf == recvbuf. */
enum tr_status tr_broadcast(const void *sendbuf, void *recvbuf, size_t count, enum tr_datatype datatype, int root,
                            struct tr_comm *comm, void *stream);

/* recvbuf on `root` (elsewhere not touched, may be NULL) = op over ranks of sendbuf. In place on the root. */
enum tr_status tr_reduce(const void *sendbuf, void *recvbuf, size_t count, enum tr_datatype datatype, enum tr_op op,
                         int root, struct tr_comm *comm, void *stream);

/* Send `count` elements to `peer` / receive them from `peer` (never the rank itself). Only the two ranks take part; calls
 * are matched in order per ordered pair. A send completes only after its receive was entered (as MPI_Ssend): two ranks
 * that both send first, then receive, wait for each other until the timeout. */
enum tr_status tr_send(const void *sendbuf, size_t count, enum tr_datatype datatype, int peer, struct tr_comm *comm,
                       void *stream);
enum tr_status tr_recv(void *recvbuf, size_t count, enum tr_datatype datatype, int peer, struct tr_comm *comm,
                       void *stream);

#ifdef __cplusplus
}
#endif

#endif

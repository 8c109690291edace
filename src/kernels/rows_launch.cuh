/*
 * rows_launch.cuh - which shape of a row kernel a width gets, and its launch.
 *
 * A kernel comes in SHAPES shapes, each for rows at 16-byte boundaries and for others; the narrowest that holds the row
 * wins:
 *
 *     shape    | NARROW      BLOCK            CLUSTER                 STREAM
 *     a row is | one warp's  one block's      2 to 16 blocks'         read again in every pass
 *
 * The grid is as many blocks as the device runs at once, cut down so that every group has the same number of rows.
 */
#ifndef KERNELS_ROWS_LAUNCH_CUH
#define KERNELS_ROWS_LAUNCH_CUH

#include "kernels/error.h"
#include "kernels/launch.h"
#include "kernels/rows.cuh"

#include <initializer_list>

namespace rows
{

enum Shape { NARROW, BLOCK, CLUSTER, STREAM, SHAPES };

enum { MAX_CLUSTER = 16 };

/* The kernels of one operation and datatype; packs[s] is V of shape s, 0 where there is no such shape. */
struct Family {
    const char *name;
    int per_pack; /* values */
    int packs[SHAPES];
    const void *kernel[SHAPES][2]; /* [shape][aligned] */
    unsigned block_threads;        /* groups share a block up to this many threads... */
    bool named;                    /* ...groups of one warp only, unless they have named barriers */
};

struct Plan {
    const void *kernel;
    Shape shape;
    unsigned threads, groups, ctas; /* of a group in a block, groups of a block, blocks of a group */
    unsigned blocks;                /* of the grid */
};

static inline bool all_aligned(size_t row_bytes, std::initializer_list<const void *> operands)
{
    uintptr_t bits = row_bytes;
    for (const void *operand : operands)
        bits |= (uintptr_t)operand;
    return bits % PACK_BYTES == 0;
}

static inline size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static inline unsigned whole_warps(size_t threads)
{
    return (unsigned)(divide_up(threads, LANES) * LANES);
}

static inline bool fits(const Family &family, Shape shape, size_t packs, int capability)
{
    static const size_t threads[SHAPES] = {LANES, MAX_THREADS, MAX_THREADS * MAX_CLUSTER, SIZE_MAX};
    return family.packs[shape] > 0 && (shape != CLUSTER || capability >= 90) &&
           divide_up(packs, (size_t)family.packs[shape]) <= threads[shape];
}

/* Threads, groups and blocks of a group, for rows of `packs` packs. */
static inline void divide_row(const Family &family, size_t packs, Plan *plan)
{
    size_t threads = divide_up(packs, (size_t)family.packs[plan->shape]);
    plan->ctas = 1;
    while (plan->shape == CLUSTER && (threads > plan->ctas * MAX_THREADS || plan->ctas == 1))
        plan->ctas *= 2;
    threads = divide_up(threads, plan->ctas);
    plan->threads = whole_warps(threads < MAX_THREADS ? threads : MAX_THREADS);
    unsigned groups = family.block_threads / plan->threads;
    bool share = plan->ctas == 1 && groups > 1 && (family.named || plan->threads == LANES);
    plan->groups = !share ? 1 : groups < MAX_GROUPS ? groups : MAX_GROUPS;
}

static inline cudaLaunchConfig_t configuration(const Plan &plan, cudaLaunchAttribute *attribute, size_t shared,
                                               void *stream)
{
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3(plan.blocks);
    launch.blockDim = dim3(plan.threads, plan.groups);
    launch.dynamicSmemBytes = shared;
    launch.stream = (cudaStream_t)stream;
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = plan.ctas;
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    launch.attrs = attribute;
    launch.numAttrs = plan.shape == CLUSTER ? 1 : 0;
    return launch;
}

/* Clusters of more than 8 blocks are allowed kernel by kernel. */
static inline cudaError_t allow_cluster(const Plan &plan)
{
    return plan.ctas <= 8 ? cudaSuccess
                          : cudaFuncSetAttribute(plan.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

/* Groups that run at once on the device; blocks of their own: `most` on a multiprocessor or fewer. */
static inline enum tk_status resident_groups(const Plan &plan, const struct tk_device &device, size_t shared, int most,
                                             size_t *groups)
{
    int count = 0;
    cudaError_t error;
    if (plan.ctas > 1) {
        cudaLaunchAttribute attribute;
        cudaLaunchConfig_t config = configuration(plan, &attribute, shared, nullptr);
        config.gridDim = dim3(plan.ctas);
        error = allow_cluster(plan);
        if (error == cudaSuccess)
            error = cudaOccupancyMaxActiveClusters(&count, plan.kernel, &config);
        *groups = (size_t)count;
    } else {
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, plan.kernel, (int)(plan.threads * plan.groups),
                                                              shared);
        *groups = (size_t)(count < most ? count : most) * (size_t)device.multiprocessors * plan.groups;
    }
    return tk_cuda_status(error, "asking how many blocks run at once");
}

static inline Plan plan_of(const Family &family, Shape shape, size_t packs, bool aligned)
{
    Plan plan = {};
    plan.shape = shape;
    plan.kernel = family.kernel[shape][aligned];
    divide_row(family, packs, &plan);
    return plan;
}

/* Choose shape and grid for `rows` > 0 rows of `width` values. Not every device has room for a cluster of 16. */
static inline enum tk_status make_plan(const Family &family, size_t rows, size_t width, bool aligned, size_t shared,
                                       int most_blocks, Plan *out)
{
    struct tk_device device;
    enum tk_status status = tk_device_get(&device);
    size_t packs = divide_up(width, (size_t)family.per_pack), resident = 0;
    Plan plan = {};
    for (int shape = NARROW; status == TK_OK && resident == 0 && shape < SHAPES; shape++)
        if (fits(family, (Shape)shape, packs, device.capability)) {
            plan = plan_of(family, (Shape)shape, packs, aligned);
            status = resident_groups(plan, device, shared, most_blocks, &resident);
        }
    if (status == TK_OK && resident == 0)
        status = tk_error(TK_ERR_UNSUPPORTED, "%s: this GPU has no room for a block of it", family.name);
    if (status != TK_OK)
        return status;
    size_t rounds = divide_up(rows, resident), groups = divide_up(rows, rounds);
    plan.blocks = (unsigned)(plan.ctas > 1 ? groups * plan.ctas : divide_up(groups, plan.groups));
    *out = plan;
    return TK_OK;
}

template <class Arguments>
enum tk_status launch(const char *name, const Plan &plan, size_t shared, Arguments arguments, void *stream)
{
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = configuration(plan, &attribute, shared, stream);
    void *parameters[] = {&arguments};
    return tk_cuda_status(cudaLaunchKernelExC(&config, plan.kernel, parameters), name);
}

} // namespace rows

#endif

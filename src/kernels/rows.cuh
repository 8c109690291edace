/*
 * rows.cuh - what the kernels that work on the rows of a matrix share: 16-byte packs at any alignment, a group of threads
 * a row, and reductions over a group.
 *
 *     row of `width` values    | pack 0 | pack 1 | ... | pack T-1 | pack T | ...        a pack: 16 bytes
 *     thread of the group          0        1              T-1         0                 V packs a thread, T apart
 *
 * A block is (threads of a group, groups): narrow rows share a block, and a group of one warp needs no barrier. Rows that
 * do not fit into one block's registers are spread over a cluster of up to 16 blocks (sm_90), and rows wider than that are
 * read again for every pass.
 *
 * Rows of odd widths begin at any multiple of the element's size. A pack is then put together from two aligned ones by
 * funnel shifts, and stored after a shuffle that moves its end to the next lane; columns stay where they are.
 */
#ifndef KERNELS_ROWS_CUH
#define KERNELS_ROWS_CUH

#include <cuda_bf16.h>
#include <stddef.h>
#include <stdint.h>

namespace rows
{

enum { PACK_BYTES = 16, LANES = 32, MAX_THREADS = 512, MAX_WARPS = MAX_THREADS / LANES, MAX_GROUPS = 8 };

struct alignas(PACK_BYTES) Words {
    uint32_t w[4];
};

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

template <class T> struct Format;

template <> struct Format<float> {
    static constexpr int N = 4;
    static __device__ __forceinline__ void widen(const Words &pack, float (&values)[N])
    {
#pragma unroll
        for (int e = 0; e < N; e++)
            values[e] = __uint_as_float(pack.w[e]);
    }
    static __device__ __forceinline__ Words narrow(const float (&values)[N])
    {
        Words pack;
#pragma unroll
        for (int e = 0; e < N; e++)
            pack.w[e] = __float_as_uint(values[e]);
        return pack;
    }
    static __device__ __forceinline__ uint32_t element(const Words &pack, int e)
    {
        return pack.w[e];
    }
    static __device__ __forceinline__ uint32_t bits(float value)
    {
        return __float_as_uint(value);
    }
    using Bits = uint32_t;
};

template <> struct Format<__nv_bfloat16> {
    static constexpr int N = 8;
    static __device__ __forceinline__ void widen(const Words &pack, float (&values)[N])
    {
#pragma unroll
        for (int e = 0; e < N; e += 2) {
            values[e] = __uint_as_float(pack.w[e / 2] << 16);
            values[e + 1] = __uint_as_float(pack.w[e / 2] & 0xffff0000u);
        }
    }
    static __device__ __forceinline__ Words narrow(const float (&values)[N])
    {
        Words pack;
#pragma unroll
        for (int e = 0; e < N; e += 2)
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pack.w[e / 2]) : "f"(values[e + 1]), "f"(values[e]));
        return pack;
    }
    static __device__ __forceinline__ uint32_t element(const Words &pack, int e)
    {
        return pack.w[e / 2] >> (e % 2 * 16) & 0xffffu;
    }
    using Bits = uint16_t;
};

template <class T> __device__ __forceinline__ float to_float(T value);
template <> __device__ __forceinline__ float to_float(float value)
{
    return value;
}
template <> __device__ __forceinline__ float to_float(__nv_bfloat16 value)
{
    return __bfloat162float(value);
}

template <class T> __device__ __forceinline__ T from_float(float value);
template <> __device__ __forceinline__ float from_float(float value)
{
    return value;
}
template <> __device__ __forceinline__ __nv_bfloat16 from_float(float value)
{
    return __float2bfloat16_rn(value);
}

/* ---- Packs of rows ----------------------------------------------------------------------------------------------- */

/* Data is used once: it is the first to leave the caches. Weights are used by every row: they stay. */
enum Reuse { ONCE, KEEP };

template <Reuse REUSE> __device__ __forceinline__ Words load_words(const void *from)
{
    uint4 v = REUSE == ONCE ? __ldcs((const uint4 *)from) : __ldg((const uint4 *)from);
    return {v.x, v.y, v.z, v.w};
}

__device__ __forceinline__ void store_words(void *to, const Words &pack)
{
    __stcs((uint4 *)to, make_uint4(pack.w[0], pack.w[1], pack.w[2], pack.w[3]));
}

/* Bytes [bytes, bytes + 16) of `low` followed by `high`; bytes < 16, the same in the whole warp. */
__device__ __forceinline__ Words join(const Words &low, const Words &high, unsigned bytes)
{
    const uint32_t all[8] = {low.w[0], low.w[1], low.w[2], low.w[3], high.w[0], high.w[1], high.w[2], high.w[3]};
    unsigned words = bytes / 4, bits = bytes % 4 * 8;
    uint32_t from[5];
#pragma unroll
    for (int k = 0; k < 5; k++)
        from[k] = words == 0 ? all[k] : words == 1 ? all[k + 1] : words == 2 ? all[k + 2] : all[k < 4 ? k + 3 : 7];
    Words pack;
#pragma unroll
    for (int k = 0; k < 4; k++)
        pack.w[k] = __funnelshift_r(from[k], from[k + 1], bits);
    return pack;
}

/* Which values of the pack at column `at` lie in the row. */
template <bool ALIGNED> struct Inside {
    bool any;
    int count;
    __device__ __forceinline__ Inside(unsigned at, unsigned width)
        : any(at < width), count(ALIGNED || !any ? 0 : (int)min(width - at, 8u))
    {
    }
    __device__ __forceinline__ bool operator()(int e) const
    {
        return ALIGNED ? any : e < count;
    }
};

template <class T, Reuse REUSE>
__device__ __forceinline__ Words load_elements(const T *row, unsigned width, unsigned at)
{
    using F = Format<T>;
    Words pack = {};
    constexpr int EACH = sizeof(uint32_t) / sizeof(T);
#pragma unroll
    for (int e = 0; e < F::N; e++)
        if (at + e < width)
            pack.w[e / EACH] |= (uint32_t)((const typename F::Bits *)row)[at + e] << (e % EACH * 16);
    return pack;
}

/* The pack at column `at`, zeros past the row. SELF: read no byte that another thread may write (rows read more than once
 * while they are overwritten). */
template <class T, bool ALIGNED, Reuse REUSE, bool SELF = false>
__device__ __forceinline__ Words load(const T *row, unsigned width, unsigned at)
{
    constexpr int N = Format<T>::N;
    if (ALIGNED)
        return at < width ? load_words<REUSE>(row + at) : Words{};
    unsigned shift = (uintptr_t)row % PACK_BYTES;
    if (shift == 0 && at + N <= width)
        return load_words<REUSE>(row + at);
    if (SELF || at < N || at + 2 * N > width) /* an aligned pack would reach out of the row */
        return load_elements<T, REUSE>(row, width, at);
    const char *aligned = (const char *)(row + at) - shift;
    return join(load_words<REUSE>(aligned), load_words<REUSE>(aligned + PACK_BYTES), shift);
}

/* Store elements [first, last) of a pack. */
template <class T>
__device__ __forceinline__ void store_elements(T *row, unsigned width, unsigned at, const Words &pack, int first,
                                               int last)
{
    using F = Format<T>;
#pragma unroll
    for (int e = 0; e < F::N; e++)
        if (e >= first && e < last && at + e < width)
            ((typename F::Bits *)row)[at + e] = (typename F::Bits)F::element(pack, e);
}

/* Every lane of the warp calls this, with the packs in lanes' order. */
template <class T> __device__ __forceinline__ void store_shifted(T *row, unsigned width, unsigned at, const Words &pack)
{
    constexpr int N = Format<T>::N;
    unsigned shift = (uintptr_t)row % PACK_BYTES, lane = threadIdx.x % LANES;
    int whole = at + N <= width;
    Words before;
#pragma unroll
    for (int k = 0; k < 4; k++)
        before.w[k] = __shfl_up_sync(~0u, pack.w[k], 1);
    int joint = __shfl_up_sync(~0u, whole, 1) && whole && lane > 0;
    int next_joint = __shfl_down_sync(~0u, joint, 1) && lane < LANES - 1;
    int split = (int)((PACK_BYTES - shift) / sizeof(T)); /* elements up to the aligned boundary */
    if (joint)
        store_words((char *)(row + at) - shift, join(before, pack, PACK_BYTES - shift));
    else
        store_elements(row, width, at, pack, 0, split);
    if (!next_joint)
        store_elements(row, width, at, pack, split, N);
}

template <class T, bool ALIGNED>
__device__ __forceinline__ void store(T *row, unsigned width, unsigned at, const Words &pack)
{
    constexpr int N = Format<T>::N;
    if (ALIGNED) {
        if (at < width)
            store_words(row + at, pack);
    } else if ((uintptr_t)row % PACK_BYTES) {
        store_shifted(row, width, at, pack);
    } else if (at + N <= width) {
        store_words(row + at, pack);
    } else {
        store_elements(row, width, at, pack, 0, N);
    }
}

/* ---- A group of threads ------------------------------------------------------------------------------------------ */

/* What a group reduces: sums of COUNT values. Other states have the same members. */
template <int COUNT> struct Sums {
    float value[COUNT];
    static __device__ __forceinline__ Sums none()
    {
        return {};
    }
    static __device__ __forceinline__ Sums combine(const Sums &a, const Sums &b)
    {
        Sums c;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            c.value[i] = a.value[i] + b.value[i];
        return c;
    }
};

template <class State> __device__ __forceinline__ State shuffle_xor(const State &state, int mask)
{
    State other;
#pragma unroll
    for (int i = 0; i < (int)(sizeof state / 4); i++)
        ((float *)&other)[i] = __shfl_xor_sync(~0u, ((const float *)&state)[i], mask);
    return other;
}

/* The same in every lane, bit by bit: combine(a, b) is combine(b, a). */
template <class State> __device__ __forceinline__ State across_lanes(State state)
{
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        state = State::combine(state, shuffle_xor(state, mask));
    return state;
}

/* A state at the same place of shared memory in block `cta` of the cluster. */
template <class State> __device__ __forceinline__ State load_cluster(const State *at, unsigned cta)
{
    State state = State::none();
#if __CUDA_ARCH__ >= 900
    uint32_t local = (uint32_t)__cvta_generic_to_shared(at), remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(cta));
#pragma unroll
    for (int i = 0; i < (int)(sizeof state / 4); i++)
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(((float *)&state)[i]) : "r"(remote + 4 * i) : "memory");
#endif
    return state;
}

__device__ __forceinline__ void cluster_barrier()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* The threads that share a row. CLUSTER: blocks of one group each, `ctas` of them; else groups threadIdx.y of a block, of
 * several warps each only where NAMED. */
template <bool CLUSTER, bool NAMED> struct Group {
    unsigned ctas, cta;       /* of the cluster */
    unsigned thread, threads; /* this one's place, and how many */
    unsigned index, count;    /* of the group in the grid, and how many */
    unsigned phase;           /* which half of the shared states is free */

    __device__ __forceinline__ explicit Group(unsigned cluster_ctas)
        : ctas(CLUSTER ? cluster_ctas : 1), cta(CLUSTER ? blockIdx.x % cluster_ctas : 0),
          thread(cta * blockDim.x + threadIdx.x), threads(ctas * blockDim.x),
          index(CLUSTER ? blockIdx.x / ctas : blockIdx.x * blockDim.y + threadIdx.y),
          count(CLUSTER ? gridDim.x / ctas : gridDim.x * blockDim.y), phase(0)
    {
    }

    __device__ __forceinline__ void barrier() const
    {
        if (CLUSTER)
            cluster_barrier();
        else if (!NAMED)
            __syncthreads();
        else
            asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.y), "r"(blockDim.x) : "memory");
    }

    /* Combine what each warp of the group has; `shared` is 2 MAX_WARPS states. One barrier: a half is written again only
     * after the barrier of the other one, which follows all reads of it. */
    template <class State> __device__ __forceinline__ State across_warps(const State &mine, State *shared)
    {
        unsigned warps = blockDim.x / LANES, lane = threadIdx.x % LANES;
        if (!CLUSTER && warps == 1)
            return mine;
        State *states = shared + phase * MAX_WARPS + threadIdx.y * warps;
        phase ^= 1;
        if (lane == 0)
            states[threadIdx.x / LANES] = mine;
        barrier();
        State all = State::none();
        if (CLUSTER)
            for (unsigned k = lane; k < warps * ctas; k += LANES)
                all = State::combine(all, load_cluster(states + k % warps, k / warps));
        else if (lane < warps)
            all = states[lane];
        return across_lanes(all);
    }

    template <class State> __device__ __forceinline__ State reduce(const State &mine, State *shared)
    {
        return across_warps(across_lanes(mine), shared);
    }

    /* Shared memory of a block may be read by others until all are here. */
    __device__ __forceinline__ void leave() const
    {
        if (CLUSTER)
            cluster_barrier();
    }
};

/* ---- The packs that a thread holds ------------------------------------------------------------------------------- */

/* Keeps the compiler from holding the widened values, twice the registers, from one pass to the next. */
__device__ __forceinline__ void forget(Words &pack)
{
    asm volatile("" : "+r"(pack.w[0]), "+r"(pack.w[1]), "+r"(pack.w[2]), "+r"(pack.w[3]));
}

/* V packs of each of OPERANDS rows, from pack `first` of the group on. */
template <class T, int OPERANDS_, int V_, bool ALIGNED_, bool STREAM_> struct Tile {
    static constexpr int OPERANDS = OPERANDS_, V = V_, N = Format<T>::N;
    static constexpr bool ALIGNED = ALIGNED_, STREAM = STREAM_;
    Words packs[OPERANDS][V];

    __device__ __forceinline__ void load(const T *const (&from)[OPERANDS], unsigned width, unsigned at, unsigned step)
    {
#pragma unroll
        for (int i = 0; i < V; i++)
#pragma unroll
            for (int o = 0; o < OPERANDS; o++)
                packs[o][i] = rows::load<T, ALIGNED, ONCE, STREAM>(from[o], width, at + i * step);
    }

    /* f(column, Inside, values of each operand) for every pack. */
    template <class F> __device__ __forceinline__ void each(unsigned width, unsigned at, unsigned step, F f)
    {
#pragma unroll
        for (int i = 0; i < V; i++) {
            float values[OPERANDS][N];
#pragma unroll
            for (int o = 0; o < OPERANDS; o++) {
                forget(packs[o][i]);
                Format<T>::widen(packs[o][i], values[o]);
            }
            f(at + i * step, Inside<ALIGNED>(at + i * step, width), values, i);
        }
    }
};

/*
 * A group's pass over its row. Resident: one tile is the row, loaded once. STREAM: tile after tile, loaded in every pass.
 * f as for Tile::each.
 */
template <class Tile, class Group, class T, class F>
__device__ __forceinline__ void sweep(Tile &tile, const Group &group, const T *const (&from)[Tile::OPERANDS],
                                      unsigned width, F f)
{
    unsigned step = group.threads * Tile::N, at = group.thread * Tile::N;
    if constexpr (!Tile::STREAM) {
        tile.each(width, at, step, f);
    } else {
        for (unsigned begin = 0; begin < width; begin += Tile::V * step) {
            tile.load(from, width, begin + at, step);
            tile.each(width, begin + at, step, f);
        }
    }
}

template <class Tile, class Group, class T>
__device__ __forceinline__ void fetch(Tile &tile, const Group &group, const T *const (&from)[Tile::OPERANDS],
                                      unsigned width)
{
    if constexpr (!Tile::STREAM)
        tile.load(from, width, group.thread * Tile::N, group.threads * Tile::N);
}

/* A pass that reads one row of weights at the same columns. */
template <class T, bool ALIGNED>
__device__ __forceinline__ void load_weights(const T *weights, unsigned width, unsigned at,
                                             float (&values)[Format<T>::N])
{
    Format<T>::widen(load<T, ALIGNED, KEEP>(weights, width, at), values);
}

} // namespace rows

#endif

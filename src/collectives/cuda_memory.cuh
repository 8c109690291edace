/*
 * cuda_memory.cuh - how the kernels touch memory that other GPUs write: loads that no cache answers with an old value,
 * flags with release and acquire at system scope.
 */
#ifndef TR_CUDA_MEMORY_CUH
#define TR_CUDA_MEMORY_CUH

#include <stdint.h>

/* Two 64-bit words at a 16-byte boundary. Each word is written and seen whole. */
static __device__ __forceinline__ void load_words(const void *from, uint64_t &a, uint64_t &b)
{
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
}

static __device__ __forceinline__ void store_words(void *to, uint64_t a, uint64_t b)
{
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
}

/* Plain stores: a later release makes them visible. */
static __device__ __forceinline__ void store_words_weak(void *to, uint64_t a, uint64_t b)
{
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
}

static __device__ __forceinline__ uint64_t load_word(const void *from)
{
    uint64_t a;
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(a) : "l"(from) : "memory");
    return a;
}

/* One element, of any size, past the caches. */
template <typename T> static __device__ __forceinline__ T load_element(const void *from)
{
    union {
        T element;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } x;
    if (sizeof(T) == 1)
        x.u8 = *(const volatile uint8_t *)from;
    else if (sizeof(T) == 2)
        x.u16 = *(const volatile uint16_t *)from;
    else if (sizeof(T) == 4)
        x.u32 = *(const volatile uint32_t *)from;
    else
        x.u64 = *(const volatile uint64_t *)from;
    return x.element;
}

static __device__ __forceinline__ uint64_t load_acquire(const uint64_t *from)
{
    uint64_t a;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(a) : "l"(from) : "memory");
    return a;
}

static __device__ __forceinline__ void store_release(uint64_t *to, uint64_t a)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(a) : "memory");
}

static __device__ __forceinline__ uint64_t nanoseconds(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Programmatic dependent launch (sm_90): a kernel may be launched while its predecessor in the stream still runs, does
 * what needs no memory, and waits here until the predecessor is done and its writes are visible. */
static __device__ __forceinline__ void wait_for_previous_kernel(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static __device__ __forceinline__ void let_next_kernel_launch(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif

/* tensor_map.h - describing a tensor to the copy engine (TMA). */
#ifndef KERNELS_TENSOR_MAP_H
#define KERNELS_TENSOR_MAP_H

#include "kernels/kernels.h"

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A bf16 tensor of up to 4 dimensions, the contiguous one first; strides in elements, of dimensions 1 and up. */
struct tk_tensor {
    const char *name; /* for the sentence */
    const void *base; /* 16-byte aligned */
    int rank;
    size_t sizes[4], strides[4]; /* strides[0] is not read */
};

/* Describe it in boxes of 64 x box_rows x 1 x 1 elements, whose rows of 128 bytes lie swizzled in shared memory; outside
 * the tensor a box reads 0 and writes nothing. Errors: CUDA (an old driver, or a tensor that it refuses). */
enum tk_status tk_tensor_map(const struct tk_tensor *tensor, unsigned box_rows, CUtensorMap *map);

#ifdef __cplusplus
}
#endif

#endif

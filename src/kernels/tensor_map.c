/* tensor_map.c - describing a tensor to the copy engine (TMA). */
#include "kernels/tensor_map.h"
#include "kernels/error.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

/* cuTensorMapEncodeTiled(), from the driver; NULL where it has none. */
static PFN_cuTensorMapEncodeTiled_v12000 encoder(void)
{
    static void *found;
    void *function = __atomic_load_n(&found, __ATOMIC_RELAXED);
    enum cudaDriverEntryPointQueryResult result;
    if (!function && cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                                      &result) == cudaSuccess)
        __atomic_store_n(&found, function, __ATOMIC_RELAXED);
    return (PFN_cuTensorMapEncodeTiled_v12000)(uintptr_t)function;
}

enum tk_status tk_tensor_map(const struct tk_tensor *tensor, unsigned box_rows, CUtensorMap *map)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode = encoder();
    if (!encode)
        return tk_error(TK_ERR_CUDA, "%s: the driver has no cuTensorMapEncodeTiled of CUDA 12: update the driver",
                        tensor->name);
    cuuint64_t sizes[4], strides[3];
    cuuint32_t box[4] = {64, box_rows, 1, 1}, steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < tensor->rank; i++)
        sizes[i] = tensor->sizes[i];
    for (int i = 1; i < tensor->rank; i++)
        strides[i - 1] = tensor->strides[i] * 2;
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)tensor->rank, (void *)tensor->base,
                             sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS)
        return TK_OK;
    return tk_error(TK_ERR_CUDA, "%s: cuTensorMapEncodeTiled refuses %zu x %zu elements, %zu apart: error %d",
                    tensor->name, tensor->sizes[1], tensor->sizes[0], tensor->strides[1], (int)result);
}

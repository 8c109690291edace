/*
 * kernel_blas.c - cuBLAS and OpenBLAS by dlopen(), so that nothing of ours needs them.
 *
 * The few declarations are the libraries' documented interfaces: cuBLAS Library 2.8.12 (cublasGemmEx) and the BLAS
 * Technical Forum Standard, appendix B.
 */
#include "bench/kernel_blas.h"
#include "bench/bench_cuda.h"
#include "kernels/error.h"

#include <dlfcn.h>
#include <stddef.h>

static void *open_first(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

/* ---- cuBLAS ------------------------------------------------------------------------------------------------------ */

enum { CUBLAS_OP_N, CUBLAS_OP_T, CUDA_R_32F = 0, CUDA_R_16BF = 14, CUBLAS_COMPUTE_32F = 68, CUBLAS_GEMM_DEFAULT = -1 };

static const size_t cublas_workspace_bytes = (size_t)32 << 20; /* what cuBLAS takes by itself on 9.0 */

static struct {
    void *handle;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int type_a,
                int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                int compute, int algorithm);
} cublas;

/* ISO C has no conversion from an object's pointer to a function's; POSIX has. */
static void find(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
}

static enum tk_status open_cublas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL};
    void *workspace;
    if (cublas.handle)
        return TK_OK;
    void *library = open_first(names);
    if (!library)
        return tk_error(TK_ERR_UNSUPPORTED, "cuBLAS: no libcublas.so.13 or .12 in LD_LIBRARY_PATH");
    find(library, "cublasCreate_v2", &cublas.create);
    find(library, "cublasSetStream_v2", &cublas.set_stream);
    find(library, "cublasSetWorkspace_v2", &cublas.set_workspace);
    find(library, "cublasGemmEx", &cublas.gemm);
    if (!cublas.create || !cublas.set_stream || !cublas.set_workspace || !cublas.gemm)
        return tk_error(TK_ERR_UNSUPPORTED, "cuBLAS: the library found lacks cublasGemmEx");
    if (cublas.create(&cublas.handle) != 0)
        return tk_error(TK_ERR_CUDA, "cuBLAS: cublasCreate failed");
    if (cublas.set_stream(cublas.handle, bench_cuda_stream()) != 0 ||
        !bench_cuda_alloc(cublas_workspace_bytes, &workspace) ||
        cublas.set_workspace(cublas.handle, workspace, cublas_workspace_bytes) != 0)
        return tk_error(TK_ERR_CUDA, "cuBLAS: no stream or workspace could be set");
    return TK_OK;
}

/* cuBLAS is column-major: it sees the transposes, and C^T = B^T A^T. */
enum tk_status kernel_cublas(const struct tk_matmul *mm, void *stream)
{
    static const float one = 1;
    (void)stream; /* the bench has one */
    enum tk_status status = open_cublas();
    if (status != TK_OK)
        return status;
    if (mm->bias || mm->epilogue != TK_EPILOGUE_NONE)
        return tk_error(TK_ERR_UNSUPPORTED, "cuBLAS: cublasGemmEx has no epilogue");
    int in = mm->in == TK_BF16 ? CUDA_R_16BF : CUDA_R_32F, out = mm->out == TK_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    int error = cublas.gemm(cublas.handle, mm->layout == TK_NT ? CUBLAS_OP_T : CUBLAS_OP_N,
                            mm->layout == TK_TN ? CUBLAS_OP_T : CUBLAS_OP_N, (int)mm->n, (int)mm->m, (int)mm->k, &one,
                            mm->b, in, (int)mm->ldb, mm->a, in, (int)mm->lda, &mm->beta, mm->c, out, (int)mm->ldc,
                            CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return error ? tk_error(TK_ERR_CUDA, "cuBLAS: cublasGemmEx returns %d", error) : TK_OK;
}

/* ---- OpenBLAS ---------------------------------------------------------------------------------------------------- */

enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

enum tk_status kernel_openblas(const struct tk_matmul *mm)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", NULL};
    static void (*sgemm)(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
    if (!sgemm) {
        void *library = open_first(names);
        if (!library)
            return tk_error(TK_ERR_UNSUPPORTED, "OpenBLAS: no libopenblas.so.0 (Debian package libopenblas0-pthread)");
        find(library, "cblas_sgemm", &sgemm);
        if (!sgemm)
            return tk_error(TK_ERR_UNSUPPORTED, "OpenBLAS: the library found lacks cblas_sgemm");
    }
    if (mm->in != TK_F32 || mm->out != TK_F32 || mm->bias || mm->epilogue != TK_EPILOGUE_NONE)
        return tk_error(TK_ERR_UNSUPPORTED, "OpenBLAS: f32 alone, without epilogue");
    sgemm(CBLAS_ROW_MAJOR, mm->layout == TK_TN ? CBLAS_TRANS : CBLAS_NO_TRANS,
          mm->layout == TK_NT ? CBLAS_TRANS : CBLAS_NO_TRANS, (int)mm->m, (int)mm->n, (int)mm->k, 1, mm->a,
          (int)mm->lda, mm->b, (int)mm->ldb, mm->beta, mm->c, (int)mm->ldc);
    return TK_OK;
}

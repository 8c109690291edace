/* matmul_check.h - the arguments of a matmul, checked before anything is touched. */
#ifndef KERNELS_MATMUL_CHECK_H
#define KERNELS_MATMUL_CHECK_H

#include "kernels/matmul.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the epilogue reads z. */
int tk_matmul_has_z(const struct tk_matmul *matmul);

enum tk_status tk_matmul_check(const struct tk_matmul *matmul);

#ifdef __cplusplus
}
#endif

#endif

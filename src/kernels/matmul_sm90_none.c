/* matmul_sm90_none.c - in a build without sm_90a: the fast path serves nothing. */
#include "kernels/error.h"
#include "kernels/ladder/ladder.h"
#include "kernels/matmul_sm90.h"

#define UNUSED __attribute__((unused))

const char *tk_matmul_sm90_tile_name(int tile UNUSED)
{
    return NULL;
}

int tk_matmul_sm90_serves(const struct tk_matmul *matmul UNUSED, const struct tk_device *device UNUSED)
{
    return 0;
}

struct tk_matmul_plan tk_matmul_sm90_plan(const struct tk_matmul *matmul UNUSED, const struct tk_device *device UNUSED,
                                          size_t workspace_bytes UNUSED, int tile UNUSED)
{
    return (struct tk_matmul_plan){0, 1};
}

enum tk_status tk_matmul_sm90(const struct tk_matmul *matmul UNUSED, const struct tk_device *device UNUSED,
                              const struct tk_matmul_plan *plan UNUSED, void *stream UNUSED)
{
    return tk_error(TK_ERR_UNSUPPORTED,
                    "matmul: this build has no kernels for 90a: configure --with-cuda-arch=\"80 90a\"");
}

enum tk_status tk_ladder_wgmma(const void *a UNUSED, const void *b UNUSED, void *c UNUSED, int m UNUSED, int n UNUSED,
                               int k UNUSED, void *stream UNUSED)
{
    return tk_error(TK_ERR_UNSUPPORTED,
                    "ladder: this build has no kernels for 90a: configure --with-cuda-arch=\"80 90a\"");
}

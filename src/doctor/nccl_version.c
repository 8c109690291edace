/* nccl_version.c - NCCL's versions, in a build with it. */
#include "doctor/nccl_version.h"

#include <dlfcn.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" /* nccl.h declares f() where it means f(void) */
#include <nccl.h>
#pragma GCC diagnostic pop
#include <stdio.h>

void doctor_nccl_versions(int *compiled, int *loaded, char *path, size_t size)
{
    Dl_info info = {0};
    *compiled = NCCL_VERSION_CODE;
    *loaded = 0;
    ncclGetVersion(loaded);
    /* through the loader's table: the program's own address of the function may be a stub in the program */
    void *function = dlsym(RTLD_DEFAULT, "ncclGetVersion");
    snprintf(path, size, "%s", function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : "");
}

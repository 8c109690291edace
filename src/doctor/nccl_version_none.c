/* nccl_version_none.c - stands in for nccl_version.c in a build without NCCL. */
#include "doctor/nccl_version.h"

#include <stdio.h>

void doctor_nccl_versions(int *compiled, int *loaded, char *path, size_t size)
{
    *compiled = *loaded = 0;
    snprintf(path, size, "%s", "");
}

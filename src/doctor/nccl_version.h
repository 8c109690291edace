/* nccl_version.h - the NCCL that this was compiled with, and the one that the loader found. */
#ifndef DOCTOR_NCCL_VERSION_H
#define DOCTOR_NCCL_VERSION_H

#include <stddef.h>

/* As NCCL counts versions, 22703 for 2.27.3; both 0 in a build without NCCL (nccl_version_none.c). `path`: where the
 * loaded one lies. */
void doctor_nccl_versions(int *compiled, int *loaded, char *path, size_t size);

#endif

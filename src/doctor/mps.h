/* mps.h - NVIDIA's multi-process service (MPS), as far as its control socket tells. */
#ifndef DOCTOR_MPS_H
#define DOCTOR_MPS_H

#include <stddef.h>

enum mps_state {
    MPS_NONE,
    MPS_DEAD, /* the socket is there, but nobody listens: CUDA fails, or hangs */
    MPS_ANSWERS
};

/* Look; `folder` is where the sockets are or would be (CUDA_MPS_PIPE_DIRECTORY). */
enum mps_state mps_look(char *folder, size_t size);

#endif

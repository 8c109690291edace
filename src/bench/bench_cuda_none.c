/* bench_cuda_none.c - bench_cuda.h in a build without CUDA: no device is there, so nothing else is ever called. */
#include "bench/bench_cuda.h"

#define ABSENT __attribute__((unused))

const char *bench_cuda_error(void)
{
    return "this build has no CUDA: configure with --with-cuda";
}

int bench_cuda_device_count(void)
{
    return 0;
}

bool bench_cuda_open(int device ABSENT)
{
    return false;
}

void bench_cuda_close(void)
{
}

void *bench_cuda_stream(void)
{
    return NULL;
}

bool bench_cuda_get_versions(struct bench_cuda_versions *versions ABSENT)
{
    return false;
}

bool bench_cuda_free_bytes(size_t *bytes ABSENT)
{
    return false;
}

bool bench_cuda_alloc(size_t bytes ABSENT, void **ptr ABSENT)
{
    return false;
}

void bench_cuda_free(void *ptr ABSENT)
{
}

bool bench_cuda_wait(void)
{
    return false;
}

bool bench_cuda_enter(void)
{
    return false;
}

bool bench_cuda_entered(bool own ABSENT, int64_t *ns ABSENT, int64_t *uncertainty_ns ABSENT)
{
    return false;
}

bool bench_cuda_clock_start(void)
{
    return false;
}

bool bench_cuda_clock_stop(double *seconds ABSENT)
{
    return false;
}

bool bench_cuda_capture_start(void)
{
    return false;
}

bool bench_cuda_capture_stop(void **graph ABSENT)
{
    return false;
}

bool bench_cuda_graph_launch(void *graph ABSENT)
{
    return false;
}

void bench_cuda_graph_free(void *graph ABSENT)
{
}

bool bench_cuda_fill(const struct pattern *pattern ABSENT, int rank ABSENT, void *data ABSENT, size_t count ABSENT)
{
    return false;
}

bool bench_cuda_poison(void *data ABSENT, size_t bytes ABSENT)
{
    return false;
}

bool bench_cuda_copy(void *to ABSENT, const void *from ABSENT, size_t bytes ABSENT)
{
    return false;
}

bool bench_cuda_launch_empty(void)
{
    return false;
}

bool bench_cuda_count_wrong(const struct pattern *pattern ABSENT, const void *data ABSENT, size_t count ABSENT,
                            size_t *wrong ABSENT)
{
    return false;
}

bool bench_cuda_move(void *to ABSENT, const void *from ABSENT, size_t bytes ABSENT)
{
    return false;
}

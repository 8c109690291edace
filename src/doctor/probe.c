/* probe.c - looks for GPUs in a child process: a broken driver or MPS daemon then hangs the child and not the rank. */
#include "doctor/probe.h"
#include "collectives/comm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void look_and_tell(int rank, int pipe_end)
{
    struct doctor_gpus found;
    memset(&found, 0, sizeof found);
    doctor_look_at_gpus(rank, &found);
    const char *from = (const char *)&found;
    size_t left = sizeof found;
    while (left > 0) {
        ssize_t written = write(pipe_end, from, left);
        if (written <= 0)
            _exit(1);
        from += written;
        left -= (size_t)written;
    }
    _exit(0);
}

/* Read `bytes` until the deadline; false on a timeout or an early end, `*late` tells which. */
static bool read_until(int fd, void *to, size_t bytes, double deadline, bool *late)
{
    for (char *at = to; bytes > 0;) {
        double left = deadline - tr_seconds();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        *late = left <= 0;
        if (*late)
            return false;
        if (poll(&ready, 1, (int)(left * 1e3) + 1) <= 0)
            continue;
        ssize_t got = read(fd, at, bytes);
        if (got <= 0)
            return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

static void fail(struct doctor_gpus *gpus, const char *what)
{
    *gpus = (struct doctor_gpus){.state = DOCTOR_GPU_FAILS};
    snprintf(gpus->what, sizeof gpus->what, "%s", what);
}

/* Whether the child ends within a second. A process that the driver holds in the kernel does not, even if killed. */
static bool has_ended(pid_t child)
{
    for (int i = 0; i < 1000; i++) {
        if (waitpid(child, NULL, WNOHANG) != 0)
            return true;
        usleep(1000);
    }
    return false;
}

static void listen_to(pid_t child, int pipe_end, double timeout_s, struct doctor_gpus *gpus)
{
    bool late = false;
    if (!read_until(pipe_end, gpus, sizeof *gpus, tr_seconds() + timeout_s, &late)) {
        fail(gpus, "the process that brought up CUDA ended without an answer");
        if (late)
            gpus->state = DOCTOR_GPU_HANGS;
    }
    if (gpus->state == DOCTOR_GPU_HANGS || !has_ended(child)) {
        kill(child, SIGKILL);
        has_ended(child);
    }
}

void doctor_probe_gpus(int rank, double timeout_s, struct doctor_gpus *gpus)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends)) {
        fail(gpus, "no pipe for the process that brings up CUDA");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        look_and_tell(rank, ends[1]);
    }
    close(ends[1]);
    if (child < 0)
        fail(gpus, "no process to bring up CUDA: raise `ulimit -u`");
    else
        listen_to(child, ends[0], timeout_s, gpus);
    close(ends[0]);
}

/* Numbers of cudaError_t (CUDA Runtime API, "Error handling"), which never change their meaning. */
static const struct {
    int error;
    const char *advice;
} advices[] = {
    {2, "free GPU memory: nvidia-smi shows who holds it"},
    {35, "install a driver at least as new as the CUDA that this was built with, or build with an older CUDA"},
    {46,
     "the GPU is taken: nvidia-smi -q -d COMPUTE shows its compute mode; end the other process, run under MPS, or set "
     "nvidia-smi -c DEFAULT"},
    {101, "see CUDA_VISIBLE_DEVICES: it names a GPU that is not there"},
    {802, "on a machine with NVSwitch the fabric manager must run: systemctl start nvidia-fabricmanager"},
    {803, "the driver's library and its kernel module differ: reboot, or give the container the host's libcuda"},
    {804, "the compatibility package of CUDA serves data centre GPUs alone: install a newer driver"},
    {805, "start MPS anew: echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d; or unset "
          "CUDA_MPS_PIPE_DIRECTORY"},
    {806, "start MPS anew: echo quit | nvidia-cuda-mps-control; nvidia-cuda-mps-control -d"},
    {807, "the MPS server is not ready, often because it serves another user: start it anew as this one"},
    {808, "MPS serves no more clients: run fewer ranks a GPU"},
    {809, "MPS has no connection left: run fewer ranks a GPU"},
};

const char *doctor_cuda_advice(int error)
{
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
        if (advices[i].error == error)
            return advices[i].advice;
    return "see nvidia-smi and dmesg, and run with -M host meanwhile";
}

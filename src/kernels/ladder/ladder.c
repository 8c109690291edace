/* ladder.c - the steps in their order. */
#include "kernels/ladder/ladder.h"
#include "kernels/error.h"
#include "kernels/launch.h"

static const struct tk_ladder_step steps[] = {
    {"naive", "a thread an element of C, operands from global memory", 80, 0, tk_ladder_naive},
    {"tiles", "32 x 32 tiles in shared memory: each element is loaded 32 times less", 80, 0, tk_ladder_tiles},
    {"registers", "8 x 8 of C in a thread's registers: 4 multiplications a shared load", 80, 0, tk_ladder_registers},
    {"tensor_cores", "mma.sync: 16 x 8 x 16 an instruction, by a warp", 80, 0, tk_ladder_tensor_cores},
    {"wgmma", "TMA fills stages, wgmma reads them: a warp loads while two warpgroups multiply", 90, 1, tk_ladder_wgmma},
};

const struct tk_ladder_step *tk_ladder_step(int i)
{
    return i >= 0 && (size_t)i < sizeof steps / sizeof *steps ? &steps[i] : NULL;
}

enum tk_status tk_ladder_run(const struct tk_ladder_step *step, const void *a, const void *b, void *c, size_t m,
                             size_t n, size_t k, void *stream)
{
    struct tk_device device;
    enum tk_status status = tk_device_get(&device);
    if (status != TK_OK)
        return status;
    if (device.capability < step->least_capability || (step->only && device.capability != step->least_capability))
        return tk_error(TK_ERR_UNSUPPORTED, "ladder: step %s runs on compute capability %d.%d%s, and GPU %d has %d.%d",
                        step->name, step->least_capability / 10, step->least_capability % 10,
                        step->only ? "" : " and up", device.id, device.capability / 10, device.capability % 10);
    if (m % 128 || n % 128 || k % 64 || m > 1 << 20 || n > 1 << 20 || k > 1 << 20 || m * n * k == 0)
        return tk_error(TK_ERR_ARGUMENT,
                        "ladder: m %zu, n %zu, k %zu: m and n must be multiples of 128, k of 64, none 0 "
                        "or more than 2^20",
                        m, n, k);
    return step->run(a, b, c, (int)m, (int)n, (int)k, stream);
}

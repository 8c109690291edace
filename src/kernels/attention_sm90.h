/* attention_sm90.h - the fast path of attention: compute capability 9.0, bf16, 16-byte alignment. */
#ifndef KERNELS_ATTENTION_SM90_H
#define KERNELS_ATTENTION_SM90_H

#include "kernels/attention.h"
#include "kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments are checked already. serves: whether the fast path takes the call on this device. */
bool tk_attention_sm90_serves(const struct tk_attention *attention, const struct tk_device *device);
bool tk_attention_backward_sm90_serves(const struct tk_attention_backward *backward, const struct tk_device *device);
enum tk_status tk_attention_forward_sm90(const struct tk_attention *attention, void *stream);
size_t tk_attention_backward_sm90_workspace(const struct tk_attention_backward *backward);
enum tk_status tk_attention_backward_sm90(const struct tk_attention_backward *backward, void *stream);
const char *tk_attention_sm90_describe(const struct tk_attention *attention);

#ifdef __cplusplus
}
#endif

#endif

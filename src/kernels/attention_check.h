/* attention_check.h - what attention's device and host versions check alike. */
#ifndef KERNELS_ATTENTION_CHECK_H
#define KERNELS_ATTENTION_CHECK_H

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tk_status tk_attention_check(const struct tk_attention *attention);
enum tk_status tk_attention_backward_check(const struct tk_attention_backward *backward);

/* The scale in force. */
float tk_attention_scale(const struct tk_attention *attention);

#ifdef __cplusplus
}
#endif

#endif

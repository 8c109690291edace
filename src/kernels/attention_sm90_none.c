/* attention_sm90_none.c - in a build without sm_90a: the fast path takes no call. */
#include "kernels/attention_sm90.h"
#include "kernels/error.h"

bool tk_attention_sm90_serves(const struct tk_attention *attention, const struct tk_device *device)
{
    (void)attention, (void)device;
    return false;
}

bool tk_attention_backward_sm90_serves(const struct tk_attention_backward *backward, const struct tk_device *device)
{
    (void)backward, (void)device;
    return false;
}

static enum tk_status absent(void)
{
    return tk_error(TK_ERR_UNSUPPORTED, "attention: this build has no sm_90a: configure it with --with-cuda-arch=90a");
}

enum tk_status tk_attention_forward_sm90(const struct tk_attention *attention, void *stream)
{
    (void)attention, (void)stream;
    return absent();
}

size_t tk_attention_backward_sm90_workspace(const struct tk_attention_backward *backward)
{
    (void)backward;
    return 0;
}

enum tk_status tk_attention_backward_sm90(const struct tk_attention_backward *backward, void *stream)
{
    (void)backward, (void)stream;
    return absent();
}

const char *tk_attention_sm90_describe(const struct tk_attention *attention)
{
    (void)attention;
    return "none";
}

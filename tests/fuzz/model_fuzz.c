/* model_fuzz.c - feed libFuzzer's inputs to the reader of model files, and what is read to what uses it; tests/fuzz/run
 * builds and runs it. */
#include "model/model.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever was accepted can be asked for any size. */
static void use(const struct tr_model *model)
{
    for (double bytes = 0; bytes < 1e12; bytes = bytes * 64 + 1) {
        for (int i = 0; i < model->ncurves && i < 8; i++)
            if (!(tr_fit_predict(&model->curves[i].fit, bytes) >= 0))
                abort();
        for (int p = 0; p < TR_PROTOCOL_COUNT; p++)
            tr_model_parameters(model, (enum tr_protocol)p, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_model *model = NULL;
    if (tr_model_parse("fuzz.json", (const char *)data, size, &model) != TR_OK)
        return 0;
    use(model);
    tr_model_free(model);
    return 0;
}

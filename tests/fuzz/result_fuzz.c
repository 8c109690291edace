/* result_fuzz.c - feed libFuzzer's inputs to the reader of result files; tests/fuzz/run builds and runs it. */
#include "model/result_file.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_result_file *file = NULL;
    if (tr_result_file_parse("fuzz.json", (const char *)data, size, &file) == TR_OK)
        tr_result_file_free(file);
    return 0;
}

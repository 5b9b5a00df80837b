/*
 * fuzz_safetensors.c - any bytes as one safetensors file.
 *
 * Every tensor that is let through has its bytes inside the file and is
 * found under its name.
 */
#include <stdlib.h>

#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct st *s = NULL;
    size_t i;

    if (st_parse(data, size, "fuzz", &s, NULL) != CAG_OK)
        return 0;
    for (i = 0; i < st_n_tensor(s); i++) {
        const struct st_tensor *t = st_at(s, i);

        if (st_find(s, t->name) != t)
            abort();
        if (t->size_bytes) {
            sink = t->data[0];
            sink = t->data[t->size_bytes - 1];
        }
    }
    st_close(s);
    return 0;
}

/*
 * fuzz_config.c - any JSON as config.json, and as generation_config.json.
 *
 * A configuration that is let through keeps the promises of config.h.
 */
#include <math.h>
#include <stdlib.h>

#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config c;
    jv *v = NULL;
    int i;

    if (jv_parse((const char *)data, size, "fuzz", &v, NULL) != CAG_OK)
        return 0;
    if (config_from_json(v, v, "fuzz", &c, NULL) == CAG_OK) {
        if (c.n_layer < 1 || c.n_layer > MODEL_MAX_LAYER || c.d_head < 8 ||
            c.d_head % 8 || c.d_head > MODEL_MAX_D_HEAD || c.n_kv_head < 1 ||
            c.n_head % c.n_kv_head || c.n_ctx < 1 || c.n_eos > MODEL_MAX_EOS)
            abort();
        for (i = 0; i < c.d_head / 2; i++)
            if (!isfinite(c.inv_freq[i]))
                abort();
    }
    jv_free(v);
    return 0;
}

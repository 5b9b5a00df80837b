/*
 * fuzz_gguf.c - any bytes as a GGUF file, through every reader of one.
 *
 * What gguf_parse lets through must be safe to use: every value by every
 * getter, the first and last byte of every tensor, configuration, weights.
 */
#include "model/config.h"
#include "model/weights.h"
#include "util/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void use_kv(const struct gguf *g, const struct gguf_kv *kv)
{
    struct gguf_str s, *strs = NULL;
    char *key = mem_strndup(kv->key.s, kv->key.n);
    int64_t i, *ints = NULL;
    float f, *floats = NULL;
    size_t n, j;
    bool b;

    if (!key)
        return;
    gguf_get_int(g, key, true, INT64_MIN, INT64_MAX, &i, NULL);
    gguf_get_float(g, key, true, &f, NULL);
    gguf_get_bool(g, key, true, &b, NULL);
    gguf_get_str(g, key, true, &s, NULL);
    gguf_get_ints(g, key, true, &ints, &n, NULL);
    gguf_get_floats(g, key, true, &floats, &n, NULL);
    if (gguf_get_strs(g, key, true, &strs, &n, NULL) == CAG_OK)
        for (j = 0; j < n; j++)
            if (strs[j].n)
                sink = (uint8_t)strs[j].s[strs[j].n - 1];
    mem_free(ints);
    mem_free(floats);
    mem_free(strs);
    mem_free(key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config c;
    struct model_weights w = { 0 };
    struct arena a = { 0 };
    struct gguf *g = NULL;
    size_t i;

    if (gguf_parse(data, size, "fuzz", &g, NULL) != CAG_OK)
        return 0;
    for (i = 0; i < gguf_n_kv(g); i++)
        use_kv(g, gguf_kv_at(g, i));
    for (i = 0; i < gguf_n_tensor(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);

        sink = t->data[0];
        sink = t->data[t->size_bytes - 1];
    }
    if (config_from_gguf(g, &c, NULL) == CAG_OK)
        weights_from_gguf(g, &c, &a, &w, NULL);
    arena_release(&a);
    gguf_close(g);
    return 0;
}

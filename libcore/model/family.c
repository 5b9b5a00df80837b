/*
 * family.c - the table of model families; see family.h.
 *
 * Sources: configuration and modeling files of transformers 5 (defaults,
 * biases, norms, windows), convert_hf_to_gguf.py of llama.cpp (row order).
 */
#include "model/family.h"

#include <stdio.h>
#include <string.h>

static const struct model_family families[] = {
    {
        .type = "llama",
        .arch = "llama",
        .gguf_pairs = true,
        .bias = BIAS_BY_KEY,
        .window = WINDOW_NEVER,
    },
    {
        .type = "mistral",
        .arch = "llama",
        .gguf_pairs = true,
        .bias = BIAS_NEVER,
        .window = WINDOW_ALL,
        .n_kv_head = 8,
        .sliding_window = 4096,
    },
    {
        .type = "qwen2",
        .arch = "qwen2",
        .bias = BIAS_QKV,
        .window = WINDOW_ASKED,
        .n_kv_head = 32,
        .sliding_window = 4096,
        .n_full = 28,
    },
    {
        .type = "qwen3",
        .arch = "qwen3",
        .qk_norm = true,
        .bias = BIAS_BY_KEY,
        .window = WINDOW_ASKED,
        .n_kv_head = 32,
        .sliding_window = 4096,
        .n_full = 28,
        .d_head = 128,
    },
};
#define N_FAMILY (sizeof families / sizeof *families)

const struct model_family *family_of_type(const char *type)
{
    for (size_t i = 0; i < N_FAMILY; i++)
        if (strcmp(families[i].type, type) == 0)
            return &families[i];
    return NULL;
}

const struct model_family *family_of_arch(const char *arch, size_t n)
{
    for (size_t i = 0; i < N_FAMILY; i++)
        if (strlen(families[i].arch) == n &&
            memcmp(families[i].arch, arch, n) == 0)
            return &families[i];
    return NULL;
}

/* ------------------------------------------------------------------ names */

static const char *name_of(size_t i, bool gguf)
{
    return gguf ? families[i].arch : families[i].type;
}

static bool named_before(size_t i, bool gguf)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(name_of(i, gguf), name_of(j, gguf)) == 0)
            return true;
    return false;
}

static const char *names(char *out, size_t size, bool gguf)
{
    size_t len = 0, last = N_FAMILY - 1;

    while (last > 0 && named_before(last, gguf))
        last--;
    out[0] = '\0';
    for (size_t i = 0; i <= last && len < size; i++) {
        if (named_before(i, gguf))
            continue;
        len += (size_t)snprintf(out + len, size - len, "%s%s",
                                !len        ? ""
                                : i == last ? " and "
                                            : ", ",
                                name_of(i, gguf));
    }
    return out;
}

const char *family_types(char *out, size_t size)
{
    return names(out, size, false);
}

const char *family_archs(char *out, size_t size)
{
    return names(out, size, true);
}

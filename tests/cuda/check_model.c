/*
 * check_model.c - a model of random weights in a directory: config.json and
 * one bf16 safetensors file in the shape of a Qwen3.
 */
#include "tests/cuda/check_model.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/buf.h"

static uint64_t seed = 88172645463325252u;

uint64_t check_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

struct writer {
    FILE *f;
    struct buf head;
    uint64_t off;
    bool body;
};

/* One tensor: its line of the header, or its bytes.  Weights are bf16 of
 * random sign, magnitude 2^e times 1 to 2; norms are 1. */
static void tensor(struct writer *w, const char *name, int rows, int cols,
                   bool norm)
{
    uint64_t n = (uint64_t)rows * (uint64_t)cols;
    static uint16_t block[8192];
    char dims[64];

    if (!w->body) {
        if (norm)
            snprintf(dims, sizeof dims, "[%d]", cols);
        else
            snprintf(dims, sizeof dims, "[%d,%d]", rows, cols);
        buf_printf(&w->head,
                   "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":%s,"
                   "\"data_offsets\":[%llu,%llu]}",
                   w->off != 0 ? "," : "", name, dims,
                   (unsigned long long)w->off,
                   (unsigned long long)(w->off + 2 * n));
        w->off += 2 * n;
        return;
    }
    /* about 1 / sqrt(cols): 2^-5 at 1024 */
    int e = (int)lrint(127 - 0.5 * log2((double)cols) - 0.5);
    while (n > 0) {
        uint64_t m = n < 8192 ? n : 8192;
        for (uint64_t i = 0; i < m; i += 4) {
            uint64_t r = check_random();
            for (uint64_t j = i; j < i + 4 && j < m; j++, r >>= 16)
                block[j] =
                    norm ? 0x3f80 : (uint16_t)((r & 0x807f) | (uint64_t)e << 7);
        }
        fwrite(block, 2, m, w->f);
        n -= m;
    }
}

static void tensors(struct writer *w, const struct check_shape *s)
{
    static const struct {
        const char *name;
        int rows, cols;
    } part[] = { { "self_attn.q_proj", 'q', 'd' },
                 { "self_attn.k_proj", 'k', 'd' },
                 { "self_attn.v_proj", 'k', 'd' },
                 { "self_attn.o_proj", 'd', 'q' },
                 { "mlp.gate_proj", 'f', 'd' },
                 { "mlp.up_proj", 'f', 'd' },
                 { "mlp.down_proj", 'd', 'f' },
                 { "input_layernorm", 0, 'd' },
                 { "post_attention_layernorm", 0, 'd' },
                 { "self_attn.q_norm", 0, 'h' },
                 { "self_attn.k_norm", 0, 'h' } };
    char name[128];

    tensor(w, "model.embed_tokens.weight", s->n_vocab, s->d_model, false);
    for (int l = 0; l < s->n_layer; l++)
        for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
            int size[2] = { part[i].rows, part[i].cols };
            for (int k = 0; k < 2; k++)
                size[k] = size[k] == 'q'   ? s->n_head * s->d_head
                          : size[k] == 'k' ? s->n_kv_head * s->d_head
                          : size[k] == 'd' ? s->d_model
                          : size[k] == 'f' ? s->d_ff
                          : size[k] == 'h' ? s->d_head
                                           : 1;
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", l,
                     part[i].name);
            tensor(w, name, size[0], size[1], part[i].rows == 0);
        }
    tensor(w, "model.norm.weight", 1, s->d_model, true);
}

static bool write_config(const struct check_shape *s, const char *path)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return false;
    fprintf(f,
            "{\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":"
            "\"qwen3\",\"hidden_size\":%d,\"intermediate_size\":%d,"
            "\"num_hidden_layers\":%d,\"num_attention_heads\":%d,"
            "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
            "\"max_position_embeddings\":40960,\"rms_norm_eps\":1e-06,"
            "\"hidden_act\":\"silu\",\"tie_word_embeddings\":true,"
            "\"attention_bias\":false,\"use_sliding_window\":false,"
            "\"sliding_window\":null,\"max_window_layers\":%d,"
            "\"rope_theta\":1000000,\"rope_scaling\":null,"
            "\"torch_dtype\":\"bfloat16\",\"eos_token_id\":1}\n",
            s->d_model, s->d_ff, s->n_layer, s->n_head, s->n_kv_head, s->d_head,
            s->n_vocab, s->n_layer);
    return fclose(f) == 0;
}

bool check_model_make(const struct check_shape *s, const char *dir)
{
    char path[160];
    struct writer w = { .head = BUF_INIT };
    bool ok;

    snprintf(path, sizeof path, "%s/config.json", dir);
    ok = write_config(s, path);
    buf_add(&w.head, "{", 1);
    tensors(&w, s);
    buf_add(&w.head, "}", 1);
    while (w.head.size % 8 != 0)
        buf_add(&w.head, " ", 1);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    w.f = ok && !buf_failed(&w.head) ? fopen(path, "w") : NULL;
    if (w.f != NULL) {
        uint8_t n[8];
        for (int i = 0; i < 8; i++)
            n[i] = (uint8_t)(w.head.size >> (8 * i));
        fwrite(n, 1, 8, w.f);
        fwrite(w.head.data, 1, w.head.size, w.f);
        w.body = true;
        tensors(&w, s);
        ok = !ferror(w.f);
        ok = fclose(w.f) == 0 && ok;
    } else {
        ok = false;
    }
    buf_free(&w.head);
    if (!ok)
        fprintf(stderr, "check_cuda: cannot write %s: %s\n", path,
                strerror(errno));
    return ok;
}

void check_model_remove(const char *dir)
{
    char path[160];

    snprintf(path, sizeof path, "%s/config.json", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}

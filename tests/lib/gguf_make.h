/*
 * gguf_make.h - GGUF files in memory, for tests: honest ones and bent ones.
 *
 * A file is composed of three buffers (keys, tensor table, data) whose
 * counts, alignment and bytes a test may change before gm_finish joins them.
 */
#ifndef TESTS_GGUF_MAKE_H
#define TESTS_GGUF_MAKE_H

#include <string.h>

#include "format/gguf.h"
#include "util/buf.h"
#include "util/rd.h"

struct gm {
    struct buf kv, table, data, file;
    uint64_t n_kv, n_tensor;
    uint32_t version;
    size_t align;
};

static inline void gm_init(struct gm *m)
{
    memset(m, 0, sizeof *m);
    m->version = 3;
    m->align = 32;
}

static inline void gm_u32(struct buf *b, uint32_t v)
{
    uint8_t p[4];
    rd_put32(p, v);
    buf_add(b, p, 4);
}

static inline void gm_u64(struct buf *b, uint64_t v)
{
    uint8_t p[8];
    rd_put64(p, v);
    buf_add(b, p, 8);
}

static inline void gm_str(struct buf *b, const char *s)
{
    gm_u64(b, strlen(s));
    buf_str(b, s);
}

static inline void gm_key(struct gm *m, const char *key, int type)
{
    gm_str(&m->kv, key);
    gm_u32(&m->kv, (uint32_t)type);
    m->n_kv++;
}

static inline void gm_kv_u32(struct gm *m, const char *key, uint32_t v)
{
    gm_key(m, key, GGUF_V_U32);
    gm_u32(&m->kv, v);
}

static inline void gm_kv_f32(struct gm *m, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    gm_key(m, key, GGUF_V_F32);
    gm_u32(&m->kv, bits);
}

static inline void gm_kv_str(struct gm *m, const char *key, const char *v)
{
    gm_key(m, key, GGUF_V_STR);
    gm_str(&m->kv, v);
}

/* A table entry alone, with whatever offset. */
static inline void gm_entry(struct gm *m, const char *name, int type,
                            uint32_t n_dims, uint64_t d0, uint64_t d1,
                            uint64_t off)
{
    uint32_t i;

    gm_str(&m->table, name);
    gm_u32(&m->table, n_dims);
    for (i = 0; i < n_dims && i < 16; i++)
        gm_u64(&m->table, i == 0 ? d0 : i == 1 ? d1 : 1);
    gm_u32(&m->table, (uint32_t)type);
    gm_u64(&m->table, off);
    m->n_tensor++;
}

/* A tensor with data: zeros, or element i = i / 16 for F32. */
static inline void gm_tensor(struct gm *m, const char *name, int type,
                             uint64_t d0, uint64_t d1)
{
    int elems = 1, bytes = 4;
    size_t i, n;

    gguf_type_block(type, &elems, &bytes);
    while (m->data.size % m->align)
        buf_char(&m->data, 0);
    gm_entry(m, name, type, d1 ? 2 : 1, d0, d1, m->data.size);
    n = (size_t)(d0 * (d1 ? d1 : 1)) / (unsigned)elems;
    for (i = 0; i < n; i++) {
        if (type == GGUF_F32) {
            float f = (float)i / 16;
            uint32_t bits;
            memcpy(&bits, &f, 4);
            gm_u32(&m->data, bits);
        } else {
            int j;
            for (j = 0; j < bytes; j++)
                buf_char(&m->data, 0);
        }
    }
}

/* Compose; the bytes are m->file until gm_free. */
static inline void gm_finish(struct gm *m)
{
    struct buf *f = &m->file;

    buf_clear(f);
    buf_add(f, "GGUF", 4);
    gm_u32(f, m->version);
    gm_u64(f, m->n_tensor);
    gm_u64(f, m->n_kv);
    if (m->kv.size)
        buf_add(f, m->kv.data, m->kv.size);
    if (m->table.size)
        buf_add(f, m->table.data, m->table.size);
    while (f->size % m->align)
        buf_char(f, 0);
    if (m->data.size)
        buf_add(f, m->data.data, m->data.size);
}

static inline void gm_free(struct gm *m)
{
    buf_free(&m->kv);
    buf_free(&m->table);
    buf_free(&m->data);
    buf_free(&m->file);
}

/* The keys of a tiny model of one layer: d_model 32, 2 heads of 16, 1 KV
 * head, d_ff 64, 8 tokens. */
static inline void gm_model_keys(struct gm *m, const char *arch)
{
    char key[64];
    static const struct {
        const char *k;
        uint32_t v;
    } ints[] = {
        { "block_count", 1 },          { "context_length", 128 },
        { "embedding_length", 32 },    { "feed_forward_length", 64 },
        { "attention.head_count", 2 }, { "attention.head_count_kv", 1 },
    };
    size_t i;

    gm_kv_str(m, "general.architecture", arch);
    for (i = 0; i < sizeof ints / sizeof *ints; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, ints[i].k);
        gm_kv_u32(m, key, ints[i].v);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gm_kv_f32(m, key, 1e-5f);
}

/* Its tensors, all F32, but for the one named skip (or NULL). */
static inline void gm_model_tensors(struct gm *m, const char *skip)
{
    static const struct {
        const char *name;
        uint64_t d0, d1;
    } t[] = {
        { "token_embd.weight", 32, 8 },
        { "output.weight", 32, 8 },
        { "output_norm.weight", 32, 0 },
        { "blk.0.attn_norm.weight", 32, 0 },
        { "blk.0.ffn_norm.weight", 32, 0 },
        { "blk.0.attn_q.weight", 32, 32 },
        { "blk.0.attn_k.weight", 32, 16 },
        { "blk.0.attn_v.weight", 32, 16 },
        { "blk.0.attn_output.weight", 32, 32 },
        { "blk.0.ffn_gate.weight", 32, 64 },
        { "blk.0.ffn_up.weight", 32, 64 },
        { "blk.0.ffn_down.weight", 64, 32 },
    };
    size_t i;

    for (i = 0; i < sizeof t / sizeof *t; i++)
        if (!skip || strcmp(t[i].name, skip) != 0)
            gm_tensor(m, t[i].name, GGUF_F32, t[i].d0, t[i].d1);
}

/* The model's file but for that tensor; a test may add to it. */
static inline void gm_model(struct gm *m, const char *arch, const char *skip)
{
    gm_init(m);
    gm_model_keys(m, arch);
    gm_model_tensors(m, skip);
}

#endif

/*
 * mtest.h - what the model tests share: tiny models, ids, a session written
 * as a cache.  Goldens: tests/golden/README.md.  Include after cmocka.h.
 */
#ifndef MTEST_H
#define MTEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cag/session.h>

#include "tests/lib/kvc_fixture.h"
#include "engine/session.h"
#include "util/json.h"

#define GOLDEN "tests/golden/"

static inline void mt_ids(int32_t *ids, int n, uint64_t seed, int n_vocab)
{
    uint64_t s = seed;

    for (int i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((s >> 33) % (uint64_t)n_vocab);
    }
}

static inline cag_model *mt_model(const char *name)
{
    char path[256];
    cag_model *m = NULL;

    snprintf(path, sizeof path, GOLDEN "%s", name);
    OK(cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m, err));
    return m;
}

static inline cag_engine *mt_engine(const cag_model *m, int n_thread, int chunk,
                                    cag_precision precision, bool kv_f32)
{
    cag_engine_opts o = { .device = "cpu",
                          .n_thread = n_thread,
                          .pass_rows = chunk,
                          .precision = precision,
                          .kv_f32 = kv_f32 };
    cag_engine *e = NULL;

    OK(cag_engine_new(m, &o, &e, err));
    return e;
}

static inline cag_session *mt_session(cag_engine *e, cag_prefix *p, int max_tok)
{
    cag_session *s = NULL;

    OK(cag_session_new(e, p, max_tok, &s, err));
    return s;
}

/* What process pid writes to fd: exactly want bytes, and it ends well.  fd is
 * closed. */
static inline void mt_from_child(pid_t pid, int fd, void *out, size_t want)
{
    size_t got = 0;
    int status;

    for (ssize_t r; got < want; got += (size_t)r) {
        r = read(fd, (char *)out + got, want - got);
        if (r <= 0)
            break;
    }
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(got, want);
}

static inline int mt_vocab(const cag_model *m)
{
    return cag_model_get_info(m)->n_vocab;
}

static inline int32_t mt_argmax(const float *x, int n)
{
    int32_t at = 0;

    for (int i = 1; i < n; i++)
        if (x[i] > x[at])
            at = i;
    return at;
}

/* What a test does to a chunk on its way to disk. */
typedef void mt_change(const struct kvc_shape *shape, int layer, int chunk,
                       uint8_t *dst, const void *ctx);

struct mt_source {
    const cag_session *s;
    struct kvc_shape shape;
    mt_change *change; /* or NULL */
    const void *ctx;
};

static inline cag_status mt_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                                  cag_error *err)
{
    const struct mt_source *x = ctx;
    cag_status st =
        session_export_chunk(x->s, &x->shape, layer, chunk, dst, err);

    if (st == CAG_OK && x->change)
        x->change(&x->shape, layer, chunk, dst, x->ctx);
    return st;
}

/* What the format asks of a lossy codec; nobody reads it here. */
static inline cag_status mt_receipt(void *ctx, const cag_kvc *draft,
                                    cag_kvc_receipt *r, cag_error *err)
{
    (void)err;
    r->end = cag_kvc_get_info(draft)->n_tok;
    r->begin = r->end - 1;
    r->n_same = 1;
    r->loss = ctx;
    return CAG_OK;
}

/* The first n tokens of s as a cache at path, changed on the way. */
static inline cag_kvc *mt_cache_changed(const cag_session *s,
                                        const cag_model *m, int n,
                                        const char *codec, int chunk_tok,
                                        mt_change *change, const void *ctx,
                                        const char *path)
{
    const cag_model_info *i = cag_model_get_info(m);
    enum kvc_class c = kvc_codec_class((enum kvc_codec)kvc_codec_find(codec));
    struct fix f = { .codec = codec,
                     .shape = { i->n_layer, i->n_kv_head, i->d_head, c, n,
                                chunk_tok } };
    struct mt_source x = { .s = s, .change = change, .ctx = ctx };
    cag_kvc_loss loss[64] = { { 0, 0, 0, 0 } };
    struct pool *pool = NULL;
    cag_kvc *k = NULL;
    struct kvc_desc d;

    fix_init(&f);
    x.shape = f.shape; /* chunk_tok is chosen if it was 0 */
    d = fix_desc(&f);
    d.chunk = mt_chunk;
    d.ctx = &x;
    assert_true(i->n_layer <= 32);
    if (c == KVC_CLASS_Q8H) {
        d.receipt = mt_receipt;
        d.receipt_ctx = loss;
    }
    OK(pool_new(&pool, 2, err));
    OK(kvc_write(path, &d, -1, pool, err));
    OK(cag_kvc_open(path, &k, err));
    pool_free(pool);
    fix_free(&f);
    return k;
}

static inline cag_kvc *mt_cache(const cag_session *s, const cag_model *m, int n,
                                const char *codec, int chunk_tok,
                                const char *path)
{
    return mt_cache_changed(s, m, n, codec, chunk_tok, NULL, NULL, path);
}

/* a and b give a file of this shape the same bytes. */
static inline void mt_same_chunks(const cag_session *a, const cag_session *b,
                                  const struct kvc_shape *shape)
{
    uint8_t *x = mem_alloc_aligned(64, kvc_chunk_bytes(shape, 0));
    uint8_t *y = mem_alloc_aligned(64, kvc_chunk_bytes(shape, 0));

    assert_non_null(x);
    assert_non_null(y);
    for (int l = 0; l < shape->n_layer; l++)
        for (int c = 0; c < kvc_n_chunk(shape); c++) {
            OK(session_export_chunk(a, shape, l, c, x, err));
            OK(session_export_chunk(b, shape, l, c, y, err));
            assert_memory_equal(x, y, kvc_chunk_bytes(shape, c));
        }
    mem_free(x);
    mem_free(y);
}

/* Codec q8h: where a build begins to watch the queries of n tokens. */
static inline int mt_watched_from(int n)
{
    return n > SESSION_PROBE ? n - SESSION_PROBE : 0;
}

/* A session that read n ids, balanced, with room for more. */
static inline cag_session *mt_balanced(cag_engine *e, const int32_t *ids, int n,
                                       int more)
{
    cag_session *s = mt_session(e, NULL, n + more);

    OK(session_gather(s, mt_watched_from(n), err));
    OK(cag_session_prefill(s, ids, n, NULL, err));
    OK(session_balance(s, err));
    return s;
}

#endif

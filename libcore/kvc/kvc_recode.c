/*
 * kvc_recode.c - the same cache in another container: f16z <-> f16.
 *
 * The output is what a build with that codec would have written: META, SRCS
 * and PRMT are the input's, the writer adds the rest as always, and the
 * content id must come out equal or no file is made.  Only paths that are
 * relative to the cache's directory change when the output is put elsewhere.
 */
#include <string.h>

#include "kvc/kvc_impl.h"
#include "util/file.h"
#include "util/file_lock.h"
#include "util/mem.h"

struct recode {
    const cag_kvc *in;
    struct pool *pool;
    jv *meta, *srcs;
    char *from, *to; /* the directories of in and out */
    struct kvc_extra extra[KVC_MAX_SECTION];
    int n_extra;
};

static cag_status copy_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                             cag_error *err)
{
    const struct recode *r = ctx;
    const uint8_t *raw;
    cag_status st = kvc_chunk_load(r->in, layer, chunk, dst, &raw, err);

    if (!st && raw != dst)
        memcpy(dst, raw, kvc_chunk_bytes(&r->in->shape, chunk));
    return st;
}

static cag_status copy_attention(void *ctx, const cag_kvc *draft,
                                 cag_kvc_attention *out, cag_error *err)
{
    const struct recode *r = ctx;

    (void)draft;
    (void)err;
    if (cag_kvc_get_attention(r->in))
        *out = *cag_kvc_get_attention(r->in);
    return CAG_OK;
}

/* ----------------------------------------------------------------- paths */

/* A path relative to r->from, as seen from r->to. */
static jv *move_path(const struct recode *r, const char *path)
{
    char *abs = file_join(r->from, path);
    char *rel = abs ? file_relative(abs, r->to) : NULL;
    jv *v = rel ? jv_new_str(rel, strlen(rel)) : NULL;

    mem_free(rel);
    mem_free(abs);
    return v;
}

/*
 * A copy of META or SRCS for another directory.  The rule of kvc(5): every
 * string member called "path" or "group" is a file's path, at any depth.
 */
static jv *move(const struct recode *r, const char *key, const jv *v)
{
    const char *s = jv_str(v, NULL);
    jv *out;

    if (s && *s && *s != '/' && (!strcmp(key, "path") || !strcmp(key, "group")))
        return move_path(r, s);
    if (jv_type(v) == JV_ARRAY) {
        out = jv_new_array();
        for (size_t i = 0; out && i < jv_count(v); i++)
            if (!jv_append(out, move(r, "", jv_at(v, i)))) {
                jv_free(out);
                return NULL;
            }
        return out;
    }
    if (jv_type(v) != JV_OBJECT)
        return jv_copy(v);
    out = jv_new_object();
    for (void *it = jv_iter(v); out && it; it = jv_next(v, it)) {
        const char *name = jv_iter_key(it, NULL);

        if (!jv_set(out, name, move(r, name, jv_iter_value(it)))) {
            jv_free(out);
            return NULL;
        }
    }
    return out;
}

static cag_status prepare(struct recode *r, const char *in, const char *out,
                          cag_error *err)
{
    const cag_kvc *k = r->in;

    r->from = file_real_dir(in);
    r->to = file_real_dir(out);
    if (!r->from || !r->to)
        return cag_fail_nomem(err, "recode");
    if (strcmp(r->from, r->to) == 0) {
        r->meta = jv_copy(k->meta);
        r->srcs = jv_copy(k->srcs);
    } else {
        r->meta = move(r, "", k->meta);
        r->srcs = move(r, "", k->srcs);
    }
    if (!r->meta || !r->srcs)
        return cag_fail_nomem(err, "recode");
    for (int i = 0; i < k->n_section; i++) {
        const struct kvc_section *s = &k->section[i];

        if (s->required || !strcmp(s->name, "ATTN")) /* copy_attention */
            continue;
        memcpy(r->extra[r->n_extra].name, s->name, sizeof s->name);
        r->extra[r->n_extra].data = k->data + s->off;
        r->extra[r->n_extra].size = (size_t)s->size;
        r->n_extra++;
    }
    return CAG_OK;
}

/* ---------------------------------------------------------------- recode */

static cag_status write_out(struct recode *r, const char *codec,
                            const char *out, int mode, cag_error *err)
{
    const cag_kvc *k = r->in;
    const struct kvc_section *tknz = k->core[KVC_TKNZ];
    struct kvc_desc d = {
        .shape = k->shape,
        .codec = codec,
        .meta = r->meta,
        .sources = r->srcs,
        .prompt = k->prmt,
        .text = k->text,
        .text_size = k->text_size,
        .ids = k->ids,
        .id_off = k->id_off,
        .n_ids = (size_t)k->shape.n_tok,
        .tokenizer = k->data + tknz->off,
        .tokenizer_size = (size_t)tknz->size,
        .extra = r->extra,
        .n_extra = r->n_extra,
        .chunk = copy_chunk,
        .ctx = r,
        .attention = k->attention ? copy_attention : NULL,
        .attention_ctx = r,
        .expect_content_id = k->info.content_id,
    };
    cag_status st = kvc_check_space(out, &d, err);

    return st ? st : kvc_write(out, &d, mode, r->pool, err);
}

cag_status cag_kvc_recode(const char *in, const char *codec, const char *out,
                          int mode, int n_thread, double lock_timeout_s,
                          cag_error *err)
{
    struct file_lock lock = FILE_LOCK_NONE;
    struct recode r = { .in = NULL };
    cag_kvc *k = NULL;
    int to = kvc_codec_find(codec);
    cag_status st = cag_kvc_open(in, &k, err);

    if (st)
        return st;
    r.in = k;
    if (to < 0 || !kvc_codec_recodes(k->codec, (enum kvc_codec)to)) {
        st = cag_fail(err, CAG_E_UNSUPPORTED, in, -1,
                      "cannot recode %s to %.32s: only f16z to f16 and back "
                      "is exact%s",
                      k->info.codec, codec ? codec : "(none)",
                      kvc_codec_lossy(k->codec) ||
                              (to >= 0 && kvc_codec_lossy((enum kvc_codec)to))
                          ? "; q8h is made by a build, from the model's "
                            "queries too"
                          : "");
        goto out;
    }
    st = file_can_create(out, err);
    if (!st)
        st = kvc_check_replace(out, err);
    if (!st)
        st = file_lock(&lock, out, mode, lock_timeout_s, err);
    if (!st)
        st = prepare(&r, in, out, err);
    if (!st)
        st = pool_new(&r.pool, n_thread, err);
    if (!st)
        st = write_out(&r, codec, out, mode, err);
out:
    if (st && !file_exists(out))
        file_lock_undo(&lock);
    else
        file_unlock(&lock);
    pool_free(r.pool);
    jv_free(r.meta);
    jv_free(r.srcs);
    mem_free(r.from);
    mem_free(r.to);
    cag_kvc_close(k);
    return st;
}

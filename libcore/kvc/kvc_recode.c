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
#include "util/mem.h"

struct recode {
    const cag_kvc *in;
    struct pool   *pool;
    jv            *meta, *srcs;
    char          *from, *to;       /* absolute directories */
    struct kvc_extra extra[KVC_MAX_SECTION];
    int            n_extra;
};

static cag_status copy_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                             cag_error *err)
{
    const struct recode *r = ctx;
    const uint8_t       *raw;
    cag_status st = kvc_chunk_load(r->in, layer, chunk, dst, &raw, err);

    if (!st && raw != dst)
        memcpy(dst, raw, kvc_chunk_bytes(&r->in->shape, chunk));
    return st;
}

/* ----------------------------------------------------------------- paths */

static char *absolute_dir(const char *path)
{
    char *dir = file_dirname(path), *abs = dir ? file_absolute(dir) : NULL;

    mem_free(dir);
    return abs;
}

/* Member key of o, a path relative to r->from, as seen from r->to. */
static bool move_path(const struct recode *r, jv *o, const char *key)
{
    const char *path = jv_get_str(o, key, NULL);
    char       *abs, *rel;
    bool        ok;

    if (!path || path[0] == '/')
        return true;
    abs = file_join(r->from, path);
    rel = abs ? file_relative(abs, r->to) : NULL;
    ok = rel && jv_set_str(o, key, rel);
    mem_free(rel);
    mem_free(abs);
    return ok;
}

/* A changed copy of *o's member (or element) is needed because values handed
 * out by jv are read-only. */
static bool move_model(const struct recode *r)
{
    jv *model = jv_copy(jv_get(r->meta, "model"));

    if (!model || !move_path(r, model, "path")) {
        jv_free(model);
        return false;
    }
    return jv_set(r->meta, "model", model);
}

static jv *move_sources(const struct recode *r)
{
    jv *out = jv_new_array();

    for (size_t i = 0; out && i < jv_count(r->in->srcs); i++) {
        jv *s = jv_copy(jv_at(r->in->srcs, i));

        if (!s || !move_path(r, s, "path") || !move_path(r, s, "group")) {
            jv_free(s);
            jv_free(out);
            return NULL;
        }
        if (!jv_append(out, s)) {
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

    r->from = absolute_dir(in);
    r->to = absolute_dir(out);
    r->meta = jv_copy(k->meta);
    if (!r->from || !r->to || !r->meta)
        return cag_fail_nomem(err, "recode");
    if (strcmp(r->from, r->to) == 0) {
        r->srcs = jv_copy(k->srcs);
    } else {
        r->srcs = move_sources(r);
        if (r->srcs && !move_model(r))
            return cag_fail_nomem(err, "recode");
    }
    if (!r->srcs)
        return cag_fail_nomem(err, "recode");
    for (int i = 0; i < k->n_section; i++) {
        const struct kvc_section *s = &k->section[i];

        if (s->required)
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
    const cag_kvc            *k = r->in;
    const struct kvc_section *tknz = k->core[KVC_TKNZ];
    struct kvc_desc           d = {
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
        .expect_content_id = k->info.content_id,
    };
    cag_status st = kvc_check_space(out, &d, err);

    return st ? st : kvc_write(out, &d, mode, r->pool, err);
}

cag_status cag_kvc_recode(const char *in, const char *codec, const char *out,
                          int mode, int n_thread, double lock_timeout_s,
                          cag_error *err)
{
    struct file_lock lock = { -1 };
    struct recode r = { .in = NULL };
    cag_kvc      *k = NULL;
    int           to = kvc_codec_find(codec);
    cag_status    st = cag_kvc_open(in, &k, err);

    if (st)
        return st;
    r.in = k;
    if (!((k->codec == KVC_F16Z && to == KVC_F16) ||
          (k->codec == KVC_F16 && to == KVC_F16Z))) {
        st = cag_fail(err, CAG_E_UNSUPPORTED, in, -1,
                      "cannot recode %s to %.32s: only f16z to f16 and back "
                      "is exact", k->info.codec, codec ? codec : "(none)");
        goto out;
    }
    st = file_can_create(out, err);
    if (!st)
        st = file_lock(&lock, out, lock_timeout_s, err);
    if (!st)
        st = prepare(&r, in, out, err);
    if (!st)
        st = pool_new(&r.pool, n_thread, err);
    if (!st)
        st = write_out(&r, codec, out, mode, err);
out:
    file_unlock(&lock);
    pool_free(r.pool);
    jv_free(r.meta);
    jv_free(r.srcs);
    mem_free(r.from);
    mem_free(r.to);
    cag_kvc_close(k);
    return st;
}

/*
 * build_meta.c - META, SRCS and PRMT of the cache a job will write, and
 * whether the old cache already is that cache.
 */
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_read.h"
#include "kvc/kvc_member.h"
#include "build/build_job.h"
#include "source/source_path.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/text.h"

#include <cag.h>

static bool set_sha(jv *o, const char *key, const uint8_t *digest)
{
    char hex[2 * SHA256_SIZE + 1];

    hash_hex(digest, SHA256_SIZE, hex);
    return jv_set_str(o, key, hex);
}

static jv *model_json(const struct build_job *j)
{
    const cag_model_info *m = cag_model_get_info(j->model);
    char *rel = source_path(j->model_path, j->dir);
    jv *o = jv_new_object();
    bool ok = o && rel && jv_set_str(o, "name", m->name) &&
              jv_set_str(o, "arch", m->arch) && jv_set_str(o, "path", rel) &&
              record_set_str(o, "hub", j->hub) &&
              jv_set_int(o, "n_vocab", m->n_vocab) &&
              jv_set_str(o, "weight_type", m->weight_type) &&
              jv_set(o, "files", model_files_json(&j->kit.files));

    mem_free(rel);
    if (ok)
        return o;
    jv_free(o);
    return NULL;
}

/* Sets META.binding; a digest that cannot be made is its own error. */
static cag_status binding_json(const struct build_job *j, jv *meta,
                               cag_error *err)
{
    uint8_t template_sha[SHA256_SIZE];
    cag_status st = sha256_buf(j->template_text, strlen(j->template_text),
                               template_sha, err);
    jv *o = st ? NULL : jv_new_object();
    bool ok = o && set_sha(o, "config_sha256", j->kit.print.config) &&
              set_sha(o, "weights_sha256", j->kit.print.weights) &&
              set_sha(o, "template_sha256", template_sha) &&
              jv_set_str(o, "rope", j->model->config.rope_text);

    if (st)
        return st;
    if (!ok) {
        jv_free(o);
        o = NULL;
    }
    return jv_set(meta, "binding", o)
               ? CAG_OK
               : cag_fail_nomem(err, "cache description");
}

static jv *prompt_json(const struct build_job *j)
{
    jv *o = jv_new_object();

    if (o && jv_set_str(o, "system", j->prompt.system) &&
        jv_set_str(o, "label", j->prompt.label) &&
        jv_set_str(o, "refusal", j->prompt.refusal) &&
        (!j->prompt.ack || jv_set_str(o, "acknowledgement", j->prompt.ack)))
        return o;
    jv_free(o);
    return NULL;
}

static jv *provenance_json(const struct build_job *j, const char *numerics,
                           const char *device)
{
    jv *o = jv_new_object();

    if (o &&
        jv_set_str(o, "precision",
                   cag_precision_name(j->o->engine.precision)) &&
        jv_set_str(o, "numerics", numerics) &&
        jv_set_str(o, "device", device) &&
        jv_set_str(o, "tool", "cag " CAG_VERSION))
        return o;
    jv_free(o);
    return NULL;
}

cag_status build_job_provenance(struct build_job *j, const char *numerics,
                                const char *device, cag_error *err)
{
    return jv_set(j->meta, "provenance", provenance_json(j, numerics, device))
               ? CAG_OK
               : cag_fail_nomem(err, "cache description");
}

/* An operand is a path too, also where it found no file of its own. */
static cag_status check_paths(const struct build_job *j, cag_error *err)
{
    cag_status st = source_path_check(j->model_path, j->dir, err);

    for (int i = 0; i < j->src.n && !st; i++) {
        st = source_path_check(j->src.v[i].path, j->dir, err);
        if (!st)
            st = source_path_check(j->src.v[i].group, j->dir, err);
    }
    for (int i = 0; i < j->o->n_source && !st; i++)
        if (j->o->source[i].title &&
            !utf8_valid(j->o->source[i].title, strlen(j->o->source[i].title),
                        NULL))
            st = cag_fail(err, CAG_E_FORMAT, NULL, -1,
                          "the title of a source is not UTF-8");
    return st;
}

static jv *build_json(const struct build_job *j)
{
    cag_build_opts used = *j->o;
    char hex[9];
    jv *o;

    if (!j->prompt.ack)
        used.acknowledgement = NULL; /* given, but nothing uses it */
    o = record_build(&used, j->n_ctx, j->reserve, j->dir);
    kvc_f32_hex(j->max_loss, hex);
    if (!o || !j->lossy || jv_set_str(o, "max_loss", hex))
        return o;
    jv_free(o);
    return NULL;
}

cag_status build_job_records(struct build_job *j, cag_error *err)
{
    cag_status st = check_paths(j, err);

    if (st)
        return st;
    j->meta = jv_new_object();
    if (!j->meta)
        return cag_fail_nomem(err, "cache description");
    st = binding_json(j, j->meta, err);
    if (st)
        return st;
    if (!jv_set(j->meta, "build", build_json(j)) ||
        !jv_set(j->meta, "model", model_json(j)) ||
        !jv_set(j->meta, "prompt", prompt_json(j)))
        return cag_fail_nomem(err, "cache description");
    j->sources = record_sources(&j->src, j->range, j->dir);
    if (!j->sources)
        return cag_fail_nomem(err, "source list");
    return prompt_to_json(&j->prompt, j->template_text, j->tok, j->date_s,
                          &j->prmt, err);
}

static cag_status compare_json(const jv *a, const jv *b, bool *same,
                               cag_error *err)
{
    struct buf x = BUF_INIT, y = BUF_INIT;
    cag_status st = CAG_OK;

    if (a && b) {
        st = jv_dump_canonical(a, &x, err);
        if (!st)
            st = jv_dump_canonical(b, &y, err);
    }
    *same =
        a && b && !st && x.size == y.size && !memcmp(x.data, y.data, x.size);
    buf_free(&x);
    buf_free(&y);
    return st;
}

static bool same_binding(const struct build_job *j)
{
    const jv *old = jv_get(kvc_meta(j->old), "binding");
    const jv *binding = jv_get(j->meta, "binding");

    for (void *it = jv_iter(binding); it; it = jv_next(binding, it)) {
        const char *v = jv_str(jv_iter_value(it), NULL);

        if (!v || strcmp(v, jv_get_str(old, jv_iter_key(it, NULL), "")))
            return false;
    }
    return true;
}

static bool same_text(const struct build_job *j)
{
    size_t n;
    const char *text = cag_kvc_text(j->old, &n);

    return text && n == j->prompt.size && !memcmp(text, j->prompt.text, n);
}

/* Everything recorded but where it was computed: provenance is no reason. */
cag_status build_job_is_fresh(const struct build_job *j, bool *fresh,
                              cag_error *err)
{
    static const char *const members[] = { "build", "model", "prompt" };
    const cag_kvc_info *info = j->old ? cag_kvc_get_info(j->old) : NULL;
    const jv *meta = j->old ? kvc_meta(j->old) : NULL;
    bool same = j->old && !strcmp(info->codec, j->codec) &&
                info->n_source == (int)jv_count(j->sources) &&
                same_binding(j) && same_text(j);
    cag_status st = CAG_OK;

    for (size_t i = 0; same && !st && i < sizeof members / sizeof *members; i++)
        st = compare_json(jv_get(j->meta, members[i]), jv_get(meta, members[i]),
                          &same, err);
    if (same && !st)
        st = compare_json(j->sources, kvc_sources(j->old), &same, err);
    if (same && !st)
        st = compare_json(j->prmt, kvc_prmt(j->old), &same, err);
    *fresh = same && !st;
    return st;
}

/* ---------------------------------------------------------------- reasons */

struct say {
    build_reason_fn *fn;
    void *ctx;
    int n;
    cag_error *err;
};

static cag_status say(struct say *s, const char *what, const char *why)
{
    s->n++;
    return s->fn(s->ctx, what, why, s->err);
}

/* The members of two objects that differ, by name; from is their object's. */
static cag_status say_members(struct say *s, const char *from, const jv *now,
                              const jv *old, const char *const *but)
{
    cag_status st = CAG_OK;

    for (int twice = 0; twice < 2; twice++) {
        const jv *a = twice ? old : now, *b = twice ? now : old;

        for (void *it = a ? jv_iter(a) : NULL; it && !st; it = jv_next(a, it)) {
            const char *key = jv_iter_key(it, NULL);
            const jv *x = jv_iter_value(it), *y = jv_get(b, key);
            bool same = false, skip = twice && y; /* seen the first time */
            char what[128];

            for (size_t i = 0; but && but[i]; i++)
                skip = skip || !strcmp(but[i], key);
            if (!skip && y)
                st = compare_json(x, y, &same, s->err);
            snprintf(what, sizeof what, "%s%s", from, key);
            if (!st && !skip && !same)
                st = say(s, what, "changed");
        }
    }
    return st;
}

static const jv *source_of(const jv *list, const char *path)
{
    for (size_t i = 0; path && i < jv_count(list); i++)
        if (!strcmp(jv_get_str(jv_at(list, i), "path", ""), path))
            return jv_at(list, i);
    return NULL;
}

static cag_status say_sources(struct say *s, const jv *now, const jv *old)
{
    cag_status st = CAG_OK;

    for (size_t i = 0; i < jv_count(now) && !st; i++) {
        const char *path = jv_get_str(jv_at(now, i), "path", NULL);
        const jv *was = source_of(old, path);

        if (path && !was)
            st = say(s, path, "new file");
        else if (path && (strcmp(jv_get_str(jv_at(now, i), "sha256_raw", ""),
                                 jv_get_str(was, "sha256_raw", "")) ||
                          strcmp(jv_get_str(jv_at(now, i), "sha256_text", ""),
                                 jv_get_str(was, "sha256_text", ""))))
            st = say(s, path, "changed");
    }
    for (size_t i = 0; i < jv_count(old) && !st; i++) {
        const char *path = jv_get_str(jv_at(old, i), "path", NULL);

        if (path && !source_of(now, path))
            st = say(s, path, "is no source any more");
    }
    return st;
}

cag_status build_job_reasons(const struct build_job *j, build_reason_fn *fn,
                             void *ctx, cag_error *err)
{
    static const char *const sources[] = { "sources", NULL };
    struct say s = { fn, ctx, 0, err };
    const jv *old = kvc_meta(j->old);
    cag_status st = say_sources(&s, j->sources, kvc_sources(j->old));

    if (!st && strcmp(cag_kvc_get_info(j->old)->codec, j->codec))
        st = say(&s, "codec", "changed");
    if (!st)
        st = say_members(&s, "", jv_get(j->meta, "build"), jv_get(old, "build"),
                         sources);
    if (!st)
        st = say_members(&s, "prompt: ", jv_get(j->meta, "prompt"),
                         jv_get(old, "prompt"), NULL);
    if (!st)
        st = say_members(&s, "model: ", jv_get(j->meta, "model"),
                         jv_get(old, "model"), NULL);
    /* the rest of what is compared has no name that a user gave it */
    if (!st && !s.n)
        st = same_binding(j) ? say(&s, "sources", "named in another way")
                             : say(&s, "chat template", "changed");
    return st;
}

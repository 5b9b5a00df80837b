/*
 * record.c - see record.h.
 */
#include "binding/record.h"

#include <string.h>
#include <sys/stat.h>

#include "kvc/kvc_read.h"
#include "source/source_path.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/text.h"

bool record_set_str(jv *o, const char *key, const char *s)
{
    return s ? jv_set_str(o, key, s) : jv_set(o, key, jv_new_null());
}

const char *cag_calibrate_name(int i)
{
    static const char *const name[] = { "auto", "off", "heads" };

    return i >= 0 && i < 3 ? name[i] : NULL;
}

static const char *spec_kind(const cag_source_spec *s)
{
    struct stat sb;

    if (!strcmp(s->path, "-"))
        return "stream";
    if (s->is_glob)
        return "glob";
    if (stat(s->path, &sb) == 0) {
        if (S_ISDIR(sb.st_mode))
            return "directory";
        if (!S_ISREG(sb.st_mode))
            return "stream";
    }
    return "file";
}

static jv *strings_json(const char *const *argv)
{
    jv *a = jv_new_array();

    for (int i = 0; a && argv[i]; i++)
        if (!jv_append(a, jv_new_str(argv[i], strlen(argv[i])))) {
            jv_free(a);
            a = NULL;
        }
    return a;
}

static jv *spec_json(const cag_source_spec *s, const char *dir)
{
    const char *kind = spec_kind(s);
    const char *const *filter = source_filter_of(s);
    bool stream = !strcmp(kind, "stream");
    char *rel = stream ? NULL : source_path(s->path, dir);
    jv *o = jv_new_object();
    bool ok = o && (stream || rel) && jv_set_str(o, "kind", kind) &&
              record_set_str(o, "path", rel) &&
              record_set_str(o, "title", s->title);

    if (ok)
        ok = jv_set(o, "filter", filter ? strings_json(filter) : jv_new_null());
    mem_free(rel);
    if (!ok) {
        jv_free(o);
        return NULL;
    }
    return o;
}

static jv *template_json(const cag_build_opts *o)
{
    jv *t = jv_new_object();

    if (t &&
        jv_set_str(t, "kind",
                   o->chat_template_text ? "text"
                   : o->chat_template    ? "builtin"
                                         : "model") &&
        record_set_str(t, "name", o->chat_template))
        return t;
    jv_free(t);
    return NULL;
}

bool record_was_default(const jv *build, const char *part)
{
    const jv *list = jv_get(build, "default");

    for (size_t i = 0; i < jv_count(list); i++) {
        const char *s = jv_str(jv_at(list, i), NULL);

        if (s && !strcmp(s, part))
            return true;
    }
    return false;
}

jv *record_build(const cag_build_opts *o, int64_t n_ctx, int64_t reserve,
                 const char *dir)
{
    jv *b = jv_new_object(), *list = jv_new_array(), *def = jv_new_array();
    bool ok = b && list && def;

    for (int i = 0; ok && i < o->n_source; i++)
        ok = jv_append(list, spec_json(&o->source[i], dir));
    if (ok && !o->system)
        ok = jv_append(def, jv_new_str("system", 6));
    if (ok && !o->label)
        ok = jv_append(def, jv_new_str("label", 5));
    if (ok && !o->refusal)
        ok = jv_append(def, jv_new_str("refusal", 7));
    if (ok && !o->acknowledgement)
        ok = jv_append(def, jv_new_str("acknowledgement", 15));
    if (ok && o->include)
        ok = jv_set(b, "include", strings_json(o->include));
    if (ok && o->exclude)
        ok = jv_set(b, "exclude", strings_json(o->exclude));
    if (ok) {
        ok = jv_set(b, "sources", list);
        list = NULL;
    }
    if (ok) {
        ok = jv_set(b, "default", def);
        def = NULL;
    }
    ok = ok && jv_set(b, "template", template_json(o)) &&
         jv_set_bool(b, "drop_front_matter", o->drop_front_matter) &&
         jv_set_int(b, "n_ctx", n_ctx) && jv_set_int(b, "reserve", reserve);
    /* the default is not written: caches of before say nothing */
    if (ok && o->calibrate != CAG_CALIBRATE_AUTO)
        ok = jv_set_str(b, "calibrate", cag_calibrate_name(o->calibrate));
    if (ok)
        return b;
    jv_free(b);
    jv_free(list);
    jv_free(def);
    return NULL;
}

static jv *source_json(const struct source *v, const struct record_range *r,
                       const char *dir)
{
    char raw[2 * SHA256_SIZE + 1], text[2 * SHA256_SIZE + 1];
    char *rel = v->path ? source_path(v->path, dir) : NULL;
    char *group = v->group ? source_path(v->group, dir) : NULL;
    const char *const *argv = source_filter_of(v->spec);
    struct buf filter = BUF_INIT;
    jv *o = jv_new_object();
    bool ok = o && (rel || !v->path) && (group || !v->group);

    for (int i = 0; argv && argv[i]; i++)
        buf_printf(&filter, "%s%s", i ? " " : "", argv[i]);
    hash_hex(v->sha_raw, SHA256_SIZE, raw);
    hash_hex(v->sha_text, SHA256_SIZE, text);
    ok = ok && !buf_failed(&filter) && jv_set_str(o, "name", v->name) &&
         record_set_str(o, "path", rel) && record_set_str(o, "group", group) &&
         record_set_str(o, "filter", argv ? filter.data : NULL) &&
         jv_set_int(o, "size_bytes", (int64_t)v->raw_bytes) &&
         jv_set_str(o, "sha256_raw", raw) &&
         jv_set_str(o, "sha256_text", text) &&
         jv_set_int(o, "text_off", (int64_t)r->text_off) &&
         jv_set_int(o, "text_bytes", (int64_t)r->text_bytes) &&
         jv_set_int(o, "tok_begin", r->tok_begin) &&
         jv_set_int(o, "tok_end", r->tok_end);
    mem_free(rel);
    mem_free(group);
    buf_free(&filter);
    if (ok)
        return o;
    jv_free(o);
    return NULL;
}

jv *record_sources(const struct source_set *s, const struct record_range *r,
                   const char *dir)
{
    jv *list = jv_new_array();

    for (int i = 0; list && i < s->n; i++)
        if (!jv_append(list, source_json(&s->v[i], &r[i], dir))) {
            jv_free(list);
            list = NULL;
        }
    return list;
}

/* Recorded strings, what they are being said by what ("a filter"); NULL where
 * there are none. */
static cag_status strings_from_json(const jv *list, const char *what,
                                    const char *file, struct arena *a,
                                    const char *const **argv, cag_error *err)
{
    size_t n = jv_count(list), len;
    const char **v;

    *argv = NULL;
    if (jv_type(list) != JV_ARRAY)
        return CAG_OK;
    v = arena_array(a, n + 1, sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        const char *s = jv_str(jv_at(list, i), &len);

        if (!s)
            return cag_fail(err, CAG_E_FORMAT, file, -1,
                            "section META: a word of %s is %s, expected a "
                            "string",
                            what, jv_type_name(jv_at(list, i)));
        v[i] = arena_strndup(a, s, len);
        if (!v[i])
            v = NULL;
    }
    *argv = v;
    return v ? CAG_OK : cag_fail_nomem(err, "recorded sources");
}

static cag_status spec_from_json(const jv *o, const char *file, const char *dir,
                                 struct arena *a, cag_source_spec *s,
                                 bool *stream, cag_error *err)
{
    const char *kind = jv_get_str(o, "kind", "");
    const char *path = jv_get_str(o, "path", NULL);
    const char *title = jv_get_str(o, "title", NULL);
    char *abs;
    cag_status st;

    memset(s, 0, sizeof *s);
    *stream = !strcmp(kind, "stream") || !path;
    if (*stream)
        return CAG_OK;
    st = strings_from_json(jv_get(o, "filter"), "a filter", file, a,
                           &s->filter_was, err);
    if (st)
        return st;
    abs = file_join(dir, path);
    s->path = abs ? arena_strndup(a, abs, strlen(abs)) : NULL;
    mem_free(abs);
    s->title = title ? arena_strndup(a, title, strlen(title)) : NULL;
    s->is_glob = !strcmp(kind, "glob");
    return s->path && (s->title || !title)
               ? CAG_OK
               : cag_fail_nomem(err, "recorded sources");
}

cag_status record_patterns(const cag_kvc *k, const char *which, struct arena *a,
                           const char *const **list, cag_error *err)
{
    return strings_from_json(jv_get(jv_get(kvc_meta(k), "build"), which), which,
                             cag_kvc_get_info(k)->path, a, list, err);
}

cag_status record_specs(const cag_kvc *k, struct arena *a,
                        cag_source_spec **spec, int *n_spec, int *n_stream,
                        cag_error *err)
{
    const jv *list = jv_get(jv_get(kvc_meta(k), "build"), "sources");
    size_t n = jv_count(list);
    const char *file = cag_kvc_get_info(k)->path;
    char *dir = source_dir_of(file);
    cag_source_spec *v = arena_array(a, n ? n : 1, sizeof *v);
    cag_status st = CAG_OK;

    *n_spec = *n_stream = 0;
    *spec = v;
    if (!dir || !v)
        st = cag_fail_nomem(err, "recorded sources");
    for (size_t i = 0; i < n && !st; i++) {
        bool stream = false;

        st = spec_from_json(jv_at(list, i), file, dir, a, &v[*n_spec], &stream,
                            err);
        *n_spec += !stream;
        *n_stream += stream;
    }
    mem_free(dir);
    return st;
}

/*
 * model_files.c - see model_files.h.
 */
#include "binding/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kvc/kvc_read.h"
#include "binding/record.h"
#include "model/model.h"
#include "model/model_find.h"
#include "model/model_place.h"
#include "source/source_path.h"
#include "util/file.h"
#include "util/mem.h"

/* Files of a model directory that decide what the model computes or reads. */
static bool is_model_file(const char *name)
{
    static const char *const known[] = { "config.json",
                                         "generation_config.json",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json" };
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i]))
            return true;
    return (n > 12 && !strcmp(name + n - 12, ".safetensors")) ||
           (n > 23 && !strcmp(name + n - 23, ".safetensors.index.json"));
}

static bool lies_in(const char *path, const char *dir)
{
    char *at = file_dirname(path);
    struct file_id a, b;
    bool same = at && file_stat(at, &a, NULL) == CAG_OK &&
                file_stat(dir, &b, NULL) == CAG_OK && a.dev == b.dev &&
                a.ino == b.ino;

    mem_free(at);
    return same;
}

/* Is path one of the files that the GGUF model is in? */
static bool is_part_of(const char *path, const char *model)
{
    struct file_id id, part;
    cag_model *m = NULL;
    bool yes = false;

    if (!model_is_part(model) || file_stat(path, &id, NULL) ||
        cag_model_open(model, CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER, &m,
                       NULL))
        return false;
    for (int i = 0; i < m->n_file && !yes; i++)
        yes = file_stat(m->file[i], &part, NULL) == CAG_OK &&
              part.dev == id.dev && part.ino == id.ino;
    cag_model_close(m);
    return yes;
}

bool model_files_has(const char *path, const char *model)
{
    char *real = file_follow(path);
    const char *base = strrchr(path, '/');
    bool yes = false;

    if (file_is_dir(model)) {
        yes = is_model_file(base ? base + 1 : path) && lies_in(path, model);
        base = real ? strrchr(real, '/') : NULL;
        yes = yes || (real && is_model_file(base ? base + 1 : real) &&
                      lies_in(real, model));
    }
    mem_free(real);
    return yes || is_part_of(path, model);
}

static cag_status add_file(struct model_files *f, const char *path,
                           const struct fingerprint_memory *mem, cag_error *err)
{
    struct model_file *v = mem_realloc(f->v, (size_t)(f->n + 1) * sizeof *v);
    const char *base = strrchr(path, '/');
    cag_status st;

    if (!v)
        return cag_fail_nomem(err, "model files");
    f->v = v;
    v += f->n;
    memset(v, 0, sizeof *v);
    st = file_stat(path, &v->id, err);
    if (!st)
        st = fingerprint_file(path, mem, v->sha256, err);
    if (st)
        return st;
    v->name = mem_strdup(base ? base + 1 : path);
    if (!v->name)
        return cag_fail_nomem(err, "model files");
    f->n++;
    return CAG_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct model_file *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* A GGUF in several files: those that belong together, whichever is named. */
static cag_status list_parts(const char *path,
                             const struct fingerprint_memory *mem,
                             struct model_files *f, cag_error *err)
{
    cag_model *m = NULL;
    cag_status st = cag_model_open(
        path, CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER, &m, err);

    for (int i = 0; !st && i < m->n_file; i++)
        st = add_file(f, m->file[i], mem, err);
    cag_model_close(m);
    return st;
}

cag_status model_files_list(const char *path,
                            const struct fingerprint_memory *mem,
                            struct model_files *out, cag_error *err)
{
    struct fingerprint_memory own = { .dir = NULL };
    struct model_files f = { NULL, 0 };
    cag_status st = CAG_OK;
    struct dirent *e;
    DIR *d;

    if (mem)
        own = *mem;
    own.min_bytes = FINGERPRINT_MODEL_BYTES;
    if (model_is_part(path)) {
        st = list_parts(path, &own, &f, err);
    } else if (!file_is_dir(path)) {
        st = add_file(&f, path, &own, err);
    } else if (!(d = opendir(path))) {
        st = cag_fail_sys(err, CAG_E_MISSING, errno, path,
                          "cannot read directory");
    } else {
        while (!st && (e = readdir(d)) != NULL) {
            char *p;

            if (!is_model_file(e->d_name))
                continue;
            p = file_join(path, e->d_name);
            st = p ? add_file(&f, p, &own, err)
                   : cag_fail_nomem(err, "model files");
            mem_free(p);
        }
        closedir(d);
        if (!st && f.n == 0)
            st = cag_fail(err, CAG_E_MISSING, path, -1,
                          "no model in this directory");
    }
    if (st) {
        model_files_release(&f);
        return st;
    }
    qsort(f.v, (size_t)f.n, sizeof *f.v, by_name);
    *out = f;
    return CAG_OK;
}

/* Files of a model in dir; -1 if it cannot be read. */
static int count_files(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = d ? 0 : -1;

    while (d && (e = readdir(d)) != NULL)
        n += is_model_file(e->d_name);
    if (d)
        closedir(d);
    return n;
}

bool model_files_unchanged(const struct model_files *f, const char *path)
{
    bool is_dir = file_is_dir(path), same;
    char *dir = is_dir ? mem_strdup(path) : file_dirname(path);

    same = dir && f->n && (!is_dir || count_files(dir) == f->n);
    for (int i = 0; same && i < f->n; i++) {
        char *p = is_dir || f->n > 1 ? file_join(dir, f->v[i].name)
                                     : mem_strdup(path);
        struct file_id id;

        same = p && file_stat(p, &id, NULL) == CAG_OK &&
               file_id_same(&id, &f->v[i].id) && !fingerprint_is_young(&id);
        mem_free(p);
    }
    mem_free(dir);
    return same;
}

void model_files_release(struct model_files *f)
{
    for (int i = 0; i < f->n; i++)
        mem_free(f->v[i].name);
    mem_free(f->v);
    *f = (struct model_files){ NULL, 0 };
}

bool model_files_same(const struct model_files *f, const jv *recorded)
{
    if ((size_t)f->n != jv_count(recorded))
        return false;
    for (int i = 0; i < f->n; i++) {
        const jv *r = jv_at(recorded, (size_t)i);
        char hex[2 * SHA256_SIZE + 1];

        hash_hex(f->v[i].sha256, SHA256_SIZE, hex);
        if (strcmp(hex, jv_get_str(r, "sha256", "")))
            return false;
        /* a GGUF may be renamed, a directory's files may not */
        if (f->n > 1 && !model_is_part(f->v[i].name) &&
            strcmp(f->v[i].name, jv_get_str(r, "name", "")))
            return false;
    }
    return true;
}

jv *model_files_json(const struct model_files *f)
{
    jv *list = jv_new_array();

    for (int i = 0; list && i < f->n; i++) {
        char hex[2 * SHA256_SIZE + 1];
        jv *o = jv_new_object();

        hash_hex(f->v[i].sha256, SHA256_SIZE, hex);
        if (!o || !jv_set_str(o, "name", f->v[i].name) ||
            !jv_set_str(o, "sha256", hex) ||
            !jv_set_int(o, "size_bytes", (int64_t)f->v[i].id.size_bytes)) {
            jv_free(o);
            o = NULL;
        }
        if (!jv_append(list, o)) {
            jv_free(list);
            list = NULL;
        }
    }
    return list;
}

cag_status model_files_recorded(const cag_kvc *k, const char *kvc_dir,
                                const cag_places *places, char **path,
                                cag_error *err)
{
    const cag_kvc_info *info = cag_kvc_get_info(k);
    char *p = info->model_path ? file_join(kvc_dir, info->model_path) : NULL;

    if (info->model_path && !p)
        return cag_fail_nomem(err, "model path");
    if (p && file_exists(p)) {
        *path = p;
        return CAG_OK;
    }
    if (info->model_hub) {
        mem_free(p);
        return model_find_hub(info->model_hub, places ? places->hf_hub : NULL,
                              path, err);
    }
    cag_fail(err, CAG_E_MISSING, p ? p : info->model_name, -1,
             "the cache's model is not there");
    mem_free(p);
    return CAG_E_MISSING;
}

/* ------------------------------------------------------ the one to ask with */

/* A search for the model of a cache.  It ends when path is set, or st. */
struct hunt {
    const cag_kvc *k;
    const struct fingerprint_memory *mem;
    const cag_model_search *search;
    struct buf tried;
    cag_error other; /* the first that was another model */
    char *path;      /* the one */
    cag_status st;   /* what ends a search without one: memory is short */
    cag_error *err;
};

static struct hunt begin(const cag_kvc *k, const struct fingerprint_memory *mem,
                         const cag_model_search *search, cag_error *err)
{
    return (struct hunt){ .k = k,
                          .mem = mem,
                          .search = search,
                          .tried = BUF_INIT,
                          .other = CAG_ERROR_INIT,
                          .err = err };
}

static bool is_over(const struct hunt *h)
{
    return h->path || h->st;
}

/* The first file that is not the recorded one, with both digests. */
static cag_status fail_other(const struct hunt *h, const char *path,
                             const struct model_files *f, const jv *recorded,
                             cag_error *err)
{
    char hex[2 * SHA256_SIZE + 1];
    const char *want = "";
    int i = 0;

    for (; i < f->n; i++) {
        hash_hex(f->v[i].sha256, SHA256_SIZE, hex);
        want = jv_get_str(jv_at(recorded, (size_t)i), "sha256", "no such file");
        if (strcmp(hex, want))
            break;
    }
    if (i == f->n)
        return cag_fail(err, CAG_E_MISMATCH, path, -1,
                        "another model than the cache's (%s): %d files, the "
                        "cache was made with %zu",
                        cag_kvc_get_info(h->k)->model_name, f->n,
                        jv_count(recorded));
    return cag_fail(err, CAG_E_MISMATCH, path, -1,
                    "another model than the cache's (%s): %s has SHA-256 "
                    "%.16s..., the cache was made with %.16s...",
                    cag_kvc_get_info(h->k)->model_name, f->v[i].name, hex,
                    want);
}

/* A file of another size is another one: nobody waits for its hash. */
static cag_status check_size(const struct hunt *h, const char *path,
                             const jv *recorded, cag_error *err)
{
    int64_t want = jv_get_int(jv_at(recorded, 0), "size_bytes", -1);
    struct file_id id;

    if (jv_count(recorded) != 1 || file_is_dir(path) ||
        file_stat(path, &id, NULL) || (int64_t)id.size_bytes == want)
        return CAG_OK;
    return cag_fail(err, CAG_E_MISMATCH, path, -1,
                    "another model than the cache's (%s): it has %llu bytes, "
                    "the cache was made with one of %lld",
                    cag_kvc_get_info(h->k)->model_name,
                    (unsigned long long)id.size_bytes, (long long)want);
}

/* CAG_OK: it is the one.  CAG_E_MISMATCH: it is another.  Else unreadable. */
static cag_status try_path(struct hunt *h, const char *path, cag_error *err)
{
    const jv *recorded = jv_get(jv_get(kvc_meta(h->k), "model"), "files");
    struct model_files f = { NULL, 0 };
    cag_status st = check_size(h, path, recorded, err);

    if (!st)
        st = model_files_list(path, h->mem, &f, err);
    if (!st && !model_files_same(&f, recorded))
        st = fail_other(h, path, &f, recorded, err);
    model_files_release(&f);
    return st;
}

/* Try a candidate that may be missing or wrong.  path is taken over; NULL is
 * memory that is short. */
static void accept(struct hunt *h, const char *what, char *path)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (!path)
        h->st = cag_fail_nomem(h->err, "model path");
    if (is_over(h)) {
        mem_free(path);
        return;
    }
    if (!file_exists(path)) {
        buf_printf(&h->tried, "%s%s %s (not there)", h->tried.size ? ", " : "",
                   what, path);
        mem_free(path);
        return;
    }
    st = try_path(h, path, &why);
    if (!st) {
        h->path = path;
        return;
    }
    if (st == CAG_E_NOMEM)
        h->st = cag_error_copy(h->err, &why);
    if (st == CAG_E_MISMATCH && !h->other.status)
        h->other = why;
    buf_printf(&h->tried, "%s%s %s (%s)", h->tried.size ? ", " : "", what, path,
               st == CAG_E_MISMATCH ? "another model" : why.msg);
    mem_free(path);
}

/* A model named by the user, or by the id that the cache records. */
static void accept_spec(struct hunt *h, const char *what, const char *spec,
                        bool recorded)
{
    cag_error why = CAG_ERROR_INIT;
    char *path = NULL;
    cag_status st;

    if (is_over(h) || !spec)
        return;
    st = recorded ? model_find_hub(spec, h->search->hf_hub, &path, &why)
                  : cag_model_find(spec, h->search, &path, &why);
    if (!st) {
        accept(h, what, path);
        return;
    }
    if (st == CAG_E_NOMEM)
        h->st = cag_error_copy(h->err, &why);
    buf_printf(&h->tried, "%s%s %s (not there)", h->tried.size ? ", " : "",
               what, spec);
}

/* The file names of a recorded model below each directory of models. */
static void accept_dirs(struct hunt *h, const char *dirs)
{
    const jv *recorded = jv_get(jv_get(kvc_meta(h->k), "model"), "files");
    const cag_kvc_info *info = cag_kvc_get_info(h->k);
    const char *base = info->model_path ? strrchr(info->model_path, '/') : NULL;
    const char *name = base ? base + 1 : info->model_path;

    if (!name && jv_count(recorded) == 1)
        name = jv_get_str(jv_at(recorded, 0), "name", NULL);
    while (name && dirs && *dirs && !is_over(h)) {
        size_t n = strcspn(dirs, ":");
        char *dir = n ? mem_strndup(dirs, n) : NULL;

        if (n) /* an empty part names no directory */
            accept(h, "CAG_MODELS:", dir ? file_join(dir, name) : NULL);
        mem_free(dir);
        dirs += n + (dirs[n] == ':');
    }
}

/* Where a file with the recorded digest was when it was last hashed: the
 * largest one, and of a directory's files, that directory. */
static void accept_place(struct hunt *h)
{
    const jv *recorded = jv_get(jv_get(kvc_meta(h->k), "model"), "files");
    const char *digest = "";
    int64_t most = -1;
    char *path;

    for (size_t i = 0; i < jv_count(recorded); i++) {
        const jv *f = jv_at(recorded, i);
        int64_t size = jv_get_int(f, "size_bytes", 0);

        if (size > most) {
            most = size;
            digest = jv_get_str(f, "sha256", "");
        }
    }
    /* where another model stands now, the user is told of that one */
    path = is_over(h) || h->other.status
               ? NULL
               : model_place_find(h->mem->dir, digest);
    if (path && jv_count(recorded) > 1 && !model_is_part(path)) {
        char *dir = file_dirname(path);

        mem_free(path);
        path = dir;
    }
    if (path)
        accept(h, "last seen at", path);
}

/* Every place in turn; hint is how the user can name one. */
static cag_status hunt(struct hunt *h, const cag_places *places,
                       const char *hint, char **path)
{
    const cag_kvc_info *info = cag_kvc_get_info(h->k);
    char *dir = source_dir_of(info->path);

    if (!dir)
        return cag_fail_nomem(h->err, "path");
    if (info->model_path)
        accept(h, "recorded path", file_join(dir, info->model_path));
    accept_spec(h, "hub id", info->model_hub, true);
    accept_spec(h, "CAG_MODEL", places->model, false);
    accept_dirs(h, places->models);
    accept_place(h);
    if (h->path)
        *path = h->path;
    else if (!h->st && h->other.status)
        h->st = cag_fail(h->err, CAG_E_MISMATCH, h->other.file, -1,
                         "%s; tried: %s", h->other.msg, h->tried.data);
    else if (!h->st)
        h->st = cag_fail(h->err, CAG_E_MISSING, info->path, -1,
                         "the model of this cache (%s) was not found; tried: "
                         "%s; name it with %s",
                         info->model_name,
                         h->tried.size ? h->tried.data : "nothing is recorded",
                         hint);
    buf_free(&h->tried);
    mem_free(dir);
    return h->st;
}

cag_status model_files_locate(const cag_kvc *k, const char *wanted,
                              const cag_places *places,
                              const struct fingerprint_memory *mem, char **path,
                              cag_error *err)
{
    cag_model_search search = { places->hf_hub, places->models };
    struct hunt h = begin(k, mem, &search, err);
    char *p = NULL;

    if (!wanted)
        return hunt(&h, places, "-m or CAG_MODEL", path);
    h.st = cag_model_find(wanted, &search, &p, err);
    if (!h.st)
        h.st = try_path(&h, p, err);
    if (h.st)
        mem_free(p);
    else
        *path = p;
    return h.st;
}

cag_status model_files_look(const cag_kvc *k, const cag_places *places,
                            const struct fingerprint_memory *mem, char **path,
                            cag_error *err)
{
    cag_model_search search = { places->hf_hub, places->models };
    struct hunt h = begin(k, mem, &search, err);

    return hunt(&h, places, "CAG_MODEL", path);
}

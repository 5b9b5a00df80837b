/*
 * freshness.c - does a cache still fit what it was made from?
 *
 * Sources are always hashed (they fit a context, so it costs a millisecond);
 * a time stamp never decides.  A source that is absent while others, or the
 * directory it was in, are there was deleted: the cache is stale.  When none
 * can be seen, the cache was carried to another machine: that is said, and is
 * not staleness.  Files are read to compare their digests and for nothing else.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kvc/kvc_read.h"
#include "model/fingerprint.h"
#include "model/model.h"
#include "binding/freshness.h"
#include "binding/model_files.h"
#include "binding/rebuild_hint.h"
#include "source/source_path.h"
#include "util/note.h"
#include "binding/record.h"
#include "util/file.h"
#include "util/mem.h"

#define MAX_ENTRIES 200000 /* names that are looked at for new files */

struct check {
    const cag_kvc *k;
    bool lost; /* a source that was named itself is gone */
    cag_check_report *r;
    struct fingerprint_memory mem;
    char *dir;     /* of the .kvc */
    bool filtered; /* a reason is with a filtered source */
};

static cag_status add_line(char ***v, int *n, char *line, cag_error *err)
{
    char **grown;

    if (!line)
        return cag_fail_nomem(err, "check report");
    grown = mem_realloc(*v, (size_t)(*n + 1) * sizeof **v);
    if (!grown) {
        mem_free(line);
        return cag_fail_nomem(err, "check report");
    }
    *v = grown;
    grown[(*n)++] = line;
    return CAG_OK;
}

static cag_status add(char ***v, int *n, cag_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static cag_status add(char ***v, int *n, cag_error *err, const char *fmt, ...)
{
    struct buf b = BUF_INIT;
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    buf_str(&b, line);
    return add_line(v, n, buf_detach(&b, NULL), err);
}

static cag_status stale(struct check *c, cag_error *err, const char *what,
                        const char *why)
{
    return add(&c->r->reason, &c->r->n_reason, err, "%s: %s", what, why);
}

static cag_status unseen(struct check *c, cag_error *err, const char *what,
                         const char *why)
{
    return add(&c->r->unseen, &c->r->n_unseen, err, "%s: %s", what, why);
}

/* At none of the places where a question would look for it, either? */
static cag_status look_for_model(struct check *c, const cag_places *places,
                                 cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    struct buf b = BUF_INIT;
    char *path = NULL;
    cag_status st = places
                        ? model_files_look(c->k, places, &c->mem, &path, &why)
                        : CAG_E_MISSING;

    if (st == CAG_E_NOMEM)
        return cag_error_copy(err, &why);
    mem_free(path);
    c->r->model_seen = !st;
    if (!st)
        return CAG_OK;
    buf_str(&b, why.msg[0] ? why.msg : "the model is not there");
    c->r->model_unseen = buf_detach(&b, NULL);
    return c->r->model_unseen ? CAG_OK : cag_fail_nomem(err, "check report");
}

enum seen { SEEN_EQUAL, SEEN_DIFFERENT, SEEN_ABSENT, SEEN_NOT };

static cag_status look(struct check *c, const cag_kvc_source *s,
                       enum seen *seen, cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];
    struct stat sb;
    char *path = file_join(c->dir, s->path);
    cag_status st = CAG_OK;

    if (!path)
        return cag_fail_nomem(err, "source path");
    if (stat(path, &sb) != 0) {
        *seen = errno == ENOENT || errno == ENOTDIR ? SEEN_ABSENT : SEEN_NOT;
    } else if (!S_ISREG(sb.st_mode)) {
        *seen = SEEN_DIFFERENT;
    } else if ((uint64_t)sb.st_size != s->size_bytes) {
        *seen = SEEN_DIFFERENT;
    } else {
        st = fingerprint_file(path, &c->mem, digest, err);
        if (!st) {
            hash_hex(digest, SHA256_SIZE, hex);
            *seen = strcmp(hex, s->sha256_raw) ? SEEN_DIFFERENT : SEEN_EQUAL;
        } else if (st != CAG_E_NOMEM) {
            *seen = SEEN_NOT; /* no permission, an I/O error */
            st = CAG_OK;
        }
    }
    mem_free(path);
    return st;
}

/* Does every part of rel lead up? */
static bool leads_up(const char *rel)
{
    for (;; rel += strspn(rel, "/")) {
        size_t n = strcspn(rel, "/");

        if (n > 2 || strspn(rel, ".") < n)
            return false;
        rel += n;
        if (!*rel)
            return true;
    }
}

/*
 * Is the directory there that a source was found in, so that it is deleted and
 * not merely elsewhere?  The cache's own directory and those above it are there
 * wherever the cache was carried to; they count where the lock of its build
 * lies beside it.
 */
static bool place_is_there(const struct check *c, const cag_kvc_source *s)
{
    struct buf lock = BUF_INIT;
    char *dir = s->group ? file_join(c->dir, s->group) : NULL;
    char *rel =
        dir && file_is_dir(dir) ? mem_strdup(s->group) : file_dirname(s->path);
    char *place = rel ? file_join(c->dir, rel) : NULL;
    bool there = place && file_is_dir(place);

    if (there && leads_up(rel)) {
        buf_str(&lock, cag_kvc_get_info(c->k)->path);
        buf_str(&lock, ".lock");
        there = !buf_failed(&lock) && file_exists(lock.data);
        buf_free(&lock);
    }
    mem_free(place);
    mem_free(rel);
    mem_free(dir);
    return there;
}

static cag_status check_sources(struct check *c, cag_error *err)
{
    int n = cag_kvc_get_info(c->k)->n_source, n_seen = 0;
    enum seen *seen = mem_alloc_array((size_t)n + 1, sizeof *seen);
    cag_status st = seen ? CAG_OK : cag_fail_nomem(err, "check report");

    c->r->n_source = n;
    for (int i = 0; i < n && !st; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(c->k, i);

        seen[i] = SEEN_NOT;
        if (s->path)
            st = look(c, s, &seen[i], err);
        n_seen += seen[i] == SEEN_EQUAL || seen[i] == SEEN_DIFFERENT;
        c->filtered = c->filtered || (seen[i] == SEEN_DIFFERENT && s->filter);
    }
    for (int i = 0; i < n && !st; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(c->k, i);
        bool gone = seen[i] == SEEN_ABSENT && s->path &&
                    (n_seen || place_is_there(c, s));

        c->lost = c->lost || (gone && !s->group);
        if (!s->path)
            st = unseen(c, err, s->name,
                        "came from a pipe, cannot be "
                        "checked");
        else if (seen[i] == SEEN_DIFFERENT)
            st = stale(c, err, s->path, "changed");
        else if (gone)
            st = stale(c, err, s->path, "deleted or renamed");
        else if (seen[i] == SEEN_ABSENT || seen[i] == SEEN_NOT)
            st =
                unseen(c, err, s->path,
                       seen[i] == SEEN_ABSENT ? "not found" : "cannot be read");
    }
    mem_free(seen);
    return st;
}

/* A file that a recorded directory or glob would take today, but did not. */
static cag_status check_groups(struct check *c, cag_error *err)
{
    struct arena a = { NULL };
    struct source_set now = { .v = NULL };
    struct source_opts so = { .max_entries = MAX_ENTRIES };
    cag_source_spec *spec;
    cag_error why = CAG_ERROR_INIT;
    int n_spec, n_stream, n = cag_kvc_get_info(c->k)->n_source;
    cag_status st = record_specs(c->k, &a, &spec, &n_spec, &n_stream, err);

    if (!st)
        st = record_patterns(c->k, "include", &a, &so.include, err);
    if (!st)
        st = record_patterns(c->k, "exclude", &a, &so.exclude, err);
    for (int i = 0; i < n_spec && !st; i++) {
        bool dir = !spec[i].is_glob && file_is_dir(spec[i].path);

        if (!dir && !spec[i].is_glob)
            continue;
        why = (cag_error)CAG_ERROR_INIT;
        if (source_expand(&spec[i], 1, &so, &now, &why)) {
            if (why.status == CAG_E_NOMEM)
                st = cag_error_copy(err, &why);
            else if (why.status ==
                     CAG_E_LIMIT) /* a bound on hostile patterns */
                st = unseen(c, err, spec[i].path,
                            "too many files to look through, not checked");
            continue; /* nothing there: said source by source above */
        }
        for (int j = 0; j < now.n && !st; j++) {
            char *rel = source_path(now.v[j].path, c->dir);
            bool known = !rel;

            for (int m = 0; m < n && !known; m++) {
                const char *p = cag_kvc_get_source(c->k, m)->path;

                known = p && !strcmp(p, rel);
            }
            if (!rel)
                st = cag_fail_nomem(err, "source path");
            else if (!known)
                st = stale(c, err, rel, "new file");
            c->filtered = c->filtered || (!known && spec[i].filter_was);
            mem_free(rel);
        }
        source_release(&now);
    }
    arena_release(&a);
    return st;
}

/* A single file of another size needs no hash to be another model. */
static bool other_size(const char *path, const jv *recorded)
{
    struct file_id id;

    return jv_count(recorded) == 1 && !file_is_dir(path) &&
           file_stat(path, &id, NULL) == CAG_OK &&
           (int64_t)id.size_bytes !=
               jv_get_int(jv_at(recorded, 0), "size_bytes", -1);
}

static cag_status check_model(struct check *c, const cag_places *places,
                              cag_error *err)
{
    const jv *recorded = jv_get(jv_get(kvc_meta(c->k), "model"), "files");
    const cag_kvc_info *info = cag_kvc_get_info(c->k);
    struct model_files now = { NULL, 0 };
    cag_error why = CAG_ERROR_INIT;
    char *path = NULL;
    bool other;
    cag_status st = model_files_recorded(c->k, c->dir, places, &path, &why);

    if (st == CAG_E_NOMEM)
        return cag_error_copy(err, &why);
    if (st)
        return look_for_model(c, places, err);
    other = other_size(path, recorded);
    if (!other)
        st = model_files_list(path, &c->mem, &now, &why);
    if (st == CAG_E_NOMEM) {
        cag_error_copy(err, &why);
    } else if (st) {
        st = stale(c, err, path, "the model cannot be read any more");
    } else {
        c->r->model_seen = true;
        if (other || !model_files_same(&now, recorded))
            st = add(&c->r->reason, &c->r->n_reason, err,
                     "%s: is not the model the cache was made with (%s)", path,
                     info->model_name);
    }
    model_files_release(&now);
    mem_free(path);
    return st;
}

static cag_status check_all(const cag_kvc *k, const cag_places *places,
                            const cag_hooks *hooks, bool verify_full,
                            bool with_model, cag_check_report *r,
                            cag_error *err)
{
    cag_hooks own = { NULL, NULL, NULL };
    struct check c = { .k = k, .r = r };
    cag_status st;

    memset(r, 0, sizeof *r);
    if (hooks)
        own = *hooks;
    c.mem.announce = note_hashing;
    c.mem.ctx = &own;
    c.mem.dir = places ? places->cache_dir : NULL;
    c.mem.dir_ro = places ? places->cache_dir_ro : NULL;
    c.mem.ignore = verify_full;
    c.dir = source_dir_of(cag_kvc_get_info(k)->path);
    if (!c.dir)
        return cag_fail_nomem(err, "path");
    st = check_sources(&c, err);
    if (!st)
        st = check_groups(&c, err);
    if (!st && with_model)
        st = check_model(&c, places, err);
    mem_free(c.dir);
    if (st)
        return st;
    r->rebuild = rebuild_hint(k, c.filtered, c.lost);
    if (!r->rebuild)
        return cag_fail_nomem(err, "check report");
    if (r->n_reason)
        return cag_fail(err, CAG_E_STALE, cag_kvc_get_info(k)->path, -1,
                        "stale: %s%s; rebuild: %s", r->reason[0],
                        r->n_reason > 1 ? " (and more)" : "", r->rebuild);
    if (r->n_unseen)
        return cag_fail(err, CAG_E_MISSING, cag_kvc_get_info(k)->path, -1,
                        "%d of %d sources could not be checked: %s%s",
                        r->n_unseen, r->n_source, r->unseen[0],
                        r->n_unseen > 1 ? " (and more)" : "");
    if (r->model_unseen)
        return cag_fail(err, CAG_E_MISSING, cag_kvc_get_info(k)->path, -1,
                        "could not be checked: %s", r->model_unseen);
    return CAG_OK;
}

cag_status cag_check(const cag_kvc *k, const cag_places *places,
                     const cag_hooks *hooks, bool verify_full,
                     cag_check_report *r, cag_error *err)
{
    cag_status st = kvc_refuse_checkpoint(k, err);

    memset(r, 0, sizeof *r);
    if (!st && verify_full)
        st = cag_kvc_verify(k, 0, hooks ? hooks->progress : NULL,
                            hooks ? hooks->ctx : NULL, err);
    return st ? st : check_all(k, places, hooks, verify_full, true, r, err);
}

cag_status freshness_of_sources(const cag_kvc *k, const cag_places *places,
                                const cag_hooks *hooks, bool verify_full,
                                cag_check_report *r, cag_error *err)
{
    return check_all(k, places, hooks, verify_full, false, r, err);
}

void cag_check_report_release(cag_check_report *r)
{
    for (int i = 0; i < r->n_reason; i++)
        mem_free(r->reason[i]);
    for (int i = 0; i < r->n_unseen; i++)
        mem_free(r->unseen[i]);
    mem_free(r->rebuild);
    mem_free(r->model_unseen);
    mem_free(r->reason);
    mem_free(r->unseen);
    memset(r, 0, sizeof *r);
}

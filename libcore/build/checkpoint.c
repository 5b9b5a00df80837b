/*
 * checkpoint.c - see checkpoint.h.
 *
 * The prefill is cut at the engine's own passes, so saving changes no number.
 * A save that fails (a full disk) costs the safety net, never the build.
 */
#include "build/checkpoint.h"

#include "build/build_chunk.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/session.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_write.h"
#include "util/clock.h"
#include "util/note.h"
#include "tokenizer/tokenizer.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

#define SUFFIX          ".ckpt"
#define DEFAULT_EVERY_S 30.0
#define PASS_TOK        512 /* the engine's default chunk              */
#define COST_SHARE      10  /* a save may take a tenth of the time     */

static char *ckpt_path(const char *output)
{
    struct buf b = BUF_INIT;
    char *real = file_follow(output);

    if (real) {
        buf_str(&b, real);
        buf_str(&b, SUFFIX);
    }
    mem_free(real);
    return real ? buf_detach(&b, NULL) : NULL;
}

static bool is_checkpoint(const cag_kvc *k)
{
    return cag_kvc_get_info(k)->checkpoint_of > 0;
}

cag_status checkpoint_check_replace(const char *output, cag_error *err)
{
    char *path = ckpt_path(output);
    cag_kvc *k = NULL;
    const char *what = NULL;
    struct stat s;
    cag_status st = path ? CAG_OK : cag_fail_nomem(err, "path");

    if (st || lstat(path, &s) != 0)
        what = NULL;
    else if (S_ISLNK(s.st_mode))
        what = "a symbolic link";
    else if (kvc_check_replace(path, NULL))
        what = "a file";
    /* a cache under that name is worth as much as a text */
    else if (cag_kvc_open(path, &k, NULL) == CAG_OK && !is_checkpoint(k))
        what = "a cache";
    if (what)
        st = cag_fail(err, CAG_E_CREATE, path, -1,
                      "is %s and no checkpoint, so it is not replaced: move "
                      "it away, or build without --checkpoint",
                      what);
    cag_kvc_close(k);
    mem_free(path);
    return st;
}

cag_status checkpoint_open(const char *output, const cag_hooks *hooks,
                           cag_kvc **out, cag_error *err)
{
    char *path = ckpt_path(output);
    cag_error why = CAG_ERROR_INIT;
    cag_status st = CAG_OK;

    *out = NULL;
    if (!path)
        return cag_fail_nomem(err, "path");
    if (file_exists(path)) {
        st = cag_kvc_open(path, out, &why);
        if (st == CAG_E_NOMEM) {
            cag_error_copy(err, &why);
        } else if (st || !is_checkpoint(*out)) {
            note(hooks, CAG_NOTE_WARN,
                 "%s: ignored, it is no usable "
                 "checkpoint%s%s",
                 path, st ? ": " : "", st ? why.msg : "");
            cag_kvc_close(*out);
            *out = NULL;
            st = CAG_OK;
        }
    }
    mem_free(path);
    return st;
}

void checkpoint_remove(const char *output)
{
    struct file_place out = FILE_PLACE_NONE, at = FILE_PLACE_NONE;
    cag_kvc *k = NULL;
    cag_status st = file_place_find_path(&out, output, NULL);

    if (!st)
        st = file_place_beside(&at, &out, SUFFIX, NULL);
    if (!st) {
        st = cag_kvc_open(at.path, &k, NULL);
        /* somebody's file that only has that name stays */
        if (st == CAG_E_CORRUPT || (!st && is_checkpoint(k)))
            unlinkat(at.dir, at.name, 0);
        cag_kvc_close(k);
        file_out_clean(&at);
    }
    file_place_release(&at);
    file_place_release(&out);
}

/* -------------------------------------------------------------------- save */

/* META of the job, marked with how many tokens it is to have. */
static jv *marked_meta(const struct build_job *j)
{
    jv *meta = jv_copy(j->meta), *mark = jv_new_object();

    if (meta && mark && jv_set_int(mark, "of", (int64_t)j->ids.n)) {
        if (jv_set(meta, "checkpoint", mark))
            return meta;
        mark = NULL;
    }
    jv_free(meta);
    jv_free(mark);
    return NULL;
}

/* Bytes of the text whose tokens are saved, whole characters. */
static size_t text_of(const struct build_job *j, size_t n_tok)
{
    size_t n = n_tok < j->ids.n ? (size_t)j->ids.off[n_tok] : j->prompt.size;

    while (n < j->prompt.size && ((uint8_t)j->prompt.text[n] & 0xc0) == 0x80)
        n++;
    return n;
}

/* Room for a checkpoint only where the cache itself keeps its own. */
static cag_status check_room(const struct build_job *j, const char *path,
                             const struct kvc_desc *d, cag_error *err)
{
    struct kvc_desc all = { .shape = j->shape, .codec = j->codec };
    uint64_t need = kvc_size_bound(d) + kvc_size_bound(&all), have;
    cag_status st = file_space(path, &have, err);

    if (!st && have < need)
        st = cag_fail_sys(err, CAG_E_CREATE, ENOSPC, path,
                          "a checkpoint and the cache may take %llu MiB, the "
                          "file system has %llu MiB free",
                          (unsigned long long)(need >> 20) + 1,
                          (unsigned long long)(have >> 20));
    return st;
}

static cag_status save(struct build_job *j, cag_engine *e, const cag_session *s,
                       const char *path, cag_error *err)
{
    struct kvc_shape shape = j->exact;
    struct build_chunks c = { s, &shape };
    jv *meta = marked_meta(j), *none = jv_new_array();
    struct kvc_desc d = { .codec = j->exact_codec,
                          .meta = meta,
                          .sources = none,
                          .prompt = j->prmt,
                          .text = j->prompt.text,
                          .ids = j->ids.id,
                          .id_off = j->ids.off,
                          .chunk = build_chunk,
                          .ctx = &c };
    cag_status st;

    shape.n_tok = cag_session_n_tok(s);
    d.shape = shape;
    d.n_ids = (size_t)shape.n_tok;
    d.text_size = text_of(j, d.n_ids);
    d.tokenizer = tok_blob(j->tok, &d.tokenizer_size);
    st = meta && none ? check_room(j, path, &d, err)
                      : cag_fail_nomem(err, "checkpoint");
    if (!st)
        st = kvc_write(path, &d, 0600, engine_pool(e), err);
    jv_free(meta);
    jv_free(none);
    return st;
}

static bool save_noted(struct build_job *j, cag_engine *e, const cag_session *s)
{
    char *path = ckpt_path(j->o->output);
    cag_error why = CAG_ERROR_INIT;
    cag_status st =
        path ? save(j, e, s, path, &why) : cag_fail_nomem(&why, "path");

    if (st)
        note(&j->o->hooks, CAG_NOTE_WARN, "no checkpoint: %s", why.msg);
    else
        note(&j->o->hooks, CAG_NOTE_INFO, "%s: %d of %zu tokens saved", path,
             cag_session_n_tok(s), j->ids.n);
    mem_free(path);
    return st == CAG_OK;
}

void checkpoint_save(struct build_job *j, cag_engine *e, const cag_session *s)
{
    if (j->o->checkpoint && cag_session_n_tok(s) > 0)
        (void)save_noted(j, e, s);
}

/* ----------------------------------------------------------------- prefill */

struct progress {
    const cag_hooks *hooks;
    uint64_t base, total;
};

/* A pass knows only its own tokens. */
static bool on_progress(void *ctx, const cag_progress *now)
{
    const struct progress *p = ctx;

    return note_progress(p->hooks, now->what, now->unit, p->base + now->done,
                         p->total);
}

/* The next tokens, at most pass of them; those of the receipt in one piece,
 * with the logits of each.  The last token's are always computed: a model
 * that gives none that are finite would make a cache nobody can ask. */
static cag_status some(struct build_job *j, cag_session *s, int pass,
                       const struct receipt *r, cag_error *err)
{
    int at = cag_session_n_tok(s), n = (int)j->ids.n - at;
    int probe = r ? r->n : 0;
    const float *logits;

    if (probe && n <= probe)
        return session_prefill_rows(s, j->ids.id + at, n, r->logits, err);
    n -= probe;
    return cag_session_prefill(s, j->ids.id + at, n < pass ? n : pass,
                               !probe && n <= pass ? &logits : NULL, err);
}

cag_status checkpoint_prefill(struct build_job *j, cag_engine *e,
                              cag_session *s, const struct receipt *r,
                              cag_error *err)
{
    const cag_build_opts *o = j->o;
    int begin = cag_session_n_tok(s), n = (int)j->ids.n, saved = begin;
    int pass = o->engine.pass_rows ? o->engine.pass_rows : PASS_TOK;
    double every = o->checkpoint_s > 0 ? o->checkpoint_s : DEFAULT_EVERY_S;
    double last = clock_s(), cost = 0;
    struct progress p = { &o->hooks, 0, (uint64_t)(n - begin) };
    bool saving = o->checkpoint;
    cag_status st = CAG_OK;

    if (o->hooks.progress)
        cag_engine_set_progress(e, on_progress, &p);
    if (!saving)
        pass = n;
    for (int at = begin; at < n && !st;) {
        p.base = (uint64_t)(at - begin);
        st = some(j, s, pass, r, err);
        at = cag_session_n_tok(s);
        if (st || !saving || at == n || clock_s() - last < every ||
            clock_s() - last < COST_SHARE * cost)
            continue;
        cost = clock_s();
        saving = save_noted(j, e, s);
        if (saving)
            saved = at;
        last = clock_s();
        cost = last - cost;
    }
    cag_engine_set_progress(e, NULL, NULL);
    if (st == CAG_E_CANCELLED && cag_session_n_tok(s) > saved)
        checkpoint_save(j, e, s);
    return st;
}

/*
 * build.c - sources to a cache: nothing if it is fresh, else the prefill of
 * what changed, and a file written aside and renamed.
 */
#include <cag/tool/names.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/session.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_write.h"
#include "build/build_chunk.h"
#include "build/build_guard.h"
#include "build/build_job.h"
#include "build/checkpoint.h"
#include "build/copy_heads.h"
#include "binding/depfile.h"
#include "engine/engine_note.h"
#include "engine/engine_rate.h"
#include "util/clock.h"
#include "util/note.h"
#include "build/build_estimate.h"
#include "build/measure_loss.h"
#include "prompt/chat.h"
#include "tokenizer/tokenizer.h"
#include "util/file.h"
#include "util/file_lock.h"
#include "util/mem.h"
#include "util/trust.h"

void cag_build_report_release(cag_build_report *r)
{
    for (int i = 0; i < r->n_source; i++) {
        mem_free(r->source[i].name);
        mem_free(r->source[i].path);
    }
    mem_free(r->source);
    mem_free(r->line);
    mem_free(r->model_path);
    mem_free(r->skipped);
    memset(r, 0, sizeof *r);
}

/* First position whose queries codec q8h balances the keys with. */
static int64_t watched_from(const struct build_job *j)
{
    int64_t n = (int64_t)j->ids.n;

    return n > SESSION_PROBE ? n - SESSION_PROBE : 0;
}

/* Keys and values say nothing of what they were made from: taken over, a
 * forgery would live on in a cache of the caller's own. */
static bool believed(const struct build_job *j, const cag_kvc *from)
{
    cag_error why = CAG_ERROR_INIT;

    if (!kvc_check_trust(from, &why))
        return true;
    note(&j->o->hooks, CAG_NOTE_WARN, "%s: %s; its tokens are computed anew",
         cag_kvc_get_info(from)->path, why.msg);
    return false;
}

/*
 * Tokens whose K and V can be taken from an earlier cache: the common prefix
 * of ids, if they were computed by the same model in the same way, and nobody
 * else can have written them.
 */
static int64_t reusable(const struct build_job *j, const cag_kvc *from,
                        const char *numerics)
{
    const cag_kvc_info *old = from ? cag_kvc_get_info(from) : NULL;
    const struct kvc_shape *shape;
    const jv *binding;
    const int32_t *ids;
    size_t n_old, n = 0;
    char hex[2 * SHA256_SIZE + 1];

    if (!old || strcmp(old->numerics, numerics) ||
        strcmp(old->precision, cag_precision_name(j->o->engine.precision)))
        return 0;
    binding = jv_get(kvc_meta(from), "binding");
    hash_hex(j->kit.print.weights, SHA256_SIZE, hex);
    if (strcmp(hex, old->weights_sha256))
        return 0;
    hash_hex(j->kit.print.config, SHA256_SIZE, hex);
    if (strcmp(hex, old->config_sha256) ||
        strcmp(jv_get_str(binding, "rope", ""), j->model->config.rope_text))
        return 0;
    shape = kvc_get_shape(from);
    if (shape->kv_class != j->exact.kv_class ||
        shape->n_layer != j->shape.n_layer ||
        shape->n_kv_head != j->shape.n_kv_head ||
        shape->d_head != j->shape.d_head)
        return 0;
    ids = cag_kvc_ids(from, &n_old);
    while (n < n_old && n < j->ids.n && ids[n] == j->ids.id[n])
        n++;
    /* the queries of the last tokens are not in a file */
    if (kvc_is_q8h(&j->shape) && (int64_t)n > watched_from(j))
        n = (size_t)watched_from(j);
    return n && believed(j, from) ? (int64_t)n : 0;
}

/* A q8h cache cannot seed a rebuild: say that everything is recomputed. */
static void say_whole(const struct build_job *j)
{
    if (kvc_is_q8h(&j->shape) && j->old && !j->o->force &&
        kvc_is_q8h(kvc_get_shape(j->old)))
        note(&j->o->hooks, CAG_NOTE_WAIT,
             "%s: codec q8h is rebuilt whole, nothing of the old cache is "
             "kept",
             j->o->output);
}

/* Seconds that keeping tokens saved: what they would have taken at the speed
 * of the others, or of this machine where the others were too few. */
static double saved(const struct build_job *j, int64_t keep, double import_s,
                    double compute_s)
{
    const struct model_config *c = &j->model->config;
    int64_t n = (int64_t)j->ids.n;
    double rate = 0, s;

    if (n - keep >= 256 && compute_s > 0)
        rate = estimate_work(c, keep, n) / compute_s;
    else if (engine_rate(j->o->engine.n_thread, &rate, NULL))
        return 0;
    s = estimate_work(c, 0, keep) / rate - import_s;
    return s > 0 ? s : 0;
}

/* Take K and V of the first *keep tokens from an earlier cache; *keep is 0
 * afterwards if it turns out to be damaged. */
static cag_status import(struct build_job *j, cag_session *s,
                         const cag_kvc *from, int64_t *keep, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;

    if (!*keep || session_import(s, from, (int)*keep, &why) == CAG_OK)
        return CAG_OK;
    if (why.status != CAG_E_CORRUPT)
        return cag_error_copy(err, &why);
    note(&j->o->hooks, CAG_NOTE_WARN,
         "%s: is damaged (%.*s); its tokens are computed anew",
         cag_kvc_get_info(from)->path, (int)strcspn(why.msg, ";"), why.msg);
    *keep = 0;
    return CAG_OK;
}

/* The prefill: what the old cache or a checkpoint has is imported, the rest
 * computed.  Of the two, the one with more. */
static cag_status compute(struct build_job *j, cag_engine *e, cag_session *s,
                          const struct receipt *rc, cag_error *err)
{
    double start = clock_s(), computing;
    const char *numerics = cag_engine_numerics(e);
    bool anew = j->o->force || j->old_damaged;
    int64_t n_old = anew ? 0 : reusable(j, j->old, numerics), n = 0;
    cag_kvc *ckpt = NULL;
    cag_status st = CAG_OK;

    if (kvc_is_q8h(&j->shape))
        st = session_gather(s, (int)watched_from(j), err);
    say_whole(j);
    if (!st && j->o->checkpoint)
        st = checkpoint_open(j->o->output, &j->o->hooks, &ckpt, err);
    if (st)
        return st;
    n = reusable(j, ckpt, numerics);
    if (n > n_old) {
        st = import(j, s, ckpt, &n, err);
        j->r->n_tok_resumed = n;
    } else {
        n = 0;
    }
    if (!st && n == 0) {
        st = import(j, s, j->old, &n_old, err);
        n = n_old;
    }
    cag_kvc_close(ckpt);
    computing = clock_s();
    j->r->n_tok_kept = n;
    if (!st && (size_t)n < j->ids.n)
        st = checkpoint_prefill(j, e, s, rc, err);
    if (!st && kvc_is_q8h(&j->shape))
        st = session_balance(s, err);
    j->r->prefill_s = clock_s() - start;
    if (!st && n)
        j->r->saved_s = saved(j, n, computing - start, clock_s() - computing);
    return st;
}

/* A mode is the word of its owner: another user's is not taken over, and who
 * could read that file until now is told why they cannot any more. */
static void note_private(const struct build_job *j)
{
    struct stat sb;

    if (j->o->mode < 0 && stat(j->o->output, &sb) == 0 && !trust_owner(&sb) &&
        (sb.st_mode & 077))
        note(&j->o->hooks, CAG_NOTE_WARN,
             "%s: belonged to user %lu, whose mode %03o is not taken over: now "
             "only you can read it; --mode lets others",
             j->o->output, (unsigned long)sb.st_uid,
             (unsigned)sb.st_mode & 0777);
}

static cag_status write_file(struct build_job *j, cag_engine *e,
                             const cag_session *s, struct receipt *rc,
                             cag_error *err)
{
    struct build_chunks c = { s, &j->shape };
    struct copy_heads heads = { .j = j, .engine = e };
    struct kvc_made made;
    struct kvc_desc d = { .shape = j->shape,
                          .codec = j->codec,
                          .meta = j->meta,
                          .sources = j->sources,
                          .prompt = j->prmt,
                          .text = j->prompt.text,
                          .text_size = j->prompt.size,
                          .ids = j->ids.id,
                          .id_off = j->ids.off,
                          .n_ids = j->ids.n,
                          .chunk = build_chunk,
                          .ctx = &c,
                          .progress = j->o->hooks.progress,
                          .progress_ctx = j->o->hooks.ctx,
                          .made = &made };
    double start = clock_s();
    cag_status st;

    d.tokenizer = tok_blob(j->tok, &d.tokenizer_size);
    if (rc) {
        d.receipt = measure_loss;
        d.receipt_ctx = rc;
    }
    note_private(j);
    if (copy_heads_wanted(j)) {
        d.attention = copy_heads_find;
        d.attention_ctx = &heads;
    }
    st = kvc_write(j->o->output, &d, j->o->mode, engine_pool(e), err);
    j->r->write_s = clock_s() - start;
    if (st == CAG_E_CANCELLED)
        checkpoint_save(j, e, s);
    if (st)
        return st;
    j->r->file_bytes = made.size_bytes;
    j->r->kv_raw_bytes = made.kv_raw_bytes;
    j->r->kv_stored_bytes = made.kv_stored_bytes;
    snprintf(j->r->content_id, sizeof j->r->content_id, "%s", made.content_id);
    return CAG_OK;
}

/* The same of a cache that stays as it is. */
static void describe_old(struct build_job *j)
{
    const cag_kvc_info *i = cag_kvc_get_info(j->old);
    const char *asked = cag_precision_name(j->o->engine.precision);

    if (strcmp(i->precision, asked))
        note(&j->o->hooks, CAG_NOTE_WARN,
             "%s: fresh, and stays as made with --precision %s, not %s; "
             "--force makes it anew",
             j->o->output, i->precision, asked);
    j->r->fresh = true;
    j->r->file_bytes = i->size_bytes;
    j->r->kv_raw_bytes = i->kv_raw_bytes;
    j->r->kv_stored_bytes = i->kv_stored_bytes;
    if (cag_kvc_get_receipt(j->old)) {
        j->r->has_receipt = true;
        j->r->receipt = *cag_kvc_get_receipt(j->old);
        j->r->receipt.loss = NULL; /* it goes with the old cache */
    }
    snprintf(j->r->content_id, sizeof j->r->content_id, "%s", i->content_id);
}

static cag_status make(struct build_job *j, cag_error *err)
{
    cag_engine_opts opts = j->o->engine;
    cag_engine *e;
    cag_session *s = NULL;
    struct receipt receipt = { 0 }, *rc = j->lossy ? &receipt : NULL;
    struct kvc_desc d = { .shape = j->shape, .codec = j->codec };
    bool fresh = false, made;
    cag_status st = build_job_records(j, err);

    if (!st && !j->o->force && !j->old_damaged)
        st = build_job_is_fresh(j, &fresh, err);
    if (fresh)
        describe_old(j);
    if (st || fresh)
        return st;
    if (j->no_write.status)
        return cag_error_copy(err, &j->no_write);
    /* before the prefill, not after it */
    st = kvc_check_space(j->o->output, &d, err);
    if (st)
        return st;
    opts.kv_f32 = j->exact.kv_class == KVC_CLASS_F32;
    opts.max_memory = j->o->max_memory;
    opts.room_tok = (int)j->ids.n;
    if (kvc_is_q8h(&j->shape) && (!opts.device || !strcmp(opts.device, "auto")))
        opts.device = "cpu"; /* a GPU is not asked for its queries */
    st = kit_engine(&j->kit, &opts, &made, err);
    e = j->kit.engine;
    if (!st && made)
        engine_note(&j->o->hooks, e, opts.precision);
    if (!st)
        st = build_job_provenance(j, cag_engine_numerics(e),
                                  cag_engine_device(e), err);
    if (!st)
        st = cag_session_new(e, NULL, (int)j->ids.n, &s, err);
    if (!st && rc)
        st = measure_loss_init(rc, j, e, s, err);
    if (!st)
        st = compute(j, e, s, rc, err);
    if (!st)
        st = write_file(j, e, s, rc, err);
    measure_loss_release(&receipt);
    cag_session_free(s);
    if (st)
        kit_drop_engine(&j->kit);
    return st;
}

static cag_status write_depfile(const struct build_job *j, cag_error *err)
{
    const char **dep = mem_alloc_array((size_t)j->src.n + 1, sizeof *dep);
    cag_status st;
    int n = 0;

    if (!dep)
        return cag_fail_nomem(err, "depfile");
    for (int i = 0; i < j->src.n; i++)
        if (j->src.v[i].path) /* as the user named it, where he did */
            dep[n++] = j->src.v[i].given;
    st = depfile_write(j->o->depfile, j->o->output, dep, n, &j->o->hooks, err);
    mem_free(dep);
    return st;
}

static cag_status refresh_mtime(const cag_build_opts *o, cag_error *err)
{
    struct file_place at;
    cag_status st;

    if (o->keep_mtime)
        return CAG_OK;
    st = file_place_find_path(&at, o->output, err);
    if (!st && utimensat(at.dir, at.name, NULL, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno != EACCES && errno != EPERM && errno != EROFS)
        st = cag_fail_sys(err, CAG_E_IO, errno, o->output,
                          "cannot set the file's time");
    file_place_release(&at);
    return st; /* without the right to: make will ask again */
}

/* On a file system that is read-only there is no lock, and nobody to write. */
static cag_status lock_output(struct build_job *j, struct file_lock *lock,
                              cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (j->no_write.status)
        return CAG_OK;
    st = file_lock(lock, j->o->output, j->o->mode, j->o->lock_timeout_s, &why);
    if (st == CAG_E_CREATE && file_exists(j->o->output) &&
        (why.sys == EROFS || why.sys == EACCES || why.sys == EPERM)) {
        j->no_write = why;
        return CAG_OK;
    }
    return st ? cag_error_copy(err, &why) : CAG_OK;
}

/* A fresh cache gets the mode that was asked for: it says who may read it. */
static cag_status refresh_mode(const cag_build_opts *o, cag_error *err)
{
    struct file_place at;
    struct stat sb;
    cag_status st;
    int fd;

    if (o->mode < 0)
        return CAG_OK;
    st = file_place_find_path(&at, o->output, err);
    if (st)
        return st;
    fd = file_place_open(&at, O_RDONLY, 0);
    if (fd < 0 || fstat(fd, &sb) != 0 ||
        ((sb.st_mode & 07777) != (mode_t)o->mode &&
         fchmod(fd, (mode_t)o->mode) != 0))
        st = cag_fail_sys(err, CAG_E_CREATE, errno, o->output,
                          "cannot set the file's mode");
    if (fd >= 0)
        close(fd);
    file_place_release(&at);
    return st;
}

cag_status cag_build(const cag_build_opts *given, cag_build_report *r,
                     cag_error *err)
{
    cag_build_opts own, *o = &own;
    double start = clock_s();
    struct file_lock lock = FILE_LOCK_NONE;
    bool new_depfile = false;
    struct build_job j;
    cag_status st = build_job_opts(o, given, r, err);

    if (st)
        return st;
    st = build_job_begin(&j, o, r, err);
    if (!st)
        st = build_guard(&j, err);
    if (!st)
        st = lock_output(&j, &lock, err);
    if (!st)
        st = build_job_prepare(&j, true, err);
    /* before the cache, so that nothing can fail once that is replaced */
    if (!st && o->depfile) {
        new_depfile = !file_exists(o->depfile);
        st = write_depfile(&j, err);
    }
    if (!st)
        st = make(&j, err);
    if (!st && !j.no_write.status)
        checkpoint_remove(o->output);
    if (!st && r->fresh)
        st = refresh_mode(o, err);
    if (!st && r->fresh)
        st = refresh_mtime(o, err);
    build_job_release(&j);
    /* a build that failed leaves nothing that was not there before */
    if (st && new_depfile)
        file_place_remove(o->depfile);
    if (st && !file_exists(o->output))
        file_lock_undo(&lock);
    else
        file_unlock(&lock);
    r->total_s = clock_s() - start;
    return st;
}

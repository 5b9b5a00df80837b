/*
 * kb.c - open a cache to answer from it: the file, its freshness, its model.
 *
 * Order matters: the file is checked before anything is believed of it, then
 * whether it still fits its sources, then the model is found and must be the
 * recorded one, whatever --stale says; only then is memory taken.
 */
#include "ask/kb.h"

#include <string.h>

#include "kvc/kvc_read.h"
#include "model/model.h"
#include "binding/freshness.h"
#include "binding/model_files.h"
#include "engine/engine_note.h"
#include "util/clock.h"
#include "util/note.h"
#include "util/sized.h"
#include "util/mem.h"

#define TALK_TOK    4096
/* A masked look makes models smaller than this worse, and larger ones better;
 * and they answer better from fewer passages: measured with 135M and 0.5B
 * (tests/bench/results/evidence.md). */
#define SMALL_PARAM 300000000

void cag_kb_opts_init_size(cag_kb_opts *o, size_t size)
{
    static const cag_kb_opts defaults = {
        .engine = { .precision = CAG_PRECISION_AUTO }
    };

    sized_init(o, size, &defaults, sizeof defaults);
}

static cag_status check_fresh(cag_kb *kb, const cag_kb_opts *o, cag_error *err)
{
    cag_check_report r;
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (o->stale == CAG_STALE_IGNORE)
        return CAG_OK;
    st = freshness_of_sources(kb->kvc, &kb->places, &kb->hooks, o->verify_full,
                              &r, &why);
    kb->n_unseen = r.n_unseen;
    if (st == CAG_E_STALE && o->stale == CAG_STALE_WARN) {
        note(&kb->hooks, CAG_NOTE_WARN, "%s: %s", why.file, why.msg);
        st = CAG_OK;
    } else if (st == CAG_E_MISSING) {
        note(&kb->hooks, CAG_NOTE_WARN, "%s: %s", why.file, why.msg);
        st = CAG_OK;
    }
    cag_check_report_release(&r);
    return st ? cag_error_copy(err, &why) : CAG_OK;
}

static cag_status open_model(cag_kb *kb, const cag_kb_opts *o, cag_error *err)
{
    struct fingerprint_memory mem = { .dir = kb->places.cache_dir,
                                      .dir_ro = kb->places.cache_dir_ro,
                                      .ignore = o->verify_full,
                                      .announce = note_hashing,
                                      .ctx = &kb->hooks };
    const cag_model_info *info;
    char *path = NULL;
    cag_status st =
        model_files_locate(kb->kvc, o->model, &kb->places, &mem, &path, err);

    if (!st)
        st = kb_model_get(path, o->with ? o->with->own_model : NULL,
                          &kb->own_model, err);
    mem_free(path);
    if (st)
        return st;
    kb->model = kb->own_model->model;
    info = cag_model_get_info(kb->model);
    kb->n_vocab = info->n_vocab;
    kb->is_small = info->n_param < SMALL_PARAM;
    /* one that was built when nobody looked at the window */
    if (kb->n_ctx > config_context(&kb->model->config))
        kb->n_ctx = config_context(&kb->model->config);
    if (kb->n_ctx <= (int64_t)kb->n_ids)
        return cag_fail(err, CAG_E_LIMIT, cag_kvc_get_info(kb->kvc)->path, -1,
                        "the cache holds %zu tokens, the model's sliding "
                        "window of %lld leaves no room for a question",
                        kb->n_ids, (long long)kb->n_ctx);
    for (size_t i = 0; i < kb->n_ids; i++)
        if (kb->ids[i] < 0 || kb->ids[i] >= info->n_vocab)
            return cag_fail(err, CAG_E_MISMATCH,
                            cag_kvc_get_info(kb->kvc)->path, -1,
                            "token id %d is outside the model's vocabulary "
                            "of %d",
                            (int)kb->ids[i], info->n_vocab);
    return CAG_OK;
}

/* Engine and, unless the prompt is to be read, the cache in it. */
static cag_status start_engine(cag_kb *kb, const cag_engine_opts *e,
                               const cag_kb *with, cag_error *err)
{
    bool made;
    cag_status st =
        kb_engine_get(kb->own_model, e, with ? with->own_engine : NULL,
                      &kb->own_engine, &made, err);

    if (st)
        return st;
    kb->engine = kb->own_engine->engine;
    if (made)
        engine_note(&kb->hooks, kb->engine, e->precision);
    if (kb->hooks.progress)
        cag_engine_set_progress(kb->engine, kb->hooks.progress, kb->hooks.ctx);
    if (!kb->no_cache)
        st = cag_prefix_new(kb->engine, kb->kvc, &kb->prefix, err);
    return st;
}

/* Positions of f16 that --gpu-layers auto leaves room for: the cache, and what
 * a long conversation on it takes. */
static int room_for(const cag_kb *kb)
{
    const struct kvc_shape *s = kvc_get_shape(kb->kvc);
    int64_t n = (int64_t)kb->n_ids;

    if (kvc_is_q8h(s) && !kb->no_cache) /* codes and a scale a row */
        n = n * (s->d_head + 2) / (2 * s->d_head) + 1;
    n += TALK_TOK;

    return (int)(n < kb->n_ctx ? n : kb->n_ctx);
}

static cag_status open_engine(cag_kb *kb, const cag_kb_opts *o, cag_error *err)
{
    cag_engine_opts e = o->engine;
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    e.room_tok = room_for(kb);
    e.kv_f32 = kvc_get_shape(kb->kvc)->kv_class == KVC_CLASS_F32;
    if (e.precision == CAG_PRECISION_AUTO)
        e.precision = cag_precision_of(cag_kvc_get_info(kb->kvc)->precision);
    st = start_engine(kb, &e, o->with, &why);
    /* a GPU that holds the model, but not the cache too */
    if (st == CAG_E_NOMEM && kb->engine &&
        (!e.device || !strcmp(e.device, "auto")) &&
        strcmp(cag_engine_device(kb->engine), "cpu") != 0) {
        note(&kb->hooks, CAG_NOTE_WARN, "using the CPU, not the GPU: %s",
             why.msg);
        kb_engine_release(kb->own_engine);
        kb->own_engine = NULL;
        kb->engine = NULL;
        e.device = "cpu";
        return start_engine(kb, &e, o->with, err);
    }
    return st ? cag_error_copy(err, &why) : CAG_OK;
}

/* Remember the files that stay mapped. */
static cag_status keep_files(cag_kb *kb, const char *path, cag_error *err)
{
    int n = kb->model ? kb->model->n_file : 0;

    kb->file = mem_alloc_array((size_t)n + 1, sizeof *kb->file);
    if (!kb->file)
        return cag_fail_nomem(err, "files");
    kb->file[kb->n_file++] = (struct kb_file){ path, *kvc_file_id(kb->kvc) };
    for (int i = 0; i < n; i++)
        kb->file[kb->n_file++].path = kb->model->file[i];
    for (int i = 1; i < kb->n_file; i++) {
        cag_status st = file_stat(kb->file[i].path, &kb->file[i].id, err);

        if (st)
            return st;
    }
    return CAG_OK;
}

cag_status kb_check_files(const cag_kb *kb, cag_error *err)
{
    for (int i = 0; i < kb->n_file; i++) {
        const struct file_id *was = &kb->file[i].id;
        struct file_id is;

        if (file_stat(kb->file[i].path, &is, NULL) || is.dev != was->dev ||
            is.ino != was->ino)
            continue;
        /* not the ctime: another link or mode changes no byte */
        if (is.size_bytes != was->size_bytes || is.mtime_ns != was->mtime_ns)
            return cag_fail(err, CAG_E_IO, kb->file[i].path, -1,
                            "was changed in place while it is in use; start "
                            "again (and replace it by renaming, as mv does)");
    }
    return CAG_OK;
}

/* Seconds since *at, which becomes now. */
static double lap(double *at)
{
    double was = *at;

    *at = clock_s();
    return *at - was;
}

cag_status cag_kb_open(const char *path, const cag_kb_opts *given, cag_kb **out,
                       cag_error *err)
{
    cag_kb_opts own, *o = &own;
    double start = clock_s(), at = start;
    const cag_kvc_info *info;
    cag_kb *kb;
    cag_status st;

    cag_kb_opts_init(o);
    st = sized_take(o, sizeof *o, given, "cag_kb_opts", err);
    if (st)
        return st;
    kb = mem_zalloc(sizeof *kb);
    if (!kb)
        return cag_fail_nomem(err, "cache");
    kb->places = o->places;
    kb->hooks = o->hooks;
    kb->no_cache = o->no_cache;
    st = kvc_open_told(path, &(struct kvc_told){ o->mapped, o->mapped_ctx },
                       &kb->kvc, err);
    if (st)
        goto out;
    info = cag_kvc_get_info(kb->kvc);
    st = kvc_refuse_checkpoint(kb->kvc, err);
    if (st)
        goto out;
    kb->ids = cag_kvc_ids(kb->kvc, &kb->n_ids);
    kb->n_ctx = o->n_ctx ? o->n_ctx : info->n_ctx;
    if (kb->n_ctx > info->n_ctx)
        st = cag_fail(err, CAG_E_LIMIT, path, -1,
                      "--ctx-size %lld is more than the cache was built for "
                      "(%lld); build it again with -c",
                      (long long)kb->n_ctx, (long long)info->n_ctx);
    else if (kb->n_ctx <= info->n_tok)
        st = cag_fail(err, CAG_E_LIMIT, path, -1,
                      "the cache holds %lld tokens, --ctx-size leaves room "
                      "for %lld",
                      (long long)info->n_tok, (long long)kb->n_ctx);
    if (!st && o->verify_full)
        st = cag_kvc_verify(kb->kvc, o->engine.n_thread, o->hooks.progress,
                            o->hooks.ctx, err);
    kb->times.cache = lap(&at);
    if (!st)
        st = check_fresh(kb, o, err);
    kb->times.sources = lap(&at);
    if (!st)
        st = kvc_tokenizer(kb->kvc, &kb->tok, err);
    if (!st)
        st = prompt_tail_from_json(kvc_prmt(kb->kvc), path, &kb->tail, err);
    kb->times.tokenizer = lap(&at);
    if (!st && !o->no_weights)
        st = open_model(kb, o, err);
    kb->times.model = lap(&at);
    if (!st && !o->no_weights)
        st = open_engine(kb, o, err);
    if (!st && !o->no_weights)
        st = kb_set_heads(kb, err);
    kb->times.engine = lap(&at);
    if (!st)
        kb->tail.room = kb->n_ctx - (int64_t)kb->n_ids;
    if (!st)
        st = keep_files(kb, info->path, err);
out:
    if (st) {
        cag_kb_close(kb);
        return st;
    }
    kb->load_s = clock_s() - start;
    *out = kb;
    return CAG_OK;
}

void cag_kb_close(cag_kb *kb)
{
    if (!kb)
        return;
    cag_prefix_free(kb->prefix);
    kb_engine_release(kb->own_engine);
    evidence_base_free(kb->evidence);
    prompt_tail_release(&kb->tail);
    mem_free(kb->file);
    kb_model_release(kb->own_model);
    cag_kvc_close(kb->kvc);
    mem_free(kb);
}

const cag_kvc *cag_kb_get_kvc(const cag_kb *kb)
{
    return kb->kvc;
}

const char *cag_kb_model_path(const cag_kb *kb)
{
    return kb->model ? cag_model_get_info(kb->model)->path : NULL;
}

const char *cag_kb_kernels(const cag_kb *kb)
{
    return kb->engine ? cag_engine_kernels(kb->engine) : "none";
}

const char *cag_kb_note(const cag_kb *kb)
{
    return kb->engine ? cag_engine_note(kb->engine, NULL) : "";
}

cag_device_memory cag_kb_device_memory(const cag_kb *kb)
{
    static const cag_device_memory none;

    return kb->engine ? cag_engine_device_memory(kb->engine) : none;
}

uint64_t cag_kb_device_bytes(const cag_kb *kb)
{
    return kb->engine ? cag_engine_device_bytes(kb->engine) : 0;
}

const char *cag_kb_device(const cag_kb *kb)
{
    return kb->engine ? cag_engine_device(kb->engine) : "none";
}

const char *cag_kb_evidence_by(const cag_kb *kb)
{
    return kb->n_head ? "words+heads" : "words";
}

int64_t cag_kb_n_ctx(const cag_kb *kb)
{
    return kb->n_ctx;
}

int cag_kb_sources_unseen(const cag_kb *kb)
{
    return kb->n_unseen;
}

double cag_kb_load_s(const cag_kb *kb)
{
    return kb->load_s;
}

cag_kb_times cag_kb_get_times(const cag_kb *kb)
{
    cag_kb_times t = kb->times;

    t.expand = kb->prefix ? cag_prefix_seconds(kb->prefix) : 0;
    return t;
}

bool cag_kb_knows_thinking(const cag_kb *kb)
{
    return kb->tail.knows_thinking;
}

uint64_t cag_kb_private_bytes(const cag_kb *kb)
{
    return kb->prefix ? cag_prefix_private_bytes(kb->prefix) : 0;
}

uint64_t cag_kb_mapped_bytes(const cag_kb *kb)
{
    return cag_kvc_get_info(kb->kvc)->kv_stored_bytes;
}

void kb_note_dropped(const cag_kb *kb, const cag_ids *ids)
{
    if (ids->n_dropped)
        note(&kb->hooks, CAG_NOTE_WARN,
             "%zu bytes of the question have no token in this model's "
             "vocabulary and are not read",
             ids->n_dropped);
}

bool kb_is_stop(const cag_kb *kb, int32_t id)
{
    for (size_t i = 0; i < kb->tail.n_stop; i++)
        if (kb->tail.stop_id[i] == id)
            return true;
    return false;
}

cag_status kb_session(cag_kb *kb, int64_t n_more, cag_session **out,
                      cag_error *err)
{
    cag_session *s;
    int64_t n_tok = (int64_t)kb->n_ids + n_more;
    cag_status st;

    n_tok =
        kb->spare_tok < kb->n_ctx - n_tok ? n_tok + kb->spare_tok : kb->n_ctx;
    st = cag_session_new(kb->engine, kb->prefix, (int)n_tok, &s, err);

    if (!st && kb->no_cache) {
        st = cag_session_prefill(s, kb->ids, (int)kb->n_ids, NULL, err);
        if (st)
            cag_session_free(s);
    }
    if (!st)
        *out = s;
    return st;
}

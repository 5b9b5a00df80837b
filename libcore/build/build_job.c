/*
 * build_job.c - see build_job.h.
 *
 * A rebuild keeps what the old cache recorded and the caller did not ask to
 * change: the default prompt's wording and the template's date.  So a newer
 * tool or another day never makes a cache stale.
 */
#include "build/build_job.h"

#include <cag/tool/names.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kvc/kvc_codec.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_receipt.h"
#include "kvc/kvc_write.h"
#include "engine/session.h"
#include "source/source_path.h"
#include "util/clock.h"
#include "util/note.h"
#include "util/sized.h"
#include "build/copy_heads.h"
#include "build/measure_loss.h"
#include "prompt/chat.h"
#include "tokenizer/tokenizer.h"
#include "util/file.h"
#include "util/mem.h"

#define DEFAULT_RESERVE 512
#define PRIVATE_BYTES   ((uint64_t)16 << 20)

/* ------------------------------------------------------------- old cache */

/* --verify full: a cache with a damaged byte is neither fresh nor a source of
 * keys and values; what it records is whole, else it had not been opened. */
static cag_status verify_old(struct build_job *j, cag_error *err)
{
    const cag_hooks *h = &j->o->hooks;
    cag_error why = CAG_ERROR_INIT;
    cag_status st = cag_kvc_verify(j->old, j->o->engine.n_thread, h->progress,
                                   h->ctx, &why);

    if (st != CAG_E_CORRUPT && st != CAG_E_FORMAT)
        return st ? cag_error_copy(err, &why) : CAG_OK;
    j->old_damaged = true;
    note(h, CAG_NOTE_WARN, "%s: is damaged (%.*s); it is made anew",
         j->o->output, (int)strcspn(why.msg, ";"), why.msg);
    return CAG_OK;
}

/* An old file that cannot be opened is no help and no obstacle: it is
 * replaced, and the reason is said with -v. */
static cag_status open_old(struct build_job *j, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;

    if (!j->o->output || !file_exists(j->o->output))
        return CAG_OK;
    if (cag_kvc_open(j->o->output, &j->old, &why) == CAG_E_NOMEM)
        return cag_error_copy(err, &why);
    if (!j->old)
        note(&j->o->hooks, CAG_NOTE_INFO,
             "%s: replaced, it is no usable cache (%s)", j->o->output, why.msg);
    return j->old && j->o->verify_full ? verify_old(j, err) : CAG_OK;
}

static const char *part(const struct build_job *j, const char *name,
                        const char *given, const char *recorded)
{
    if (given || !j->old)
        return given;
    return record_was_default(jv_get(kvc_meta(j->old), "build"), name)
               ? recorded
               : NULL;
}

static void choose_parts(struct build_job *j)
{
    const cag_kvc_info *i = j->old ? cag_kvc_get_info(j->old) : NULL;
    struct tm tm = { 0 };

    j->parts.label = part(j, "label", j->o->label, i ? i->label : NULL);
    j->parts.refusal = part(j, "refusal", j->o->refusal, i ? i->refusal : NULL);
    j->parts.ack = part(j, "acknowledgement", j->o->acknowledgement,
                        i ? i->acknowledgement : NULL);
    /* the recorded system text has the recorded refusal written into it */
    if (i && j->parts.refusal && !strcmp(j->parts.refusal, i->refusal))
        j->parts.system = part(j, "system", j->o->system, i->system);
    else
        j->parts.system = j->o->system;
    j->date_s = j->o->template_date >= 0 ? j->o->template_date : j->o->now;
    if (j->o->template_date < 0 && i && i->template_date &&
        strptime(i->template_date, "%Y-%m-%d", &tm))
        j->date_s = (int64_t)timegm(&tm);
    j->date_s -= j->date_s % 86400; /* a day is all that is recorded */
}

/* -------------------------------------------------------------- template */

static cag_status unknown_template(const char *name, cag_error *err)
{
    char list[512];
    size_t n = 0;
    const char *s;

    list[0] = 0;
    for (int i = 0; (s = cag_template_name(i)) != NULL && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              s);
    return cag_fail(err, CAG_E_USAGE, NULL, -1,
                    "unknown chat template '%s'; "
                    "there are %s",
                    name, list);
}

static cag_status choose_template(struct build_job *j, cag_error *err)
{
    j->template_text = j->o->chat_template_text;
    if (!j->template_text && j->o->chat_template) {
        j->template_text = chat_builtin(j->o->chat_template);
        if (!j->template_text)
            return unknown_template(j->o->chat_template, err);
    }
    if (!j->template_text)
        j->template_text = cag_model_get_template(j->model);
    if (!j->template_text)
        return cag_fail(err, CAG_E_UNSUPPORTED, j->model_path, -1,
                        "the model carries no chat template; name one with "
                        "--chat-template NAME or --chat-template-file FILE");
    return CAG_OK;
}

/* ---------------------------------------------------------------- prompt */

/* Far too much is refused by its size: to count its tokens would take forty
 * times the memory. */
static cag_status check_size(const struct build_job *j, cag_error *err)
{
    cag_text *v = mem_alloc_array((size_t)j->src.n, sizeof *v);
    cag_error why = CAG_ERROR_INIT;
    int most = 0;
    cag_status st;

    if (!v)
        return cag_fail_nomem(err, "sources");
    for (int i = 0; i < j->src.n; i++) {
        v[i] = (cag_text){ j->src.v[i].text, j->src.v[i].size, 0 };
        if (v[i].size > v[most].size)
            most = i;
    }
    st = prompt_check_size("the knowledge", v, (size_t)j->src.n, j->tok,
                           j->n_ctx - j->reserve, &why);
    mem_free(v);
    if (st)
        st = cag_fail(err, st, j->o->output, -1,
                      "%s; leave something out, the largest is %s (%zu bytes)",
                      why.msg, j->src.v[most].name, j->src.v[most].size);
    return st;
}

static cag_status make_prompt(struct build_job *j, cag_error *err)
{
    struct prompt_source *v;
    cag_status st = check_size(j, err);

    if (st)
        return st;
    v = mem_alloc_array((size_t)j->src.n, sizeof *v);
    if (!v)
        return cag_fail_nomem(err, "prompt");
    for (int i = 0; i < j->src.n; i++)
        v[i] = (struct prompt_source){ j->src.v[i].name, j->src.v[i].text,
                                       j->src.v[i].size };
    st = prompt_build(&j->parts, v, j->src.n, j->template_text, j->tok,
                      j->date_s, &j->prompt, err);
    mem_free(v);
    if (!st)
        st = prompt_encode(&j->prompt, j->tok, &j->ids, err);
    if (!st && j->prompt.warn_no_refusal)
        note(&j->o->hooks, CAG_NOTE_WARN,
             "the system text does not hold {refusal}: the model will not "
             "be told how to say that something is not there");
    if (!st && j->o->acknowledgement && !j->prompt.ack)
        note(&j->o->hooks, CAG_NOTE_WARN,
             "the acknowledgement is not used: this template has a system "
             "role");
    if (!st && j->ids.n_dropped)
        note(&j->o->hooks, CAG_NOTE_WARN,
             "%zu bytes of the text have no token in this model's "
             "vocabulary and are not read",
             j->ids.n_dropped);
    return st;
}

/* First id whose text begins at or after off. */
static int64_t id_at(const cag_ids *ids, uint64_t off)
{
    size_t lo = 0, hi = ids->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if ((uint64_t)ids->off[mid] < off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return (int64_t)lo;
}

static cag_status add_up(struct build_job *j, cag_error *err)
{
    cag_build_report *r = j->r;

    r->source = mem_alloc_array((size_t)j->src.n, sizeof *r->source);
    j->range = mem_alloc_array((size_t)j->src.n, sizeof *j->range);
    if (!r->source || !j->range)
        return cag_fail_nomem(err, "report");
    r->n_source = j->src.n;
    r->n_tok = (int64_t)j->ids.n;
    for (int i = 0; i < j->src.n; i++) {
        const struct prompt_range *p = &j->prompt.source[i];

        j->range[i] =
            (struct record_range){ p->off, p->bytes, id_at(&j->ids, p->off),
                                   id_at(&j->ids, p->off + p->bytes) };
        r->source[i].name = mem_strdup(j->src.v[i].name);
        r->source[i].path =
            mem_strdup(j->src.v[i].path ? j->src.v[i].path : "-");
        if (!r->source[i].name || !r->source[i].path)
            return cag_fail_nomem(err, "report");
        r->source[i].size_bytes = j->src.v[i].raw_bytes;
        r->source[i].text_bytes = j->src.v[i].size;
        r->source[i].n_tok = j->range[i].tok_end - j->range[i].tok_begin;
    }
    return CAG_OK;
}

static cag_status choose_context(struct build_job *j, cag_error *err)
{
    const cag_model_info *m = cag_model_get_info(j->model);
    int most = config_context(&j->model->config);

    j->n_ctx = j->o->n_ctx ? j->o->n_ctx : most;
    if (j->n_ctx > most && most < m->n_ctx)
        return cag_fail(err, CAG_E_LIMIT, j->model_path, -1,
                        "--ctx-size %lld is more than the model's sliding "
                        "window of %d, which is as far as cag computes it",
                        (long long)j->n_ctx, most);
    if (j->n_ctx > m->n_ctx)
        return cag_fail(err, CAG_E_LIMIT, j->model_path, -1,
                        "--ctx-size %lld is more than the model was trained "
                        "for (%d)",
                        (long long)j->n_ctx, m->n_ctx);
    j->reserve = j->o->reserve >= 0               ? j->o->reserve
                 : j->n_ctx / 4 < DEFAULT_RESERVE ? j->n_ctx / 4
                                                  : DEFAULT_RESERVE;
    j->r->n_ctx = j->n_ctx;
    j->r->reserve = j->reserve;
    return CAG_OK;
}

/* What the file holds, and what is computed. */
static cag_status choose_shapes(struct build_job *j, cag_error *err)
{
    const cag_model_info *m = cag_model_get_info(j->model);
    int codec = kvc_codec_find(j->codec);
    enum kvc_codec exact;

    if (codec < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1, "unknown KV codec '%s'",
                        j->codec);
    j->shape =
        (struct kvc_shape){ .n_layer = m->n_layer,
                            .n_kv_head = m->n_kv_head,
                            .d_head = m->d_head,
                            .kv_class = kvc_codec_class((enum kvc_codec)codec),
                            .n_tok = (int)j->ids.n };
    j->lossy = kvc_codec_lossy((enum kvc_codec)codec);
    if (j->lossy)
        j->max_loss = j->o->max_loss < 0
                          ? kvc_codec_max_loss((enum kvc_codec)codec)
                          : (float)j->o->max_loss;
    j->exact = j->shape;
    exact = kvc_codec_exact((enum kvc_codec)codec);
    j->exact.kv_class = kvc_codec_class(exact);
    j->exact_codec = kvc_codec_name(exact);
    j->shape.chunk_tok =
        kvc_chunk_tok(m->n_kv_head, m->d_head, j->shape.kv_class);
    j->exact.chunk_tok =
        kvc_chunk_tok(m->n_kv_head, m->d_head, j->exact.kv_class);
    return CAG_OK;
}

static cag_status check_fit(struct build_job *j, cag_error *err)
{
    const cag_model_info *m = cag_model_get_info(j->model);
    cag_build_report *r = j->r;
    uint64_t scratch;
    cag_status st;

    int n_chunk = kvc_n_chunk(&j->shape);
    uint64_t held = (uint64_t)r->n_tok * m->kv_bytes_per_tok *
                    (j->exact.kv_class == KVC_CLASS_F32 ? 2 : 1);

    r->kv_raw_bytes = kvc_is_q8h(&j->shape) ? 0 : held;
    for (int i = 0; kvc_is_q8h(&j->shape) && i < n_chunk; i++)
        r->kv_raw_bytes += (uint64_t)m->n_layer * kvc_chunk_bytes(&j->shape, i);
    r->ask_bytes =
        PRIVATE_BYTES + (uint64_t)j->reserve * m->kv_bytes_per_tok +
        (kvc_codec_in_place((enum kvc_codec)kvc_codec_find(j->codec)) ? 0
                                                                      : held);
    st = engine_scratch_bytes(j->model, &j->o->engine, &scratch, err);
    if (st)
        return st;
    r->build_bytes = held + m->size_bytes + scratch +
                     (j->lossy ? measure_loss_bytes(j) : 0) +
                     copy_heads_bytes(j);
    if (r->n_tok + j->reserve > j->n_ctx)
        return cag_fail(err, CAG_E_LIMIT, j->o->output, -1,
                        "the knowledge does not fit: %lld tokens + %lld "
                        "reserved for question and answer, the context has "
                        "%lld%s; leave something out (cag-build -n shows "
                        "where the tokens are) or take a model with a longer "
                        "context",
                        (long long)r->n_tok, (long long)j->reserve,
                        (long long)j->n_ctx,
                        j->n_ctx < m->n_ctx && !j->o->n_ctx
                            ? " (the model's sliding window)"
                            : "");
    if (j->o->max_memory && r->build_bytes > j->o->max_memory)
        return cag_fail(err, CAG_E_LIMIT, j->o->output, -1,
                        "the build needs about %llu MiB, --max-memory allows "
                        "%llu MiB",
                        (unsigned long long)(r->build_bytes >> 20),
                        (unsigned long long)(j->o->max_memory >> 20));
    return CAG_OK;
}

struct source_opts build_job_source_opts(const struct build_job *j)
{
    const cag_build_opts *o = j->o;

    return (struct source_opts){ .drop_front_matter = o->drop_front_matter,
                                 .include = o->include,
                                 .exclude = o->exclude,
                                 .texts = o->texts,
                                 .below = o->below,
                                 .hooks = &o->hooks };
}

void cag_build_opts_init_size(cag_build_opts *o, size_t size)
{
    static const cag_build_opts defaults = {
        .reserve = -1, .template_date = -1, .mode = -1, .max_loss = -1
    };

    sized_init(o, size, &defaults, sizeof defaults);
}

cag_status build_job_opts(cag_build_opts *own, const cag_build_opts *given,
                          cag_build_report *r, cag_error *err)
{
    memset(r, 0, sizeof *r);
    cag_build_opts_init(own);
    return sized_take(own, sizeof *own, given, "cag_build_opts", err);
}

/* A cache that this user may not replace can still be found fresh. */
static cag_status check_output(struct build_job *j, cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    cag_status st = file_can_create(j->o->output, &why);

    if (st == CAG_E_CREATE && file_exists(j->o->output) &&
        (why.sys == EROFS || why.sys == EACCES || why.sys == EPERM)) {
        j->no_write = why;
        return CAG_OK;
    }
    return st ? cag_error_copy(err, &why) : CAG_OK;
}

cag_status build_job_begin(struct build_job *j, const cag_build_opts *o,
                           cag_build_report *r, cag_error *err)
{
    struct source_opts so;
    cag_status st = CAG_OK;

    memset(j, 0, sizeof *j);
    memset(r, 0, sizeof *r);
    j->no_write = (cag_error)CAG_ERROR_INIT;
    j->o = o;
    j->r = r;
    j->start = clock_s();
    j->codec = o->codec ? o->codec : cag_kvc_codec_name(0);
    snprintf(r->codec, sizeof r->codec, "%s", j->codec);
    j->dir = source_dir_of(o->output ? o->output : ".");
    if (!j->dir)
        return cag_fail_nomem(err, "path");
    if (o->output)
        st = check_output(j, err);
    if (!st)
        st = build_job_find_model(j, err);
    so = build_job_source_opts(j);
    if (!st)
        st = source_read(o->source, o->n_source, &so, &j->src, err);
    if (!st)
        st = source_skipped(&j->src, &r->skipped, err);
    for (int i = 0; i < SOURCE_N_SKIP; i++)
        r->n_skipped += j->src.n_skip[i];
    return st;
}

cag_status build_job_prepare(struct build_job *j, bool with_weights,
                             cag_error *err)
{
    cag_status st = open_old(j, err);

    if (!st)
        st = build_job_open_model(j, with_weights, err);
    if (!st)
        st = choose_context(j, err);
    if (!st)
        st = choose_template(j, err);
    if (st)
        return st;
    choose_parts(j);
    st = make_prompt(j, err);
    if (!st)
        st = add_up(j, err);
    if (!st)
        st = choose_shapes(j, err);
    if (!st)
        st = check_fit(j, err);
    j->r->tokenize_s = clock_s() - j->start;
    return st;
}

void build_job_release(struct build_job *j)
{
    jv_free(j->meta);
    jv_free(j->sources);
    jv_free(j->prmt);
    cag_ids_free(&j->ids);
    prompt_release(&j->prompt);
    kit_give(j->o->kit, &j->kit);
    cag_kvc_close(j->old);
    source_release(&j->src);
    mem_free(j->range);
    mem_free(j->dir);
    mem_free(j->model_path);
}

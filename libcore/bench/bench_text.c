/*
 * bench_text.c - knowledge of any length, made of the cache's own.
 *
 * A sweep needs the same kind of text at 512 and at 8192 tokens.  The texts
 * of the sources are joined, repeated as often as needed and cut where a
 * token began, then built into a cache by the same code as the user's.  The
 * length that comes out may differ by some tokens from the one asked for;
 * reports give what came out.
 */
#include <string.h>

#include "kvc/kvc_read.h"
#include "bench/bench.h"
#include "build/build_job.h"
#include "util/note.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

static bool keep(char **to, const char *from)
{
    *to = from ? mem_strdup(from) : NULL;
    return !from || *to;
}

cag_status bench_text_init(struct bench_job *j, const cag_kvc *k,
                           cag_error *err)
{
    const cag_kvc_info *info = cag_kvc_get_info(k);
    const int64_t *off = cag_kvc_id_offsets(k);
    struct buf b = BUF_INIT;
    struct prompt_tail tail;
    size_t n_text;
    const char *text = cag_kvc_text(k, &n_text);
    cag_status st;

    if (!text)
        return cag_fail(err, CAG_E_CORRUPT, info->path, -1,
                        "the text of the cache cannot be read");
    j->off = mem_alloc_array((size_t)info->n_tok, sizeof *j->off);
    if (!j->off)
        return cag_fail_nomem(err, "text");
    for (int i = 0; i < info->n_source; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(k, i);

        for (int64_t t = s->tok_begin; t < s->tok_end; t++)
            j->off[j->n_off++] =
                (int64_t)b.size + off[t] - (int64_t)s->text_off;
        buf_add(&b, text + s->text_off, (size_t)s->text_bytes);
        buf_char(&b, '\n');
    }
    j->n_frame = info->n_tok - j->n_off;
    j->n_tok = info->n_tok;
    j->n_ctx = info->n_ctx;
    j->reserve = info->reserve;
    j->precision = j->o->engine.precision == CAG_PRECISION_AUTO
                       ? cag_precision_of(info->precision)
                       : j->o->engine.precision;
    st = prompt_tail_from_json(kvc_prmt(k), info->path, &tail, err);
    if (st) {
        buf_free(&b);
        return st;
    }
    if (!keep(&j->system, info->system) || !keep(&j->label, info->label) ||
        !keep(&j->refusal, info->refusal) ||
        (info->acknowledgement && !keep(&j->ack, info->acknowledgement)) ||
        !keep(&j->template_text, tail.template_text))
        b.failed = true;
    prompt_tail_release(&tail);
    if (buf_failed(&b)) {
        buf_free(&b);
        return cag_fail_nomem(err, "text");
    }
    j->text = buf_detach(&b, &j->text_size);
    if (!j->text)
        return cag_fail_nomem(err, "text");
    if (j->n_off < 1)
        return cag_fail(err, CAG_E_UNSUPPORTED, info->path, -1,
                        "the cache holds no text of a source");
    return CAG_OK;
}

cag_status bench_text_file(const struct bench_job *j, int64_t n, char **path,
                           cag_error *err)
{
    int64_t want = n - j->n_frame;
    struct file_out f;
    char *name;
    cag_status st;

    if (want < 1)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "a prefix of %lld tokens leaves no room for "
                        "knowledge: the prompt around it has %lld",
                        (long long)n, (long long)j->n_frame);
    name = file_join(j->dir, "text.md");
    if (!name)
        return cag_fail_nomem(err, "path");
    st = file_out_open(&f, name, 0600, err);
    if (st) {
        mem_free(name);
        return st;
    }
    for (; !st && want > 0; want -= j->n_off) {
        size_t size = want >= j->n_off ? j->text_size : (size_t)j->off[want];
        st = file_out_write(&f, j->text, size, err);
    }
    if (st)
        file_out_abort(&f);
    else
        st = file_out_commit(&f, err);
    if (st)
        mem_free(name);
    else
        *path = name;
    return st;
}

cag_status bench_text_build(const struct bench_job *j, const char *text,
                            int64_t n, const char *out, cag_build_report *r,
                            cag_error *err)
{
    cag_source_spec src = { .path = text, .title = "text.md" };
    cag_build_opts o;

    cag_build_opts_init(&o);
    o.model = j->model;
    o.output = out;
    o.source = &src;
    o.n_source = 1;
    o.system = j->system;
    o.label = j->label;
    o.refusal = j->refusal;
    o.acknowledgement = j->ack;
    o.chat_template_text = j->template_text;
    o.template_date = o.now = 0; /* the same tokens on any day */
    o.codec = j->codec;
    o.max_loss = 1e6; /* how long it takes is the question here */
    o.engine = j->o->engine;
    o.engine.precision = j->precision;
    o.force = true;
    o.mode = 0600;
    o.places = j->o->places;
    o.hooks.progress = j->o->hooks.progress;
    o.hooks.ctx = j->o->hooks.ctx;
    /* as the user's cache, unless that is too small for this text */
    o.n_ctx = n + j->reserve <= j->n_ctx ? j->n_ctx : 0;
    o.reserve = o.n_ctx ? j->reserve : j->o->n_gen + 128;
    return cag_build(&o, r, err);
}

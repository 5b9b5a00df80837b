/*
 * kvc_diff.c - how two caches differ, in the words of a person who must decide
 * whether a rebuild is worth it.
 */
#include <cag/show.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kvc/kvc_read.h"
#include "util/note.h"
#include "util/error.h"
#include "util/mem.h"

static cag_status add(cag_diff *d, cag_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static cag_status add(cag_diff *d, cag_error *err, const char *fmt, ...)
{
    char line[1024];
    char **v = mem_realloc(d->line, (size_t)(d->n_line + 1) * sizeof *v);
    va_list ap;

    if (!v)
        return cag_fail_nomem(err, "comparison");
    d->line = v;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    v[d->n_line] = mem_strdup(line);
    if (!v[d->n_line])
        return cag_fail_nomem(err, "comparison");
    d->n_line++;
    return CAG_OK;
}

static cag_status field(cag_diff *d, cag_error *err, const char *name,
                        const char *a, const char *b)
{
    a = a ? a : "-";
    b = b ? b : "-";
    if (!strcmp(a, b))
        return CAG_OK;
    if (strlen(a) == 64 && strlen(b) == 64)
        return add(d, err, "%s: %.12s... / %.12s...", name, a, b);
    return add(d, err, "%s: %.200s / %.200s", name, a, b);
}

static cag_status number(cag_diff *d, cag_error *err, const char *name,
                         int64_t a, int64_t b)
{
    return a == b ? CAG_OK
                  : add(d, err, "%s: %lld / %lld", name, (long long)a,
                        (long long)b);
}

static cag_status fields(cag_diff *d, const cag_kvc_info *a,
                         const cag_kvc_info *b, cag_error *err)
{
    const struct {
        const char *name, *a, *b;
    } text[] = {
        { "model", a->model_name, b->model_name },
        { "architecture", a->model_arch, b->model_arch },
        { "weights", a->weights_sha256, b->weights_sha256 },
        { "config", a->config_sha256, b->config_sha256 },
        { "tokenizer", a->tokenizer_sha256, b->tokenizer_sha256 },
        { "template", a->template_sha256, b->template_sha256 },
        { "template date", a->template_date, b->template_date },
        { "system text", a->system, b->system },
        { "label", a->label, b->label },
        { "refusal", a->refusal, b->refusal },
        { "acknowledgement", a->acknowledgement, b->acknowledgement },
        { "codec", a->codec, b->codec },
        { "precision", a->precision, b->precision },
        { "numerics", a->numerics, b->numerics },
    };
    cag_status st = CAG_OK;

    for (size_t i = 0; i < sizeof text / sizeof *text && !st; i++)
        st = field(d, err, text[i].name, text[i].a, text[i].b);
    if (!st)
        st = number(d, err, "context", a->n_ctx, b->n_ctx);
    if (!st)
        st = number(d, err, "reserve", a->reserve, b->reserve);
    if (!st)
        st = number(d, err, "tokens", a->n_tok, b->n_tok);
    return st;
}

/* What lossy codecs lost: none counts as nothing. */
static cag_status receipts(cag_diff *d, const cag_kvc *a, const cag_kvc *b,
                           cag_error *err)
{
    const cag_kvc_receipt *x = cag_kvc_get_receipt(a);
    const cag_kvc_receipt *y = cag_kvc_get_receipt(b);
    float kl_x = x ? x->kl_mean : 0, kl_y = y ? y->kl_mean : 0;

    return kl_x == kl_y ? CAG_OK
                        : add(d, err, "loss, mean KL: %.2g / %.2g nats",
                              (double)kl_x, (double)kl_y);
}

static const cag_kvc_source *find(const cag_kvc *k, const char *name)
{
    for (int i = 0; i < cag_kvc_get_info(k)->n_source; i++)
        if (!strcmp(cag_kvc_get_source(k, i)->name, name))
            return cag_kvc_get_source(k, i);
    return NULL;
}

static cag_status sources(cag_diff *d, const cag_kvc *a, const cag_kvc *b,
                          cag_error *err)
{
    int n_a = cag_kvc_get_info(a)->n_source;
    int n_b = cag_kvc_get_info(b)->n_source;
    cag_status st = CAG_OK;

    for (int i = 0; i < n_a && !st; i++) {
        const cag_kvc_source *s = cag_kvc_get_source(a, i);
        const cag_kvc_source *t = find(b, s->name);

        if (!t)
            st = add(d, err, "source only in the first: %s", s->name);
        else if (strcmp(s->sha256_text, t->sha256_text))
            st = add(d, err, "source differs: %s (%lld / %lld tokens)", s->name,
                     (long long)(s->tok_end - s->tok_begin),
                     (long long)(t->tok_end - t->tok_begin));
        else if (i < n_b && strcmp(cag_kvc_get_source(b, i)->name, s->name))
            st = add(d, err, "source at another place: %s", s->name);
    }
    for (int i = 0; i < n_b && !st; i++) {
        const cag_kvc_source *t = cag_kvc_get_source(b, i);

        if (!find(a, t->name))
            st = add(d, err, "source only in the second: %s", t->name);
    }
    return st;
}

cag_status cag_kvc_diff(const cag_kvc *a, const cag_kvc *b, cag_diff *out,
                        cag_error *err)
{
    const cag_kvc_info *x = cag_kvc_get_info(a), *y = cag_kvc_get_info(b);
    size_t n_a, n_b, n = 0;
    const int32_t *p = cag_kvc_ids(a, &n_a), *q = cag_kvc_ids(b, &n_b);
    cag_status st;

    memset(out, 0, sizeof *out);
    st = fields(out, x, y, err);
    if (!st)
        st = receipts(out, a, b, err);
    if (!st)
        st = sources(out, a, b, err);
    while (n < n_a && n < n_b && p[n] == q[n])
        n++;
    out->first_tok = n == n_a && n == n_b ? -1 : (int64_t)n;
    if (!kvc_is_q8h(kvc_get_shape(a)) && /* codes are no beginning */
        !strcmp(x->weights_sha256, y->weights_sha256) &&
        !strcmp(x->config_sha256, y->config_sha256) &&
        !strcmp(x->numerics, y->numerics) &&
        !strcmp(x->precision, y->precision))
        out->n_tok_kept = (int64_t)n;
    if (!st && out->first_tok >= 0)
        st = add(out, err,
                 "first differing token: %lld; a rebuild keeps %lld "
                 "tokens and computes %lld",
                 (long long)out->first_tok, (long long)out->n_tok_kept,
                 (long long)(y->n_tok - out->n_tok_kept));
    else if (!st && out->n_line)
        st = add(out, err,
                 "the tokens are equal; a rebuild keeps %lld of "
                 "them and computes %lld",
                 (long long)out->n_tok_kept,
                 (long long)(y->n_tok - out->n_tok_kept));
    if (!st && !out->n_line && strcmp(x->content_id, y->content_id))
        st = add(out, err,
                 "content: the same inputs, other numbers "
                 "(%.12s... / %.12s...)",
                 x->content_id, y->content_id);
    if (st)
        cag_diff_release(out);
    return st;
}

void cag_diff_release(cag_diff *d)
{
    for (int i = 0; i < d->n_line; i++)
        mem_free(d->line[i]);
    mem_free(d->line);
    memset(d, 0, sizeof *d);
}

/*
 * batch_row.c - see batch_row.h.
 */
#include "batch/batch_row.h"

#include <stdio.h>
#include <string.h>

#include "batch/batch_raw.h"
#include "evidence/evidence_json.h"
#include "ask/focus_json.h"
#include "ask/kb.h"
#include "ask/token_logprobs.h"
#include "ask/turn.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

#define MAX_STOP 16

static bool is_one_of(const char *key, const char *const *names)
{
    while (*names && strcmp(key, *names) != 0)
        names++;
    return *names != NULL;
}

/* Input fields that an output row has in places of its own. */
static const char *const placed[] = { "id",         "custom_id", "question",
                                      "max_tokens", "stop",      NULL };
/* Names of what an output row says itself. */
static const char *const ours[] = {
    "schema", "line",       "answer",  "reasoning", "refused", "finish_reason",
    "usage",  "content_id", "options", "seconds",   "error",   "error_code",
    "input",  "withheld",   "looped",  NULL
};

static cag_status bad(struct row *r, const char *msg)
{
    cag_fail(&r->error, CAG_E_FORMAT, NULL, -1, "line %lld: %s",
             (long long)r->line, msg);
    return CAG_OK;
}

static cag_status take_stop(struct row *r, const jv *stop, cag_error *err)
{
    bool list = jv_type(stop) == JV_ARRAY;
    size_t n = list ? jv_count(stop) : 1;

    if (n > MAX_STOP)
        return bad(r, "more than 16 stop strings");
    r->stop = mem_alloc_array(n + 1, sizeof *r->stop);
    if (!r->stop)
        return cag_fail_nomem(err, "stop strings");
    for (size_t i = 0; i < n; i++) {
        size_t size;
        const char *s = jv_str(list ? jv_at(stop, i) : stop, &size);

        if (!s || !size || strlen(s) != size)
            return bad(r, "\"stop\" must be a string or a list of strings, "
                          "none of them empty");
        r->stop[i] = s;
    }
    r->params.stop = r->stop;
    r->params.n_stop = (int)n;
    return CAG_OK;
}

/* A number of a row: in [lo, hi], or above lo. */
struct real_field {
    const char *key;
    float *to;
    double lo, hi;
    bool above;
    const char *expected;
};

static cag_status take_real(struct row *r, const struct real_field *f)
{
    const jv *v = jv_get(r->input, f->key);
    char msg[128];
    double x;

    if (!v || jv_type(v) == JV_NULL)
        return CAG_OK;
    x = jv_num(v, -1);
    if ((jv_type(v) == JV_INT || jv_type(v) == JV_REAL) && x >= f->lo &&
        x <= f->hi && !(f->above && x <= f->lo)) {
        *f->to = (float)x;
        return CAG_OK;
    }
    snprintf(msg, sizeof msg, "\"%s\" must be %s", f->key, f->expected);
    return bad(r, msg);
}

static cag_status take_int(struct row *r, const char *key, int64_t lo,
                           int64_t hi, const char *expected, int64_t *to)
{
    const jv *v = jv_get(r->input, key);
    char msg[128];
    int64_t n;

    if (!v || jv_type(v) == JV_NULL)
        return CAG_OK;
    n = jv_int(v, 0);
    if (jv_type(v) == JV_INT && n >= lo && n <= hi) {
        *to = n;
        return CAG_OK;
    }
    snprintf(msg, sizeof msg, "\"%s\" must be %s", key, expected);
    return bad(r, msg);
}

static void take_focus(struct row *r, const jv *v)
{
    const char *s = jv_str(v, NULL);

    for (int f = CAG_FOCUS_OFF; s && cag_focus_name(f); f++)
        if (!strcmp(s, cag_focus_name(f))) {
            r->params.focus = (cag_focus)f;
            return;
        }
    bad(r, "\"focus\" must be \"off\", \"mask\", \"reread\" or \"auto\"");
}

/* What a row says of how it is to be answered; bad values are errors of it. */
static cag_status take_params(struct row *r, cag_error *err)
{
    cag_sampling *s = &r->params.sampling;
    const struct real_field real[] = {
        { "temperature", &s->temperature, 0, 100, false,
          "a number from 0 to 100" },
        { "top_p", &s->top_p, 0, 1, true, "a number above 0, to 1" },
        { "min_p", &s->min_p, 0, 1, false, "a number from 0 to 1" },
    };
    const jv *think = jv_get(r->input, "think");
    const jv *focus = jv_get(r->input, "focus");
    const jv *stop = jv_get(r->input, "stop");
    int64_t top_k = s->top_k, seed = (int64_t)s->seed, n = 1;

    take_int(r, "max_tokens", 1, INT32_MAX, "a whole number above 0",
             &r->params.max_tok);
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        take_real(r, &real[i]);
    take_int(r, "top_k", 0, INT32_MAX, "a whole number from 0", &top_k);
    take_int(r, "seed", 0, INT64_MAX, "a whole number from 0", &seed);
    take_int(r, "n", 1, 1,
             "1: a row has one answer (of at most \"max_tokens\")", &n);
    s->top_k = (int)top_k;
    s->seed = (uint64_t)seed;
    if (think && jv_type(think) == JV_BOOL)
        r->params.think = jv_bool(think, false);
    else if (think && jv_type(think) != JV_NULL)
        bad(r, "\"think\" must be true or false");
    if (focus && jv_type(focus) != JV_NULL)
        take_focus(r, focus);
    return stop && jv_type(stop) != JV_NULL ? take_stop(r, stop, err) : CAG_OK;
}

static cag_status take_object(struct row *r, const char *field, cag_error *err)
{
    const jv *q = jv_get(r->input, field);
    const char *s;
    char msg[128];

    if (jv_type(r->input) != JV_OBJECT)
        return bad(r, "a row must be a JSON object");
    s = jv_str(q, &r->size);
    if (!s) {
        snprintf(msg, sizeof msg,
                 q ? "\"%s\" must be a string" : "the row has no \"%s\"",
                 field);
        return bad(r, msg);
    }
    r->question = mem_strndup(s, r->size);
    if (!r->question)
        return cag_fail_nomem(err, "question");
    return take_params(r, err);
}

cag_status row_parse(struct row *r, const char *text, size_t size, int64_t line,
                     const char *field, const cag_ask_params *defaults,
                     cag_error *err)
{
    cag_error why = CAG_ERROR_INIT;
    size_t bad_byte;

    memset(r, 0, sizeof *r);
    r->line = line;
    r->params = *defaults;
    r->params.sampling.row = (uint64_t)line;
    if (!utf8_valid(text, size, &bad_byte)) {
        cag_fail(&r->error, CAG_E_FORMAT, NULL, -1,
                 "line %lld: invalid UTF-8 at byte %zu of the line",
                 (long long)line, bad_byte);
        return CAG_OK;
    }
    if (!field) {
        r->question = mem_strndup(text, size);
        r->size = size;
        return r->question ? CAG_OK : cag_fail_nomem(err, "question");
    }
    if (jv_parse(text, size, NULL, &r->input, &why)) {
        if (why.status == CAG_E_NOMEM)
            return cag_error_copy(err, &why);
        cag_fail(&r->error, CAG_E_FORMAT, NULL, -1, "line %lld: %s",
                 (long long)line, why.msg);
        return CAG_OK;
    }
    r->text = mem_strndup(text, size);
    r->text_size = size;
    return r->text ? take_object(r, field, err) : cag_fail_nomem(err, "row");
}

void row_unreadable(struct row *r, int64_t line, const cag_error *why)
{
    memset(r, 0, sizeof *r);
    r->line = line;
    cag_fail(&r->error, why->status, NULL, -1, "line %lld: %s", (long long)line,
             why->msg);
}

void row_release(struct row *r)
{
    jv_free(r->input);
    mem_free(r->text);
    mem_free(r->question);
    mem_free(r->stop);
    memset(r, 0, sizeof *r);
}

cag_status row_options_key(const cag_kb *kb, const cag_ask_params *p,
                           char key[17], cag_error *err)
{
    const cag_kvc_info *info = cag_kvc_get_info(kb->kvc);
    uint8_t digest[SHA256_SIZE];
    struct buf b = BUF_INIT;
    cag_status st;

    buf_printf(&b, "%s %s %lld %a %d %a %a %llu %llu %d", info->content_id,
               kb->engine ? cag_engine_numerics(kb->engine) : "",
               (long long)p->max_tok, (double)p->sampling.temperature,
               p->sampling.top_k, (double)p->sampling.top_p,
               (double)p->sampling.min_p, (unsigned long long)p->sampling.seed,
               p->sampling.temperature > 0 ? (unsigned long long)p->sampling.row
                                           : 0ull,
               p->think);
    if (p->focus)
        buf_printf(&b, " focus %s", cag_focus_name(p->focus));
    if (p->logprobs)
        buf_printf(&b, " logprobs %d", p->n_top);
    for (int i = 0; i < p->n_stop; i++)
        buf_add(&b, p->stop[i], strlen(p->stop[i]) + 1);
    if (buf_failed(&b)) {
        buf_free(&b);
        return cag_fail_nomem(err, "options");
    }
    st = sha256_buf(b.data, b.size, digest, err);
    buf_free(&b);
    if (!st)
        hash_hex(digest, 8, key);
    return st;
}

/* Drafts depend on what else runs, so rows of a batch do not tell them. */
static bool add_usage(jv *o, const cag_answer *a, bool drafts)
{
    jv *u = jv_new_object();

    if (u && jv_set_int(u, "prompt_tokens", a->n_cached + a->n_prompt) &&
        jv_set_int(u, "cached_tokens", a->n_cached) &&
        jv_set_int(u, "generated_tokens", a->n_generated) &&
        (!drafts || (jv_set_int(u, "drafted", a->n_drafted) &&
                     jv_set_int(u, "accepted", a->n_accepted))))
        return jv_set(o, "usage", u);
    jv_free(u);
    return false;
}

/* Three digits are enough for a duration, and read well. */
static double round_ms(double s)
{
    return (double)(int64_t)(s * 1000 + 0.5) / 1000;
}

static bool add_answer(jv *o, const cag_kb *kb, const cag_answer *a,
                       const char *key, bool drafts)
{
    const cag_kvc_info *info = cag_kvc_get_info(kb->kvc);

    return jv_set(o, "answer", jv_new_str(a->text, a->size)) &&
           (!a->reasoning || jv_set_str(o, "reasoning", a->reasoning)) &&
           jv_set_bool(o, "refused", a->refused) &&
           (!a->checked || evidence_json_add(o, a->checked)) &&
           (!a->looked || focus_json_add(o, a->looked)) &&
           (!a->n_logprob || token_logprobs_json(o, kb, a)) &&
           jv_set_str(o, "finish_reason", a->finish) &&
           (!a->looped || jv_set_bool(o, "looped", true)) &&
           add_usage(o, a, drafts) &&
           jv_set_str(o, "content_id", info->content_id) &&
           jv_set_str(o, "options", key) &&
           jv_set_real(o, "seconds", round_ms(a->first_s + a->decode_s));
}

/* "key":value, as it was written where that matters. */
static void put_field(struct buf *b, const char *key, const jv *v,
                      const struct raw *raw)
{
    jv *k = jv_new_str(key, strlen(key));

    if (b->size && b->data[b->size - 1] != '{')
        buf_char(b, ',');
    if (k)
        jv_dump(k, b);
    else
        b->failed = true;
    jv_free(k);
    buf_char(b, ':');
    if (raw->value && raw_changes(raw->value, raw->size))
        buf_add(b, raw->value, raw->size);
    else
        jv_dump(v, b);
}

/* A row that an earlier batch put out, and is asked again. */
static bool is_output(const jv *input)
{
    return jv_get_int(input, "schema", 0) == 1 &&
           (jv_get(input, "content_id") || jv_get(input, "error"));
}

/* Append the fields of the input: 'i' its ids, 'f' the others of its own, 'o'
 * those that are called as one of ours, as the answer has them (or NULL). */
static void put_fields(struct buf *b, const struct row *r, char which,
                       const cag_answer *a)
{
    struct raw raw;

    if (jv_type(r->input) != JV_OBJECT)
        return;
    raw_init(&raw, r->text, r->text_size);
    for (void *it = jv_iter(r->input); it; it = jv_next(r->input, it)) {
        size_t n;
        const char *k = jv_iter_key(it, &n);
        bool is_id = !strcmp(k, "id") || !strcmp(k, "custom_id");
        char kind = is_id                  ? 'i'
                    : is_one_of(k, placed) ? 'p'
                    : is_one_of(k, ours) ||
                            (a && a->checked && evidence_json_has(k)) ||
                            (a && a->looked && focus_json_has(k))
                        ? 'o'
                        : 'f';

        if (raw_next(&raw) && kind == which)
            put_field(b, k, jv_iter_value(it), &raw);
    }
}

void row_ids(struct buf *b, const jv *row, const char *text, size_t size)
{
    const char *const keys[] = { "id", "custom_id" };

    for (int k = 0; k < 2; k++) {
        const jv *want = jv_get(row, keys[k]);
        struct raw raw = { 0 };

        if (text)
            raw_init(&raw, text, size);
        for (void *it = want ? jv_iter(row) : NULL; it; it = jv_next(row, it)) {
            if (text)
                raw_next(&raw);
            if (jv_iter_value(it) != want)
                continue;
            if (raw.value && raw_changes(raw.value, raw.size))
                buf_add(b, raw.value, raw.size);
            else
                jv_dump(want, b);
        }
        buf_char(b, '\0');
    }
}

/* A message may quote half a character, or be cut within one. */
static bool set_error(jv *o, const cag_error *why)
{
    struct buf b = BUF_INIT;
    bool ok;

    utf8_sanitize(why->msg, strlen(why->msg), &b);
    ok = !buf_failed(&b) && jv_set_str(o, "error", b.size ? b.data : "") &&
         jv_set_str(o, "error_code", cag_status_name(why->status));
    buf_free(&b);
    return ok;
}

/* Append the members of o, without its braces; o is released. */
static void put_members(struct buf *out, jv *o, bool ok)
{
    struct buf b = BUF_INIT;

    if (ok)
        jv_dump(o, &b);
    if (!ok || buf_failed(&b))
        out->failed = true;
    else if (b.size > 2) {
        if (!out->failed && out->data[out->size - 1] != '{')
            buf_char(out, ',');
        buf_add(out, b.data + 1, b.size - 2);
    }
    buf_free(&b);
    jv_free(o);
}

cag_status row_write(const cag_kb *kb, const struct row *r, const cag_answer *a,
                     const char *key, struct buf *out, cag_error *err)
{
    jv *head = jv_new_object(), *o = jv_new_object();
    struct buf same = BUF_INIT;
    bool ok = o && (!r->question ||
                    jv_set(o, "question", jv_new_str(r->question, r->size)));

    buf_char(out, '{');
    put_members(out, head,
                head && jv_set_int(head, "schema", 1) &&
                    jv_set_int(head, "line", r->line));
    put_fields(out, r, 'i', a);
    ok = ok && (r->error.status ? set_error(o, &r->error)
                                : add_answer(o, kb, a, key, false));
    put_members(out, o, ok);
    put_fields(out, r, 'f', a);
    if (!is_output(r->input)) {
        buf_char(&same, '{');
        put_fields(&same, r, 'o', a);
        buf_char(&same, '}');
        if (same.size > 2) {
            buf_str(out, ",\"input\":");
            buf_add(out, same.data, same.size);
        }
        out->failed = out->failed || same.failed;
    }
    buf_free(&same);
    buf_str(out, "}\n");
    return buf_failed(out) ? cag_fail_nomem(err, "row") : CAG_OK;
}

bool row_read_answer(const jv *row, cag_answer *a)
{
    const jv *usage = jv_get(row, "usage");
    const char *text, *why = jv_get_str(row, "reasoning", NULL);
    const char *finish = jv_get_str(row, "finish_reason", "");
    bool failed, withheld; /* the answer itself is kept, and is judged again */

    memset(a, 0, sizeof *a);
    withheld = !strcmp(jv_get_str(row, "by", ""), "evidence") &&
               jv_get(row, "withheld");
    text = jv_str(jv_get(row, withheld ? "withheld" : "answer"), &a->size);
    if (jv_get(row, "error") || !text || !usage)
        return false;
    a->finish = !strcmp(finish, "length") ? "length" : "stop";
    a->refused = !withheld && jv_get_bool(row, "refused", false);
    a->n_cached = jv_get_int(usage, "cached_tokens", 0);
    a->n_prompt = jv_get_int(usage, "prompt_tokens", 0) - a->n_cached;
    a->n_generated = jv_get_int(usage, "generated_tokens", 0);
    a->first_s = jv_get_num(row, "seconds", 0);
    a->text = mem_strndup(text, a->size);
    a->reasoning = why ? mem_strdup(why) : NULL;
    a->looked = focus_json_read(row, &failed);
    if (a->text && (!why || a->reasoning) && !failed)
        return true;
    cag_answer_release(a);
    return false;
}

void row_write_text(const cag_answer *a, struct buf *out)
{
    size_t begin = out->size;

    if (a && a->text)
        buf_add(out, a->text, a->size);
    for (size_t i = begin; i < out->size; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
    buf_char(out, '\n');
}

static bool add_verified(jv *o, const cag_kvc *k)
{
    jv *v = jv_new_object();
    cag_kvc_checked c;

    cag_kvc_get_checked(k, &c);
    if (v && jv_set_int(v, "sections", c.n_section) &&
        jv_set_int(v, "chunks", c.n_chunk) &&
        jv_set_int(v, "of_chunks", c.of_chunk) &&
        jv_set_bool(v, "full", c.full))
        return jv_set(o, "verified", v);
    jv_free(v);
    return false;
}

char *cag_answer_json(const cag_kb *kb, const cag_answer *a,
                      const char *question, size_t size, const char *id,
                      const cag_ask_params *given)
{
    struct buf b = BUF_INIT;
    jv *o = jv_new_object();
    cag_ask_params p;
    char key[17];
    bool ok = o && !turn_params(&p, given, NULL) &&
              !row_options_key(kb, &p, key, NULL) &&
              jv_set_int(o, "schema", 1) && (!id || jv_set_str(o, "id", id)) &&
              jv_set(o, "question", jv_new_str(question, size)) &&
              add_answer(o, kb, a, key, true) &&
              jv_set_int(o, "sources_unseen", kb->n_unseen) &&
              add_verified(o, kb->kvc);

    if (ok)
        jv_dump(o, &b);
    jv_free(o);
    if (ok)
        return buf_detach(&b, NULL);
    buf_free(&b);
    return NULL;
}

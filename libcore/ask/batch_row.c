/*
 * batch_row.c - see batch_row.h.
 */
#include "ask/batch_row.h"

#include <stdio.h>
#include <string.h>

#include "ask/evidence_json.h"
#include "ask/kb.h"
#include "ask/turn.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

#define MAX_STOP 16

/* Input fields that an output row writes itself. */
static bool is_ours(const char *key)
{
    static const char *const ours[] = {
        "schema",        "line",    "id",         "custom_id", "question",
        "max_tokens",    "stop",    "answer",     "reasoning", "refused",
        "finish_reason", "usage",   "content_id", "options",   "seconds",
        "error",         "withheld"
    };

    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strcmp(key, ours[i]))
            return true;
    return false;
}

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

static cag_status take_object(struct row *r, cag_error *err)
{
    const jv *q = jv_get(r->input, "question");
    const jv *max = jv_get(r->input, "max_tokens");
    const jv *stop = jv_get(r->input, "stop");
    const char *s;

    if (jv_type(r->input) != JV_OBJECT)
        return bad(r, "a row must be a JSON object");
    s = jv_str(q, &r->size);
    if (!s)
        return bad(r, q ? "\"question\" must be a string"
                        : "the row has no \"question\"");
    if (max) {
        int64_t n = jv_int(max, 0);

        if (jv_type(max) != JV_INT || n < 1 || n > INT32_MAX)
            return bad(r, "\"max_tokens\" must be a whole number above 0");
        r->params.max_tok = n;
    }
    r->question = mem_strndup(s, r->size);
    if (!r->question)
        return cag_fail_nomem(err, "question");
    return stop && jv_type(stop) != JV_NULL ? take_stop(r, stop, err) : CAG_OK;
}

cag_status row_parse(struct row *r, const char *text, size_t size, int64_t line,
                     bool jsonl, const cag_ask_params *defaults, cag_error *err)
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
    if (!jsonl) {
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
    return take_object(r, err);
}

void row_release(struct row *r)
{
    jv_free(r->input);
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
           jv_set_str(o, "finish_reason", a->finish) &&
           add_usage(o, a, drafts) &&
           jv_set_str(o, "content_id", info->content_id) &&
           jv_set_str(o, "options", key) &&
           jv_set_real(o, "seconds", round_ms(a->first_s + a->decode_s));
}

static bool copy_fields(jv *o, const jv *input, bool checked)
{
    if (jv_type(input) != JV_OBJECT)
        return true;
    for (void *it = jv_iter(input); it; it = jv_next(input, it)) {
        size_t n;
        const char *k = jv_iter_key(it, &n);

        if (!is_ours(k) && !(checked && evidence_json_has(k)) &&
            !jv_set(o, k, jv_copy(jv_iter_value(it))))
            return false;
    }
    return true;
}

static bool copy_ids(jv *o, const jv *input)
{
    static const char *const keys[] = { "id", "custom_id" };

    for (int i = 0; i < 2; i++) {
        const jv *v = jv_get(input, keys[i]);

        if (v && !jv_set(o, keys[i], jv_copy(v)))
            return false;
    }
    return true;
}

/* A message may quote half a character, or be cut within one. */
static bool set_error(jv *o, const char *msg)
{
    struct buf b = BUF_INIT;
    bool ok;

    utf8_sanitize(msg, strlen(msg), &b);
    ok = !buf_failed(&b) && jv_set_str(o, "error", b.size ? b.data : "");
    buf_free(&b);
    return ok;
}

cag_status row_write(const cag_kb *kb, const struct row *r, const cag_answer *a,
                     const char *key, struct buf *out, cag_error *err)
{
    const jv *in = jv_type(r->input) == JV_OBJECT ? r->input : NULL;
    jv *o = jv_new_object();
    bool ok = o && jv_set_int(o, "schema", 1) &&
              jv_set_int(o, "line", r->line) && copy_ids(o, in) &&
              (!r->question ||
               jv_set(o, "question", jv_new_str(r->question, r->size)));

    if (ok)
        ok = r->error.status ? set_error(o, r->error.msg)
                             : add_answer(o, kb, a, key, false);
    ok = ok && copy_fields(o, in, a && a->checked);
    if (ok) {
        jv_dump(o, out);
        buf_char(out, '\n');
    }
    jv_free(o);
    return ok && !buf_failed(out) ? CAG_OK : cag_fail_nomem(err, "row");
}

bool row_read_answer(const jv *row, cag_answer *a)
{
    const jv *usage = jv_get(row, "usage");
    const char *text, *why = jv_get_str(row, "reasoning", NULL);
    const char *finish = jv_get_str(row, "finish_reason", "");
    bool withheld; /* the answer itself is kept, and is judged again */

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
    if (a->text && (!why || a->reasoning))
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

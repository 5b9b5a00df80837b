/*
 * prompt_tail.c - what follows the cached prefix.
 *
 * The prefix ends with a special token (the border).  The rest is encoded
 * with that token in front, which is then dropped: a special token that
 * swallows white space after it, or a tokenizer that treats the start of a
 * text specially, gives the same ids as in the whole prompt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prompt/prompt.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

#define BODY_MARK "qcagbodyq"

static int by_value(const void *a, const void *b)
{
    int32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* What ends an answer: the model's eos ids and the template's own mark. */
static cag_status stop_ids(const struct prompt *p, const cag_tokenizer *t,
                           jv *out, cag_error *err)
{
    size_t n, k = 0;
    const int32_t *eos = cag_tokenizer_eos(t, &n);
    int32_t *id = mem_alloc_array(n + 1, sizeof *id);
    if (!id)
        return cag_fail_nomem(err, "prompt");
    for (size_t i = 0; i < n; i++)
        id[k++] = eos[i];
    if (p->cut.end_of_turn >= 0)
        id[k++] = p->cut.end_of_turn;
    if (k > 1)
        qsort(id, k, sizeof *id, by_value);
    bool ok = true;
    for (size_t i = 0; i < k && ok; i++)
        if (i == 0 || id[i] != id[i - 1])
            ok = jv_append(out, jv_new_int(id[i]));
    mem_free(id);
    return ok ? CAG_OK : cag_fail_nomem(err, "prompt");
}

cag_status prompt_to_json(const struct prompt *p, const char *template_text,
                          const cag_tokenizer *t, int64_t now_s, jv **out,
                          cag_error *err)
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1], date[32] = "";
    struct tm tm;
    time_t when = (time_t)now_s;
    jv *o = jv_new_object(), *stop = jv_new_array();
    cag_status st =
        sha256_buf(template_text, strlen(template_text), digest, err);
    if (!st && (!o || !stop))
        st = cag_fail_nomem(err, "prompt");
    if (!st)
        st = stop_ids(p, t, stop, err);
    if (st || !gmtime_r(&when, &tm) ||
        !strftime(date, sizeof date, "%Y-%m-%d", &tm)) {
        jv_free(stop);
        jv_free(o);
        return st ? st : cag_fail(err, CAG_E_USAGE, NULL, -1, "bad date");
    }
    hash_hex(digest, sizeof digest, hex);
    bool ok = jv_set(o, "stop_ids", stop);
    ok = ok && jv_set_bool(o, "ack", p->cut.ack_turns);
    ok = ok && (!p->ack || jv_set_str(o, "acknowledgement", p->ack));
    ok = ok && jv_set_str(o, "border", p->cut.border);
    ok = ok && jv_set_str(o, "date", date);
    ok = ok && jv_set_bool(o, "knows_thinking", p->cut.knows_thinking);
    ok = ok && jv_set_str(o, "mid", p->cut.mid + p->cut.mid_cached);
    ok = ok && jv_set_int(o, "now_s", now_s);
    ok = ok && jv_set_str(o, "refusal", p->refusal);
    ok = ok && jv_set_str(o, "suffix", p->cut.suffix[0]);
    ok = ok && jv_set_str(o, "suffix_think", p->cut.suffix[1]);
    ok = ok && jv_set_str(o, "template", template_text);
    ok = ok && jv_set_str(o, "template_sha256", hex);
    ok = ok && jv_set_int(o, "question_trim", p->cut.question_trim);
    ok = ok && jv_set_bool(o, "trims_question", p->cut.question_trim != 0);
    if (!ok) {
        jv_free(o);
        return cag_fail_nomem(err, "prompt");
    }
    *out = o;
    return CAG_OK;
}

static cag_status get(const jv *o, const char *key, const char *file,
                      char **out, cag_error *err)
{
    const char *s;
    cag_status st = jv_need_str(o, key, file, &s, err);
    size_t n;
    if (st)
        return st;
    jv_str(jv_get(o, key), &n);
    if (strlen(s) != n)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "PRMT: %s holds a zero byte", key);
    *out = mem_strdup(s);
    return *out ? CAG_OK : cag_fail_nomem(err, "prompt");
}

static cag_status get_bool(const jv *o, const char *key, const char *file,
                           bool *out, cag_error *err)
{
    const jv *v = jv_get(o, key);
    if (jv_type(v) != JV_BOOL)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "PRMT: %s is %s, expected a boolean", key,
                        v ? jv_type_name(v) : "missing");
    *out = jv_bool(v, false);
    return CAG_OK;
}

static cag_status get_stops(const jv *o, const char *file,
                            struct prompt_tail *p, cag_error *err)
{
    const jv *a = jv_get(o, "stop_ids");
    size_t n = jv_count(a);
    if (jv_type(a) != JV_ARRAY || n > 1000)
        return cag_fail(err, CAG_E_FORMAT, file, -1,
                        "PRMT: stop_ids: expected an array of ids");
    p->stop_id = mem_alloc_array(n + 1, sizeof *p->stop_id);
    if (!p->stop_id)
        return cag_fail_nomem(err, "prompt");
    for (size_t i = 0; i < n; i++) {
        int64_t id = jv_int(jv_at(a, i), -1);
        if (id < 0 || id > INT32_MAX)
            return cag_fail(err, CAG_E_FORMAT, file, -1,
                            "PRMT: stop_ids: not a token id");
        p->stop_id[p->n_stop++] = (int32_t)id;
    }
    return CAG_OK;
}

cag_status prompt_tail_from_json(const jv *prmt, const char *file,
                                 struct prompt_tail *out, cag_error *err)
{
    struct prompt_tail p = { 0 };
    const jv *date = jv_get(prmt, "date");
    char *hex = NULL;
    uint8_t digest[SHA256_SIZE];
    int64_t trim = 0;
    bool trims = false;
    cag_status st = CAG_OK;
    const struct {
        const char *key;
        char **to;
    } str[] = {
        { "border", &p.border },          { "mid", &p.mid },
        { "refusal", &p.refusal },        { "suffix", &p.suffix[0] },
        { "suffix_think", &p.suffix[1] }, { "template", &p.template_text },
        { "template_sha256", &hex },
    };
    const struct {
        const char *key;
        bool *to;
    } flag[] = {
        { "ack", &p.ack_turns },
        { "knows_thinking", &p.knows_thinking },
        { "trims_question", &trims },
    };
    for (size_t i = 0; i < sizeof str / sizeof *str && !st; i++)
        st = get(prmt, str[i].key, file, str[i].to, err);
    if (!st && (!date || jv_type(date) != JV_NULL))
        st = get(prmt, "date", file, &p.date, err);
    for (size_t i = 0; i < sizeof flag / sizeof *flag && !st; i++)
        st = get_bool(prmt, flag[i].key, file, flag[i].to, err);
    if (!st && jv_get(prmt, "acknowledgement"))
        st = get(prmt, "acknowledgement", file, &p.ack, err);
    else if (!st && !(p.ack = mem_strdup(CHAT_ACK)))
        st = cag_fail_nomem(err, "prompt");
    if (!st)
        st = jv_need_int(prmt, "now_s", file, INT64_MIN / 2, INT64_MAX / 2,
                         &p.now_s, err);
    if (!st)
        st = jv_need_int(prmt, "question_trim", file, 0, 3, &trim, err);
    if (!st && trims != (trim != 0))
        st = cag_fail(err, CAG_E_FORMAT, file, -1,
                      "PRMT: trims_question contradicts question_trim");
    p.question_trim = (unsigned)trim;
    if (!st)
        st = get_stops(prmt, file, &p, err);
    if (!st && !hash_unhex(hex, digest, sizeof digest))
        st = cag_fail(err, CAG_E_FORMAT, file, -1,
                      "PRMT: template_sha256: expected 64 hex digits");
    if (!st) {
        memcpy(p.template_sha256, hex, sizeof p.template_sha256);
        *out = p;
    } else {
        prompt_tail_release(&p);
    }
    mem_free(hex);
    return st;
}

void prompt_tail_release(struct prompt_tail *p)
{
    mem_free(p->mid);
    mem_free(p->border);
    mem_free(p->suffix[0]);
    mem_free(p->suffix[1]);
    mem_free(p->refusal);
    mem_free(p->ack);
    mem_free(p->template_text);
    mem_free(p->date);
    mem_free(p->stop_id);
    memset(p, 0, sizeof *p);
}

/* Encode pieces, whose first is the border, and drop the border's id. */
static cag_status encode_tail(const struct prompt_tail *p,
                              const cag_tokenizer *t, const cag_text *piece,
                              size_t n, cag_ids *out, cag_error *err)
{
    cag_ids ids = CAG_IDS_INIT;
    int64_t size = (int64_t)piece[0].size;
    cag_status st = CAG_OK;

    if (p->room)
        st = prompt_check_size("the question", piece, n, t, p->room, err);
    if (!st)
        st = cag_encode(t, piece, n, CAG_ENCODE_OFFSETS, &ids, err);
    if (st)
        return st;
    if (ids.n == 0 || !cag_token_is_special(t, ids.id[0]) ||
        ids.id[0] != cag_token_id(t, p->border, strlen(p->border))) {
        cag_ids_free(&ids);
        return cag_fail(err, CAG_E_MISMATCH, NULL, -1,
                        "the tokenizer does not know the prompt's border "
                        "token; the cache is for another tokenizer");
    }
    ids.n--;
    memmove(ids.id, ids.id + 1, ids.n * sizeof *ids.id);
    for (size_t i = 0; i < ids.n; i++)
        ids.off[i] = ids.off[i + 1] - size;
    *out = ids;
    return CAG_OK;
}

cag_status prompt_question_encode(const struct prompt_tail *p,
                                  const cag_tokenizer *t, const char *question,
                                  size_t size, bool think, cag_ids *out,
                                  cag_error *err)
{
    const char *s, *suffix = p->suffix[think];
    size_t n = size, bad;
    if (!utf8_valid(question, size, &bad))
        return cag_fail(err, CAG_E_FORMAT, NULL, (int64_t)bad,
                        "the question is not valid UTF-8 (byte %zu)", bad);
    if (size && memchr(question, 0, size))
        return cag_fail(err, CAG_E_FORMAT, NULL, -1,
                        "the question holds a NUL byte, expected text");
    chat_strip(question, &n, CHAT_TRIM_LEFT | CHAT_TRIM_RIGHT);
    if (n == 0)
        return cag_fail(err, CAG_E_FORMAT, NULL, -1, "the question is empty");
    n = size;
    s = chat_strip(question, &n, p->question_trim);
    cag_text piece[] = {
        { p->border, strlen(p->border), CAG_TEXT_TEMPLATE },
        { p->mid, strlen(p->mid), CAG_TEXT_TEMPLATE },
        { s, n, 0 },
        { suffix, strlen(suffix), CAG_TEXT_TEMPLATE },
    };
    return encode_tail(p, t, piece, 4, out, err);
}

/* [system(mark) or user(mark), assistant(ack)] + turns */
static jv *with_knowledge(const struct prompt_tail *p, const jv *turns)
{
    jv *all = jv_new_array(), *m = jv_new_object(), *a = jv_new_object();
    bool ok = all && m && a;
    ok = ok && jv_set_str(m, "role", p->ack_turns ? "user" : "system") &&
         jv_set_str(m, "content", BODY_MARK) &&
         jv_set_str(a, "role", "assistant") && jv_set_str(a, "content", p->ack);
    if (ok) {
        ok = jv_append(all, m);
        m = NULL;
    }
    if (ok && p->ack_turns) {
        ok = jv_append(all, a);
        a = NULL;
    }
    for (size_t i = 0; ok && i < jv_count(turns); i++) {
        jv *c = jv_copy(jv_at(turns, i));
        ok = c && jv_append(all, c);
    }
    jv_free(m);
    jv_free(a);
    if (!ok) {
        jv_free(all);
        return NULL;
    }
    return all;
}

/* The pieces of r after its byte at, with the border as first piece. */
static cag_status pieces_behind(const struct prompt_tail *p,
                                const struct chat_pieces *r, size_t at,
                                cag_text **out, size_t *n, cag_error *err)
{
    cag_text *v = mem_alloc_array(r->n + 1, sizeof *v);
    size_t k = 0;
    if (!v)
        return cag_fail_nomem(err, "prompt");
    v[k++] = (cag_text){ p->border, strlen(p->border), CAG_TEXT_TEMPLATE };
    for (size_t i = 0; i < r->n; i++) {
        size_t begin = (size_t)(r->piece[i].text - r->text);
        size_t end = begin + r->piece[i].size;
        if (end <= at)
            continue;
        if (begin < at)
            begin = at;
        v[k++] = (cag_text){ r->text + begin, end - begin, r->piece[i].flags };
    }
    *out = v;
    *n = k;
    return CAG_OK;
}

cag_status prompt_chat_encode(const struct prompt_tail *p,
                              const cag_tokenizer *t, const jv *turns,
                              bool think, cag_ids *out, cag_error *err)
{
    struct chat_pieces r = { NULL, 0, NULL, 0 };
    cag_text *piece = NULL;
    size_t n = 0;
    jv *all = with_knowledge(p, turns);
    cag_status st;

    if (!all)
        return cag_fail_nomem(err, "prompt");
    st = chat_render(p->template_text, t, all, true, think && p->knows_thinking,
                     p->now_s, &r, err);
    if (st)
        goto out;
    /* after the knowledge the template must go on as at build time: what
     * is cached ends with the border, and mid follows */
    const char *mark = memmem(r.text, r.size, BODY_MARK, strlen(BODY_MARK));
    const char *from = mark ? mark + strlen(BODY_MARK) : NULL;
    const char *b = from ? strstr(from, p->border) : NULL;
    size_t n_mid = strlen(p->mid), n_b = strlen(p->border);
    while (b && strncmp(b + n_b, p->mid, n_mid) != 0)
        b = strstr(b + 1, p->border);
    if (!b) {
        st = cag_fail(err, CAG_E_UNSUPPORTED, "chat template", -1,
                      "the template writes a conversation differently from "
                      "a first question, so the cache cannot carry it");
        goto out;
    }
    st = pieces_behind(p, &r, (size_t)(b - r.text) + n_b, &piece, &n, err);
    if (!st)
        st = encode_tail(p, t, piece, n, out, err);
out:
    mem_free(piece);
    chat_pieces_release(&r);
    jv_free(all);
    return st;
}

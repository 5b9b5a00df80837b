/*
 * token_logprobs.c - see token_logprobs.h.
 */
#include "ask/token_logprobs.h"

#include <string.h>

#include "ask/kb.h"
#include "util/mem.h"
#include "util/real.h"
#include "util/text.h"

/* ln of the sum of e^logit */
static double log_sum(const float *logits, int64_t n)
{
    double most = logits[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += real_exp(logits[i] - most);
    return most + real_log(sum);
}

static void take_top(cag_logprob *p, const float *logits, int64_t n, int n_top)
{
    for (int64_t i = 0; i < n; i++) {
        int at = p->n_top;

        while (at > 0 && logits[i] > logits[p->top[at - 1].id])
            at--;
        if (at == n_top)
            continue;
        if (p->n_top < n_top)
            p->n_top++;
        memmove(&p->top[at + 1], &p->top[at],
                (size_t)(p->n_top - 1 - at) * sizeof p->top[0]);
        p->top[at].id = (int32_t)i;
    }
}

cag_status token_logprobs_add(struct token_logprobs *l, const float *logits,
                              int64_t n_vocab, int32_t id, int n_top,
                              size_t off, cag_error *err)
{
    double sum = log_sum(logits, n_vocab);
    cag_logprob *p;

    if (l->n == l->room) {
        int64_t room = l->room ? 2 * l->room : 64;

        size_t bytes;

        p = mem_mul(&bytes, (size_t)room, sizeof *p)
                ? mem_realloc(l->item, bytes)
                : NULL;
        if (!p)
            return cag_fail_nomem(err, "logprobs");
        l->item = p;
        l->room = room;
    }
    p = &l->item[l->n++];
    *p = (cag_logprob){ .id = id, .logprob = logits[id] - sum, .off = off };
    take_top(p, logits, n_vocab, n_top);
    for (int i = 0; i < p->n_top; i++)
        p->top[i].logprob = logits[p->top[i].id] - sum;
    return CAG_OK;
}

void token_logprobs_end(struct token_logprobs *l, size_t size, cag_answer *a)
{
    while (l->n && l->item[l->n - 1].off >= size)
        l->n--;
    if (l->n) {
        a->logprob = l->item;
        a->n_logprob = l->n;
        l->item = NULL;
    }
    token_logprobs_release(l);
}

void token_logprobs_release(struct token_logprobs *l)
{
    mem_free(l->item);
    memset(l, 0, sizeof *l);
}

cag_logprob *token_logprobs_copy(const cag_answer *a)
{
    size_t n = (size_t)a->n_logprob;
    cag_logprob *copy = n ? mem_alloc_array(n, sizeof *copy) : NULL;

    if (copy)
        memcpy(copy, a->logprob, n * sizeof *copy);
    return copy;
}

/* -------------------------------------------------------------------- JSON */

/* A token's bytes may be half a character: as text they are then U+FFFD.  A
 * model may have logits beyond its vocabulary: they stand for nothing. */
static bool set_token(jv *o, const cag_kb *kb, int32_t id, double logprob)
{
    size_t n = 0;
    const char *bytes = cag_token_bytes(kb->tok, id, true, &n);
    struct buf text = BUF_INIT;
    jv *list = jv_new_array();
    bool ok = list;

    n = bytes ? n : 0;
    if (n)
        utf8_sanitize(bytes, n, &text);
    for (size_t i = 0; ok && i < n; i++)
        ok = jv_append(list, jv_new_int((unsigned char)bytes[i]));
    ok =
        ok && !buf_failed(&text) &&
        jv_set(o, "token", jv_new_str(text.size ? text.data : "", text.size)) &&
        jv_set_real(o, "logprob", logprob);
    if (ok) {
        ok = jv_set(o, "bytes", list);
        list = NULL;
    }
    jv_free(list);
    buf_free(&text);
    return ok;
}

static jv *new_top(const cag_kb *kb, const cag_logprob *p)
{
    jv *list = jv_new_array();
    bool ok = list;

    for (int i = 0; ok && i < p->n_top; i++) {
        jv *one = jv_new_object();

        ok = one && set_token(one, kb, p->top[i].id, p->top[i].logprob);
        if (ok)
            ok = jv_append(list, one);
        else
            jv_free(one);
    }
    if (ok)
        return list;
    jv_free(list);
    return NULL;
}

bool token_logprobs_json(jv *o, const cag_kb *kb, const cag_answer *a)
{
    jv *list = jv_new_array();
    bool ok = list;

    for (int64_t i = 0; ok && i < a->n_logprob; i++) {
        const cag_logprob *p = &a->logprob[i];
        jv *one = jv_new_object();

        ok = one && set_token(one, kb, p->id, p->logprob) &&
             jv_set_int(one, "offset", (int64_t)p->off) &&
             jv_set(one, "top_logprobs", new_top(kb, p));
        if (ok)
            ok = jv_append(list, one);
        else
            jv_free(one);
    }
    if (ok)
        return jv_set(o, "logprobs", list);
    jv_free(list);
    return false;
}

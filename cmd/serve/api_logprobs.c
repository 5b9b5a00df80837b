/*
 * api_logprobs.c - see api_logprobs.h.
 *
 * chat          {content: [{token, logprob, bytes, top_logprobs}], refusal}
 * completions   {tokens, token_logprobs, top_logprobs: [{token: logprob}],
 *                text_offset}, offsets in characters
 */
#include "cmd/serve/api_logprobs.h"

#include <string.h>

/* The row's, without what only a completion has. */
static jv *for_chat(const jv *list)
{
    jv *o = jv_new_object(), *content = jv_new_array();
    bool ok = o && content;

    for (size_t i = 0; ok && i < jv_count(list); i++) {
        jv *one = jv_copy(jv_at(list, i));

        if (one)
            jv_remove(one, "offset");
        ok = one && jv_append(content, one);
    }
    if (ok) {
        ok = jv_set(o, "content", content) &&
             jv_set(o, "refusal", jv_new_null());
        content = NULL;
    }
    jv_free(content);
    if (ok)
        return o;
    jv_free(o);
    return NULL;
}

static int64_t characters(const cag_answer *a, int64_t off)
{
    int64_t n = 0;

    for (int64_t i = 0; i < off && i < (int64_t)a->size; i++)
        n += ((unsigned char)a->text[i] & 0xc0) != 0x80;
    return n;
}

/* Of two tokens that read the same, the likelier. */
static jv *top_of(const jv *one)
{
    const jv *top = jv_get(one, "top_logprobs");
    jv *o = jv_new_object();
    bool ok = o;

    for (size_t i = 0; ok && i < jv_count(top); i++) {
        const char *token = jv_get_str(jv_at(top, i), "token", "");

        if (!jv_get(o, token))
            ok = jv_set_real(o, token, jv_get_num(jv_at(top, i), "logprob", 0));
    }
    if (ok)
        return o;
    jv_free(o);
    return NULL;
}

static jv *for_completion(const struct api_answer *x)
{
    static const char *const key[] = { "tokens", "token_logprobs",
                                       "top_logprobs", "text_offset" };
    jv *o = jv_new_object(), *list[4] = { NULL };
    bool ok = o;

    for (int k = 0; k < 4; k++) {
        list[k] = jv_new_array();
        ok = ok && list[k];
    }
    for (size_t i = 0; ok && i < jv_count(x->logprobs); i++) {
        const jv *one = jv_at(x->logprobs, i);
        int64_t off = jv_get_int(one, "offset", 0);

        ok = jv_append(list[0], jv_copy(jv_get(one, "token"))) &&
             jv_append(list[1], jv_copy(jv_get(one, "logprob"))) &&
             jv_append(list[2], top_of(one)) &&
             jv_append(list[3], jv_new_int(characters(x->a, off)));
    }
    for (int k = 0; k < 4; k++)
        if (ok)
            ok = jv_set(o, key[k], list[k]);
        else
            jv_free(list[k]);
    if (ok)
        return o;
    jv_free(o);
    return NULL;
}

jv *api_logprobs(const struct api_answer *x)
{
    if (!x->logprobs)
        return jv_new_null();
    return x->kind == API_CHAT ? for_chat(x->logprobs) : for_completion(x);
}

/*
 * prompt.c - the prompt that is cached: system text, label, sources.
 *
 * The format is one small models read well: a Markdown heading per source,
 * blank lines between.  Where a template strips its messages, the body is
 * stripped here, so that the cached text is what the template would write.
 */
#include "prompt/prompt.h"

#include <stdio.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "util/buf.h"
#include "util/mem.h"
#include "util/text.h"

/* Up to here tokens are counted whatever comes of it: exact numbers, by source,
 * are worth 200 MB of memory. */
#define SIZE_COUNTED ((size_t)4 << 20)

static const char default_system[] =
    "Answer the question using only the knowledge base below. Give only the "
    "direct answer, without explanation. If the answer is not in the "
    "knowledge base, reply exactly: {refusal}";

/* Replace every {refusal}. */
static char *fill(const char *text, const char *refusal, bool *used)
{
    static const char key[] = "{refusal}";
    struct buf b = BUF_INIT;
    const char *p;
    *used = false;
    for (; (p = strstr(text, key)) != NULL; text = p + sizeof key - 1) {
        buf_add(&b, text, (size_t)(p - text));
        buf_str(&b, refusal);
        *used = true;
    }
    buf_str(&b, text);
    if (buf_failed(&b)) {
        buf_free(&b);
        return NULL;
    }
    return buf_detach(&b, NULL);
}

static cag_status check_text(const char *s, size_t n, const char *what,
                             cag_error *err)
{
    size_t bad;
    if (utf8_valid(s, n, &bad))
        return CAG_OK;
    return cag_fail(err, CAG_E_FORMAT, what, (int64_t)bad,
                    "not valid UTF-8; convert it, for example with iconv -f "
                    "LATIN1 -t UTF-8");
}

static cag_status check_source(const struct prompt_source *s, cag_error *err)
{
    size_t n = strlen(s->name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s->name[i] < ' ')
            return cag_fail(err, CAG_E_FORMAT, s->name, -1,
                            "the name of a source must be one line; give "
                            "another one with --title");
    cag_status st = check_text(s->name, n, s->name, err);
    return st ? st : check_text(s->text, s->size, s->name, err);
}

/* The acknowledgement becomes template text, where a control token would be
 * one: it must be plain. */
static cag_status check_ack(const char *ack, const cag_tokenizer *t,
                            cag_error *err)
{
    cag_text piece = { ack, strlen(ack), CAG_TEXT_TEMPLATE };
    cag_ids ids = CAG_IDS_INIT;
    cag_status st = check_text(ack, piece.size, "--acknowledgement", err);

    if (!st && !*ack)
        st = cag_fail(err, CAG_E_FORMAT, "--acknowledgement", -1, "is empty");
    if (!st)
        st = cag_encode(t, &piece, 1, 0, &ids, err);
    for (size_t i = 0; !st && i < ids.n; i++)
        if (cag_token_is_special(t, ids.id[i]))
            st = cag_fail(err, CAG_E_FORMAT, "--acknowledgement", -1,
                          "holds a control token of the model, expected "
                          "plain text");
    cag_ids_free(&ids);
    return st;
}

/* System text, label and sources; ranges count from the body's start. */
static cag_status make_body(struct prompt *p, const struct prompt_source *src,
                            int n, struct buf *b, cag_error *err)
{
    buf_str(b, p->system);
    if (b->size && p->label[0])
        buf_str(b, "\n\n");
    buf_str(b, p->label);
    for (int i = 0; i < n; i++) {
        buf_str(b, b->size ? "\n\n## " : "## ");
        buf_str(b, src[i].name);
        buf_str(b, "\n");
        p->source[i].off = b->size;
        p->source[i].bytes = src[i].size;
        buf_add(b, src[i].text, src[i].size);
        /* one newline at the end of a file is its line's, not a gap */
        if (i + 1 < n && src[i].size && src[i].text[src[i].size - 1] == '\n')
            buf_truncate(b, b->size - 1);
        if (p->source[i].off + p->source[i].bytes > b->size)
            p->source[i].bytes = b->size - p->source[i].off;
    }
    return buf_failed(b) ? cag_fail_nomem(err, "prompt") : CAG_OK;
}

/* lead + body + cached mid, with the source ranges moved along. */
static cag_status join(struct prompt *p, struct buf *body, cag_error *err)
{
    struct buf b = BUF_INIT;
    size_t n = body->size, n_lead = strlen(p->cut.lead);
    const char *s = body->data;

    s = chat_strip(s, &n, p->cut.body_trim);
    size_t front = (size_t)(s - body->data);
    buf_str(&b, p->cut.lead);
    buf_add(&b, s, n);
    buf_add(&b, p->cut.mid, p->cut.mid_cached);
    if (buf_failed(&b)) {
        buf_free(&b);
        return cag_fail_nomem(err, "prompt");
    }
    p->text = buf_detach(&b, &p->size);
    p->piece[0] = (cag_text){ p->text, n_lead, CAG_TEXT_TEMPLATE };
    p->piece[1] = (cag_text){ p->text + n_lead, n, 0 };
    p->piece[2] = (cag_text){ p->text + n_lead + n, p->cut.mid_cached,
                              CAG_TEXT_TEMPLATE };
    for (int i = 0; i < p->n_source; i++) {
        struct prompt_range *r = &p->source[i];
        uint64_t end = r->off + r->bytes;
        r->off = r->off > front ? r->off - front : 0;
        end = end > front ? end - front : 0;
        if (r->off > n)
            r->off = n;
        if (end > n)
            end = n;
        r->bytes = end - r->off;
        r->off += n_lead;
    }
    return CAG_OK;
}

cag_status prompt_build(const struct prompt_parts *parts,
                        const struct prompt_source *src, int n,
                        const char *template_text, const cag_tokenizer *t,
                        int64_t now_s, struct prompt *out, cag_error *err)
{
    static const struct prompt_parts defaults = { 0 };
    struct prompt p = { .n_source = n };
    struct buf body = BUF_INIT;
    cag_status st = CAG_OK;
    bool used = false;

    memset(out, 0, sizeof *out);
    if (n < 1)
        return cag_fail(err, CAG_E_USAGE, NULL, -1, "no source");
    if (!parts)
        parts = &defaults;
    p.refusal = mem_strdup(parts->refusal ? parts->refusal : PROMPT_REFUSAL);
    p.label = mem_strdup(parts->label ? parts->label : PROMPT_LABEL);
    p.system = p.refusal ? fill(parts->system ? parts->system : default_system,
                                p.refusal, &used)
                         : NULL;
    p.source = mem_alloc_array((size_t)n, sizeof *p.source);
    if (!p.refusal || !p.label || !p.system || !p.source) {
        st = cag_fail_nomem(err, "prompt");
        goto out;
    }
    p.warn_no_refusal = !used && !strstr(p.system, p.refusal);
    st = check_text(p.system, strlen(p.system), "--system", err);
    if (!st)
        st = check_text(p.label, strlen(p.label), "--label", err);
    for (int i = 0; i < n && !st; i++)
        st = check_source(&src[i], err);
    if (!st && parts->ack)
        st = check_ack(parts->ack, t, err);
    if (!st)
        st = chat_cut_make(template_text, t, parts->ack, now_s, &p.cut, err);
    if (!st && p.cut.ack_turns) {
        p.ack = mem_strdup(parts->ack ? parts->ack : CHAT_ACK);
        st = p.ack ? CAG_OK : cag_fail_nomem(err, "prompt");
    }
    if (!st)
        st = make_body(&p, src, n, &body, err);
    if (!st)
        st = join(&p, &body, err);
out:
    buf_free(&body);
    if (!st)
        *out = p;
    else
        prompt_release(&p);
    return st;
}

cag_status prompt_check_size(const char *what, const cag_text *text, size_t n,
                             const cag_tokenizer *t, int64_t room,
                             cag_error *err)
{
    size_t bytes = 0, least;

    for (size_t i = 0; i < n; i++)
        bytes += text[i].size;
    if (bytes <= SIZE_COUNTED)
        return CAG_OK;
    least = tok_least_ids(t, text, n);
    return least <= (size_t)room
               ? CAG_OK
               : cag_fail(err, CAG_E_LIMIT, NULL, -1,
                          "%s does not fit: %zu bytes are at least %zu tokens, "
                          "there is room for %lld",
                          what, bytes, least, (long long)room);
}

cag_status prompt_encode(const struct prompt *p, const cag_tokenizer *t,
                         cag_ids *out, cag_error *err)
{
    return cag_encode(t, p->piece, 3, CAG_ENCODE_BOS | CAG_ENCODE_OFFSETS, out,
                      err);
}

void prompt_release(struct prompt *p)
{
    mem_free(p->text);
    mem_free(p->source);
    mem_free(p->system);
    mem_free(p->label);
    mem_free(p->refusal);
    mem_free(p->ack);
    chat_cut_release(&p->cut);
    memset(p, 0, sizeof *p);
}

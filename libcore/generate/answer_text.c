/*
 * answer_text.c - see answer_text.h.
 */
#include "generate/answer_text.h"

#include <string.h>

#include "util/error.h"
#include "util/text.h"

#define THINK_OPEN  "<think>"
#define THINK_CLOSE "</think>"

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

void answer_init(struct answer *a, const char *const *stop, int n_stop,
                 bool thinking, cag_text_fn fn, void *ctx)
{
    memset(a, 0, sizeof *a);
    a->state = thinking ? ANSWER_THINK : ANSWER_BEGIN;
    a->stop = stop;
    a->n_stop = n_stop;
    a->fn = fn;
    a->ctx = ctx;
}

bool answer_in_think(const struct answer *a)
{
    return a->state == ANSWER_THINK;
}

/* Bytes at the end of s that begin needle but do not complete it. */
static size_t partial(const char *s, size_t n, const char *needle)
{
    size_t len = strlen(needle), k = len - 1 < n ? len - 1 : n;

    for (; k > 0; k--)
        if (!memcmp(s + n - k, needle, k))
            return k;
    return 0;
}

static const char *find(const char *s, size_t n, const char *needle)
{
    return n ? memmem(s, n, needle, strlen(needle)) : NULL;
}

static void drop_front(struct buf *b, size_t n)
{
    memmove(b->data, b->data + n, b->size - n);
    buf_truncate(b, b->size - n);
}

static void add_trimmed(struct buf *out, const char *s, size_t n)
{
    while (n && is_space(*s))
        s++, n--;
    while (n && is_space(s[n - 1]))
        n--;
    utf8_sanitize(s, n, out);
}

/* Give fn what is final: everything but trailing space and the last `hold`
 * bytes of text. */
static void release_text(struct answer *a, size_t hold)
{
    size_t end = a->text.size - hold;

    while (end > a->emitted && is_space(a->text.data[end - 1]))
        end--;
    if (end <= a->emitted)
        return;
    if (a->fn && !a->cancelled &&
        !a->fn(a->ctx, a->withheld ? "" : a->text.data + a->emitted,
               a->withheld ? 0 : end - a->emitted))
        a->cancelled = true;
    a->emitted = end;
}

/* Move whole characters from raw to text, look for stop strings. */
static void take_text(struct answer *a, bool end)
{
    size_t n = end ? a->raw.size : utf8_complete(a->raw.data, a->raw.size);
    size_t hold = 0, before = a->text.size, first = a->text.size;
    const char *hit = NULL, *s = a->raw.data;

    if (n) {
        size_t skip = 0;

        while (a->text.size == 0 && skip < n && is_space(s[skip]))
            skip++;
        utf8_sanitize(s + skip, n - skip, &a->text);
        drop_front(&a->raw, n);
    }
    if (a->text.failed || !a->text.size)
        return;
    for (int i = 0; i < a->n_stop; i++) {
        size_t len = strlen(a->stop[i]), k;

        if (!len)
            continue;
        /* a stop string may have begun in text held back earlier */
        first = before > len ? before - len : 0;
        s = find(a->text.data + first, a->text.size - first, a->stop[i]);
        if (s && (!hit || s < hit))
            hit = s;
        k = partial(a->text.data, a->text.size, a->stop[i]);
        if (k > hold)
            hold = k;
    }
    if (hit) {
        a->stopped = true;
        buf_truncate(&a->text, (size_t)(hit - a->text.data));
        hold = 0;
    }
    release_text(a, end ? 0 : hold);
}

/* Does the answer begin with a think block?  Waits until that is certain. */
static void take_begin(struct answer *a, bool end)
{
    const char *s = a->raw.data;
    size_t n = a->raw.size, skip = 0, len = strlen(THINK_OPEN);

    while (skip < n && is_space(s[skip]))
        skip++;
    if (n - skip >= len && !memcmp(s + skip, THINK_OPEN, len)) {
        drop_front(&a->raw, skip + len);
        a->state = ANSWER_THINK;
    } else if (end || (n - skip >= len) ||
               memcmp(s + skip, THINK_OPEN, n - skip) != 0) {
        a->state = ANSWER_TEXT;
    }
}

static void take_think(struct answer *a, bool end)
{
    const char *hit = find(a->raw.data, a->raw.size, THINK_CLOSE);
    size_t n = hit ? (size_t)(hit - a->raw.data) : a->raw.size;

    if (!hit && !end)
        return;
    add_trimmed(&a->reasoning, a->raw.data, n);
    drop_front(&a->raw, hit ? n + strlen(THINK_CLOSE) : n);
    a->state = ANSWER_TEXT;
}

static void advance(struct answer *a, bool end)
{
    if (!a->raw.data)
        return;
    if (a->state == ANSWER_BEGIN)
        take_begin(a, end);
    if (a->state == ANSWER_THINK)
        take_think(a, end);
    if (a->state == ANSWER_TEXT)
        take_text(a, end);
}

static cag_status check(const struct answer *a, cag_error *err)
{
    return buf_failed(&a->raw) || buf_failed(&a->text) ||
                   buf_failed(&a->reasoning)
               ? cag_fail_nomem(err, "answer")
               : CAG_OK;
}

cag_status answer_add(struct answer *a, const char *bytes, size_t n,
                      cag_error *err)
{
    buf_add(&a->raw, bytes, n);
    if (!check(a, err))
        advance(a, false);
    return check(a, err);
}

cag_status answer_end(struct answer *a, cag_error *err)
{
    if (!a->stopped)
        advance(a, true);
    release_text(a, 0);
    if (a->text.data) {
        size_t n = a->text.size;

        while (n && is_space(a->text.data[n - 1]))
            n--;
        buf_truncate(&a->text, n);
    }
    return check(a, err);
}

void answer_release(struct answer *a)
{
    buf_free(&a->raw);
    buf_free(&a->text);
    buf_free(&a->reasoning);
}

/*
 * build_costly.c - where tokens go that say little to a model.
 *
 * Embedded images, encoded blobs, comments and lists of links fill a context
 * without anybody having meant to.  A line is judged by what most of it is;
 * adjacent lines of one kind are reported as one place.
 */
#include <stdlib.h>
#include <string.h>

#include "build/build_estimate.h"
#include "util/error.h"
#include "util/mem.h"

#define MIN_TOK     16 /* a place below this is not worth a look */
#define MAX_PLACE   10
#define ENCODED_RUN 60 /* letters and digits without a break */

enum kind { PLAIN, DATA_URI, ENCODED, COMMENT, LINKS };
static const char *const kinds[] = { NULL, "data: URI", "base64 or hex",
                                     "comment", "links" };

static bool is_encoded_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '+' || c == '/' || c == '=';
}

/* Bytes of unbroken runs that look like base64 or hexadecimal digits. */
static size_t encoded_bytes(const char *s, size_t n)
{
    size_t sum = 0, i = 0;

    while (i < n) {
        size_t from = i, digit = 0;

        for (; i < n && is_encoded_char(s[i]); i++)
            digit += s[i] >= '0' && s[i] <= '9';
        if (i - from >= ENCODED_RUN && digit >= 3)
            sum += i - from;
        i += i == from;
    }
    return sum;
}

/* Bytes of the words that begin like a web address. */
static size_t link_bytes(const char *s, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i + 8 < n; i++) {
        size_t from = i;

        if (memcmp(s + i, "http://", 7) && memcmp(s + i, "https://", 8))
            continue;
        while (i < n && (unsigned char)s[i] > ' ' && !strchr(")>]\"'", s[i]))
            i++;
        sum += i - from;
    }
    return sum;
}

static bool has_data_uri(const char *s, size_t n)
{
    const char *p = s, *end = s + n;

    while ((p = memmem(p, (size_t)(end - p), "data:", 5)) != NULL) {
        size_t left = (size_t)(end - p);

        if (memmem(p, left < 100 ? left : 100, ";base64,", 8) ||
            (left > 11 && !memcmp(p, "data:image/", 11)))
            return true;
        p += 5;
    }
    return false;
}

/* Comments of HTML and Markdown reach over lines: *open is kept. */
static size_t comment_bytes(const char *s, size_t n, bool *open)
{
    size_t sum = 0, i = 0;

    while (i < n) {
        const char *mark = *open ? "-->" : "<!--";
        const char *p = memmem(s + i, n - i, mark, strlen(mark));
        size_t to = p ? (size_t)(p - s) + (*open ? 3 : 0) : n;

        if (*open)
            sum += to - i;
        if (p)
            *open = !*open;
        i = to;
    }
    return sum;
}

static enum kind classify(const char *s, size_t n, bool *open)
{
    size_t comment = comment_bytes(s, n, open);

    if (has_data_uri(s, n))
        return DATA_URI;
    if (2 * comment > n)
        return COMMENT;
    if (2 * encoded_bytes(s, n) > n)
        return ENCODED;
    return n > 24 && 2 * link_bytes(s, n) > n ? LINKS : PLAIN;
}

/* Keep the MAX_PLACE costliest places, in no order yet. */
static cag_status keep(cag_build_report *r, const cag_build_line *place,
                       cag_error *err)
{
    cag_build_line *v = r->line;
    int least = 0;

    if (place->n_tok < MIN_TOK)
        return CAG_OK;
    if (!v) {
        v = mem_alloc_array(MAX_PLACE, sizeof *v);
        if (!v)
            return cag_fail_nomem(err, "report");
        r->line = v;
    }
    if (r->n_line < MAX_PLACE) {
        v[r->n_line++] = *place;
        return CAG_OK;
    }
    for (int i = 1; i < MAX_PLACE; i++)
        if (v[i].n_tok < v[least].n_tok)
            least = i;
    if (v[least].n_tok < place->n_tok)
        v[least] = *place;
    return CAG_OK;
}

/* The places of one source. */
static cag_status scan(const struct build_job *j, int source, cag_error *err)
{
    const struct prompt_range *range = &j->prompt.source[source];
    const char *s = j->prompt.text + range->off, *end = s + range->bytes;
    size_t id = (size_t)j->range[source].tok_begin;
    cag_build_line place = { .n_tok = 0 };
    int64_t number = j->src.v[source].first_line;
    enum kind last = PLAIN;
    bool open = false;
    cag_status st = CAG_OK;

    for (; s < end && !st; number++) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        const char *next = eol ? eol + 1 : end;
        enum kind kind = classify(s, (size_t)(next - s), &open);
        int64_t to = next - j->prompt.text, n_tok = 0;

        for (; id < j->ids.n && j->ids.off[id] < to; id++)
            n_tok++;
        if (kind != last) {
            if (last != PLAIN)
                st = keep(j->r, &place, err);
            place = (cag_build_line){ source, number + 1, 0, 0, kinds[kind] };
            last = kind;
        }
        place.n_line++;
        place.n_tok += n_tok;
        s = next;
    }
    return st || last == PLAIN ? st : keep(j->r, &place, err);
}

static int by_tokens(const void *a, const void *b)
{
    const cag_build_line *x = a, *y = b;

    if (x->n_tok != y->n_tok)
        return x->n_tok < y->n_tok ? 1 : -1;
    if (x->source != y->source)
        return x->source - y->source;
    return x->line < y->line ? -1 : x->line > y->line;
}

cag_status costly_lines(const struct build_job *j, cag_error *err)
{
    int n = j->range ? j->src.n : 0; /* else nothing was counted */
    cag_status st = CAG_OK;

    for (int i = 0; i < n && !st; i++)
        st = scan(j, i, err);
    if (j->r->n_line)
        qsort(j->r->line, (size_t)j->r->n_line, sizeof *j->r->line, by_tokens);
    return st;
}

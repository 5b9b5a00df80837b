/*
 * score.c - see score.h.
 */
#include "eval/score.h"

#include <string.h>

#include "util/buf.h"
#include "util/text.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A comma between digits, three of which follow. */
static bool is_thousands(const char *s, size_t n, size_t i)
{
    return s[i] == ',' && i && is_digit(s[i - 1]) && n - i > 3 &&
           is_digit(s[i + 1]) && is_digit(s[i + 2]) && is_digit(s[i + 3]) &&
           !(n - i > 4 && is_digit(s[i + 4]));
}

/* NFC, lower case, one blank for white space, no commas of thousands. */
static cag_status normalise(const char *s, size_t n, struct buf *out,
                            cag_error *err)
{
    struct buf nfc = BUF_INIT;
    cag_status st = text_nfc(s, n, &nfc, err);

    s = nfc.data;
    for (size_t i = 0; i < nfc.size && !st;) {
        char low[4];
        uint32_t cp;

        if (is_blank(s[i])) {
            if (out->size && out->data[out->size - 1] != ' ')
                buf_char(out, ' ');
            i++;
        } else if (is_thousands(s, nfc.size, i)) {
            i++;
        } else {
            i += (size_t)utf8_decode(s + i, nfc.size - i, &cp);
            cp = cp == 0x2019 ? '\'' : text_lower(cp);
            buf_add(out, low, (size_t)utf8_put(cp, low));
        }
    }
    while (out->size && out->data[out->size - 1] == ' ')
        buf_truncate(out, out->size - 1);
    buf_free(&nfc);
    return !st && buf_failed(out) ? cag_fail_nomem(err, "answer") : st;
}

/* Does the number at a cut go on beyond it? */
static bool splits_number(const char *s, size_t n, size_t at)
{
    if (!at || at >= n)
        return false;
    if (is_digit(s[at - 1]) && is_digit(s[at]))
        return true;
    if (s[at] == '.' && is_digit(s[at - 1]))
        return at + 1 < n && is_digit(s[at + 1]);
    return s[at - 1] == '.' && is_digit(s[at]) && at > 1 && is_digit(s[at - 2]);
}

static bool contains(const struct buf *text, const struct buf *want)
{
    size_t at = 0;

    while (want->size && text->size - at >= want->size) {
        const char *hit =
            memmem(text->data + at, text->size - at, want->data, want->size);

        if (!hit)
            break;
        at = (size_t)(hit - text->data);
        if (!splits_number(text->data, text->size, at) &&
            !splits_number(text->data, text->size, at + want->size))
            return true;
        at++;
    }
    return false;
}

cag_status score_is_right(const cag_gold *g, const char *text, size_t size,
                          bool *right, cag_error *err)
{
    struct buf norm = BUF_INIT, want = BUF_INIT;
    cag_status st = normalise(text, size, &norm, err);

    *right = false;
    for (int i = 0; i < g->n_answer && !st && !*right; i++) {
        buf_clear(&want);
        st = normalise(g->answer[i], strlen(g->answer[i]), &want, err);
        *right = !st && contains(&norm, &want);
    }
    buf_free(&norm);
    buf_free(&want);
    return st;
}

bool score_is_hit(const cag_gold *g, const cag_piece *p)
{
    return g->line_from && p->line_from <= g->line_to &&
           p->line_to >= g->line_from &&
           (!g->source || !strcmp(g->source, p->source));
}

double score_auroc(const double *v, const bool *good, int n)
{
    double won = 0, pairs = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (good[i] && !good[j]) {
                pairs++;
                won += v[i] > v[j] ? 1 : v[i] == v[j] ? 0.5 : 0;
            }
    return pairs > 0 ? won / pairs : -1;
}

/*
 * passage_tokens.c - see passage_tokens.h.
 */
#include "passage/passage_tokens.h"

#include <string.h>

struct tokens {
    const int64_t *off; /* [n] where they begin in the text */
    int32_t n;
    int64_t n_text;
    struct token_range *range;
    int n_range;
};

static int64_t end_of(const struct tokens *t, int32_t i)
{
    return i + 1 < t->n ? t->off[i + 1] : t->n_text;
}

/* The first token that ends after byte at. */
static int32_t token_at(const struct tokens *t, int64_t at)
{
    int32_t lo = 0, hi = t->n;

    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;

        if (end_of(t, mid) > at)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Show bytes [from, to); calls come in the order of the text. */
static void show(struct tokens *t, uint64_t from, uint64_t to)
{
    struct token_range *last = t->n_range ? &t->range[t->n_range - 1] : NULL;
    int32_t first = from ? token_at(t, (int64_t)from) : 0;
    int32_t end = first;

    if (last && first < last->to)
        first = last->to;
    while (end < t->n && t->off[end] < (int64_t)to)
        end++;
    if (end <= first)
        return;
    if (last && last->to == first)
        last->to = end;
    else
        t->range[t->n_range++] = (struct token_range){ first, end };
}

/* Where the heading of a source begins, blank line included; its text's
 * begin if it has none. */
static uint64_t heading(const char *text, const cag_kvc_source *s)
{
    size_t n = strlen(s->name), at = (size_t)s->text_off;

    if (at < n + 4 || text[at - 1] != '\n' ||
        memcmp(text + at - 1 - n, s->name, n) != 0 ||
        memcmp(text + at - 4 - n, "## ", 3) != 0)
        return at;
    at -= n + 4;
    return at >= 2 && text[at - 1] == '\n' && text[at - 2] == '\n' ? at - 2
                                                                   : at;
}

int passage_tokens(const cag_kvc *k, const struct passages *ps,
                   struct token_range range[PASSAGE_RANGES])
{
    struct tokens t = { .off = cag_kvc_id_offsets(k), .range = range };
    int n_source = cag_kvc_get_info(k)->n_source, source = -1;
    size_t n, n_text;
    const char *text = cag_kvc_text(k, &n_text);
    const cag_kvc_source *s;

    cag_kvc_ids(k, &n);
    if (!ps->n || !n)
        return 0;
    t.n = (int32_t)n;
    t.n_text = (int64_t)n_text;
    show(&t, 0, heading(text, cag_kvc_get_source(k, 0)));
    for (int i = 0; i < ps->n; i++) {
        s = cag_kvc_get_source(k, ps->at[i].source);
        if (ps->at[i].source != source)
            show(&t, heading(text, s), s->text_off);
        source = ps->at[i].source;
        show(&t, s->text_off + ps->at[i].from, s->text_off + ps->at[i].to);
    }
    s = cag_kvc_get_source(k, n_source - 1);
    show(&t, s->text_off + s->text_bytes, n_text);
    return t.n_range == 1 && range[0].to - range[0].from == t.n ? 0 : t.n_range;
}

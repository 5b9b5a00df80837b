/*
 * batch_raw.c - see batch_raw.h.
 *
 * The text is valid JSON, so strings and brackets are all there is to see.
 */
#include "batch/batch_raw.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* After the string that begins at s. */
static const char *skip_string(const char *s, const char *end)
{
    for (s++; s < end && *s != '"'; s++)
        s += *s == '\\';
    return s < end ? s + 1 : end;
}

static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && is_blank(*s))
        s++;
    return s;
}

/* The comma or bracket after the value that begins at s. */
static const char *skip_value(const char *s, const char *end)
{
    size_t depth = 0;

    while (s < end) {
        if (*s == '"') {
            s = skip_string(s, end);
            continue;
        }
        if (!depth && (*s == ',' || *s == '}' || *s == ']'))
            return s;
        depth += *s == '{' || *s == '[';
        depth -= *s == '}' || *s == ']';
        s++;
    }
    return end;
}

void raw_init(struct raw *r, const char *text, size_t size)
{
    memset(r, 0, sizeof *r);
    r->end = text + size;
    r->at = skip_blanks(text, r->end);
    if (r->at < r->end)
        r->at++; /* the brace */
}

bool raw_next(struct raw *r)
{
    const char *s = skip_blanks(r->at, r->end);

    if (s == r->end || *s != '"')
        return false;
    s = skip_blanks(skip_string(s, r->end), r->end);
    s = skip_blanks(s < r->end ? s + 1 : s, r->end); /* the colon */
    r->value = s;
    s = skip_value(s, r->end);
    r->at = s < r->end ? s + 1 : s;
    while (s > r->value && is_blank(s[-1]))
        s--;
    r->size = (size_t)(s - r->value);
    return true;
}

bool raw_changes(const char *value, size_t size)
{
    const char *s = value, *end = value + size;

    while (s < end) {
        const char *begin = s;

        if (*s == '"') {
            s = skip_string(s, end);
            continue;
        }
        s++;
        if (*begin != '-' && (*begin < '0' || *begin > '9'))
            continue;
        while (s < end && (strchr("+-.eE", *s) || (*s >= '0' && *s <= '9')))
            s++;
        /* 18 digits always fit 64 bits */
        if (s - begin > 18 || (*begin == '-' && begin[1] == '0'))
            return true;
        for (const char *p = begin; p < s; p++)
            if (*p == '.' || *p == 'e' || *p == 'E')
                return true;
    }
    return false;
}

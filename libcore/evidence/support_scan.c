/*
 * support_scan.c - see support_scan.h.
 */
#include "evidence/support_scan.h"

#include <stdio.h>
#include <string.h>

/* Digits of a number that are read; a longer run is several numbers. */
#define MAX_NUMBER 40

struct date {
    int year, month, day; /* 0: not given */
};

struct scan {
    const char *s;
    size_t n;
    bool all;
    support_fact_fn fn;
    void *ctx;
    cag_error *err;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (unsigned char)c >= 0x80;
}

static char at(const struct scan *c, size_t i)
{
    return i < c->n ? c->s[i] : 0;
}

static size_t skip_blanks(const struct scan *c, size_t i)
{
    while (at(c, i) == ' ' || at(c, i) == '\t' || at(c, i) == '\r' ||
           at(c, i) == '\n')
        i++;
    return i;
}

static cag_status give(const struct scan *c, size_t from, size_t to,
                       const char *key)
{
    struct support_fact f = { from, to, key };

    return c->fn(c->ctx, &f, c->err);
}

/* --------------------------------------------------------------- numbers */

/* min to max digits at *i, and no more; or -1. */
static int read_digits(const struct scan *c, size_t *i, int min, int max)
{
    int n = 0, v = 0;

    for (; n < max && is_digit(at(c, *i + (size_t)n)); n++)
        v = 10 * v + (at(c, *i + (size_t)n) - '0');
    if (n < min || is_digit(at(c, *i + (size_t)n)))
        return -1;
    *i += (size_t)n;
    return v;
}

static bool is_thousands(const struct scan *c, size_t i)
{
    return at(c, i) == ',' && is_digit(at(c, i + 1)) &&
           is_digit(at(c, i + 2)) && is_digit(at(c, i + 3)) &&
           !is_digit(at(c, i + 4));
}

/* The number at i without commas, to key; returns its end. */
static size_t read_number(const struct scan *c, size_t i, char key[MAX_NUMBER])
{
    size_t n = 0;

    for (; n + 1 < MAX_NUMBER; i++) {
        if (is_digit(at(c, i)) || (at(c, i) == '.' && is_digit(at(c, i + 1))))
            key[n++] = at(c, i);
        else if (!is_thousands(c, i))
            break;
    }
    key[n] = 0;
    return i;
}

/* "million" and the like after a number; returns its end, or i. */
static size_t read_scale(const struct scan *c, size_t i, const char **scale)
{
    static const char *const name[] = { "thousand", "million", "billion",
                                        "trillion", "percent" };
    size_t w = skip_blanks(c, i);

    *scale = NULL;
    if (at(c, w) == '%') {
        *scale = "%";
        return w + 1;
    }
    for (size_t k = 0; k < sizeof name / sizeof name[0]; k++) {
        size_t len = strlen(name[k]);

        if (c->n - w > len && !memcmp(c->s + w, name[k], len) &&
            is_letter(c->s[w + len]))
            continue;
        if (c->n - w >= len && !memcmp(c->s + w, name[k], len)) {
            *scale = k == 4 ? "%" : name[k];
            return w + len;
        }
    }
    return i;
}

/* The sign of a currency before i, if there is one: where it begins. */
static size_t before_currency(const struct scan *c, size_t i)
{
    static const char *const sign[] = { "$", "€", "£", "¥" };

    for (size_t k = 0; k < sizeof sign / sizeof sign[0]; k++) {
        size_t len = strlen(sign[k]);

        if (i >= len && !memcmp(c->s + i - len, sign[k], len))
            return i - len;
    }
    return i;
}

static cag_status take_number(const struct scan *c, size_t *i)
{
    char key[MAX_NUMBER], scaled[MAX_NUMBER + 16];
    size_t from = before_currency(c, *i), end = read_number(c, *i, key), after;
    const char *scale;
    cag_status st = CAG_OK;

    after = read_scale(c, end, &scale);
    *i = end;
    if (scale) {
        snprintf(scaled, sizeof scaled, "%s %s", key, scale);
        st = give(c, from, after, scaled);
    }
    if (!st && (!scale || c->all))
        st = give(c, from, end, key);
    return st;
}

/* ----------------------------------------------------------------- dates */

static const char *const months[] = { "January", "February", "March",
                                      "April",   "May",      "June",
                                      "July",    "August",   "September",
                                      "October", "November", "December" };

/* An English month at *i, whole or as its first three letters; or 0. */
static int read_month(const struct scan *c, size_t *i)
{
    for (int m = 0; m < 12; m++) {
        size_t len = strlen(months[m]), left = c->n - *i;

        if (left < len || memcmp(c->s + *i, months[m], len))
            len = 3;
        if (left < len || memcmp(c->s + *i, months[m], len))
            continue;
        if (m == 8 && at(c, *i + len) == 't') /* Sept */
            len++;
        if (is_letter(at(c, *i + len)))
            continue;
        len += at(c, *i + len) == '.';
        *i += len;
        return m + 1;
    }
    return 0;
}

static bool is_day(int v)
{
    return v >= 1 && v <= 31;
}

/* 2021-03-12, 12.03.2021 */
static bool read_numeric(const struct scan *c, size_t *i, struct date *d)
{
    size_t p = *i;
    int v = read_digits(c, &p, 4, 4);
    char sep = at(c, p);

    if (v >= 0 && (sep == '-' || sep == '/')) {
        d->year = v;
        p++;
        d->month = read_digits(c, &p, 1, 2);
        if (at(c, p++) != sep)
            return false;
        d->day = read_digits(c, &p, 1, 2);
    } else {
        p = *i;
        d->day = read_digits(c, &p, 1, 2);
        if (at(c, p++) != '.')
            return false;
        d->month = read_digits(c, &p, 1, 2);
        if (at(c, p++) != '.')
            return false;
        d->year = read_digits(c, &p, 4, 4);
    }
    if (!is_day(d->day) || d->month < 1 || d->month > 12 || d->year < 1)
        return false;
    *i = p;
    return true;
}

/* 12 March 2021, 12th of March */
static bool read_day_first(const struct scan *c, size_t *i, struct date *d)
{
    static const char *const nth[] = { "st", "nd", "rd", "th" };
    size_t p = *i, q;
    int year;

    d->day = read_digits(c, &p, 1, 2);
    if (!is_day(d->day))
        return false;
    for (int k = 0; k < 4; k++)
        if (c->n - p > 2 && !memcmp(c->s + p, nth[k], 2)) {
            p += 2;
            break;
        }
    q = skip_blanks(c, p);
    if (q == p)
        return false;
    if (c->n - q > 3 && !memcmp(c->s + q, "of ", 3))
        q = skip_blanks(c, q + 3);
    d->month = read_month(c, &q);
    if (!d->month)
        return false;
    *i = q;
    q = skip_blanks(c, q + (at(c, q) == ','));
    year = read_digits(c, &q, 4, 4);
    d->year = year > 0 ? year : 0;
    *i = year > 0 ? q : *i;
    return true;
}

/* March 12, 2021; March 12; March 2021 */
static bool read_month_first(const struct scan *c, size_t *i, struct date *d)
{
    size_t p = *i, q;
    int year;

    d->month = read_month(c, &p);
    if (!d->month)
        return false;
    p = skip_blanks(c, p);
    q = p;
    year = read_digits(c, &q, 4, 4);
    if (year > 0) {
        d->day = 0;
        d->year = year;
        *i = q;
        return true;
    }
    d->day = read_digits(c, &p, 1, 2);
    if (!is_day(d->day))
        return false;
    if (is_letter(at(c, p)) && is_letter(at(c, p + 1)))
        p += 2; /* 12th */
    *i = p;
    q = skip_blanks(c, p + (at(c, p) == ','));
    year = read_digits(c, &q, 4, 4);
    d->year = year > 0 ? year : 0;
    *i = year > 0 ? q : *i;
    return true;
}

static cag_status give_date(const struct scan *c, size_t from, size_t to,
                            struct date d)
{
    char key[64];
    cag_status st;

    snprintf(key, sizeof key, "=%d-%d-%d", d.year, d.month, d.day);
    st = give(c, from, to, key);
    if (c->all && !st && d.year && d.day) {
        snprintf(key, sizeof key, "=%d-%d-0", d.year, d.month);
        st = give(c, from, to, key);
        snprintf(key, sizeof key, "=0-%d-%d", d.month, d.day);
        if (!st)
            st = give(c, from, to, key);
    }
    return st;
}

/* ------------------------------------------------------------------ walk */

/* One to twelve. */
static cag_status take_word_number(const struct scan *c, size_t i, size_t end)
{
    static const char *const name[] = { "one",  "two", "three",  "four",
                                        "five", "six", "seven",  "eight",
                                        "nine", "ten", "eleven", "twelve" };
    char key[12];

    for (int k = 0; k < 12; k++)
        if (end - i == strlen(name[k]) && (c->s[i] | 32) == name[k][0] &&
            !memcmp(c->s + i + 1, name[k] + 1, end - i - 1)) {
            snprintf(key, sizeof key, "%d", k + 1);
            return give(c, i, end, key);
        }
    return CAG_OK;
}

/* Does the number at i only count the items of a list? */
static bool is_item(const struct scan *c, size_t i, size_t end)
{
    while (i && (c->s[i - 1] == ' ' || c->s[i - 1] == '\t'))
        i--;
    return (i == 0 || c->s[i - 1] == '\n') &&
           (at(c, end) == '.' || at(c, end) == ')') &&
           (at(c, end + 1) == ' ' || at(c, end + 1) == '\t');
}

static bool read_date(const struct scan *c, size_t *i, struct date *d)
{
    if (is_digit(c->s[*i]))
        return read_numeric(c, i, d) || read_day_first(c, i, d);
    return read_month_first(c, i, d);
}

/* The end of the word at i: letters, digits, and what joins them. */
static size_t word_end(const struct scan *c, size_t i)
{
    while (is_letter(at(c, i)) || is_digit(at(c, i)) || at(c, i) == '_' ||
           (at(c, i) && strchr(".-/'", at(c, i)) &&
            (is_letter(at(c, i + 1)) || is_digit(at(c, i + 1)))))
        i++;
    return i;
}

/* What begins at *i, where no word or number is under way. */
static cag_status take(const struct scan *c, size_t *i)
{
    size_t from = *i, end = from;
    struct date d = { 0, 0, 0 };
    char key[MAX_NUMBER];
    cag_status st = CAG_OK;

    if (read_date(c, &end, &d)) {
        st = give_date(c, from, end, d);
        if (!c->all) {
            *i = end;
            return st;
        }
    }
    if (st)
        return st;
    if (is_digit(c->s[from])) {
        end = read_number(c, from, key);
        if (!c->all && is_item(c, from, end))
            *i = end;
        else
            st = take_number(c, i);
        return st;
    }
    end = word_end(c, from);
    *i = end > from ? end : from + 1;
    if (!c->all)
        return CAG_OK;
    st = take_word_number(c, from, *i);
    for (size_t k = from; k < end && !st; k++)
        if (is_digit(c->s[k]) && !is_digit(c->s[k - 1]) &&
            !(c->s[k - 1] == '.' && k - from > 1 && is_digit(c->s[k - 2]))) {
            read_number(c, k, key);
            st = give(c, k, k + 1, key);
        }
    return st;
}

cag_status support_scan(const char *s, size_t n, bool all, support_fact_fn fn,
                        void *ctx, cag_error *err)
{
    struct scan c = { s, n, all, fn, ctx, err };
    cag_status st = CAG_OK;

    for (size_t i = 0; i < n && !st;) {
        if (is_digit(s[i]) || is_letter(s[i]))
            st = take(&c, &i);
        else
            i++;
    }
    return st;
}

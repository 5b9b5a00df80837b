/*
 * ui_text.c - text and numbers for people.
 *
 * Text from a file or a model may hold anything.  A terminal obeys C0 and C1
 * controls and DEL, so none of them reaches one: not as bytes, and not as the
 * UTF-8 of U+0080..U+009F.
 */
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

size_t ui_utf8_len(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80   ? 1
                 : s[0] < 0xC2 ? 0
                 : s[0] < 0xE0 ? 2
                 : s[0] < 0xF0 ? 3
                 : s[0] < 0xF5 ? 4
                               : 0;

    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

/* Length of the character at s if a terminal may see it: no control. */
static size_t printable(const unsigned char *s, size_t n)
{
    if (s[0] < 0x20 || s[0] == 0x7F)
        return 0;
    if (s[0] == 0xC2 && n > 1 && s[1] < 0xA0) /* C1 */
        return 0;
    return ui_utf8_len(s, n);
}

const char *ui_clean(const char *s)
{
    static char bufs[4][2048];
    static int turn;
    char *out = bufs[turn++ & 3], *p = out, *end = out + sizeof bufs[0] - 8;
    size_t n = strlen(s);

    while (n > 0 && p < end) {
        size_t len = printable((const unsigned char *)s, n);
        if (len > 0) {
            memcpy(p, s, len);
            p += len;
        } else {
            len = 1;
            if (*s == '\n')
                p += ui_format(p, 8, "\\n");
            else if (*s == '\t')
                p += ui_format(p, 8, "\\t");
            else
                p += ui_format(p, 8, "\\x%02x", (unsigned char)*s);
        }
        s += len;
        n -= len;
    }
    *p = 0;
    return out;
}

/* The character at s, len bytes long, as a terminal counts it.  Where the
 * locale knows no such character, it takes one column. */
static size_t columns_of(const char *s, size_t len)
{
    wchar_t c = (unsigned char)*s;
    int w;

    if (len > 1) {
        c &= 0x7F >> len;
        for (size_t i = 1; i < len; i++)
            c = c << 6 | (s[i] & 0x3F);
    }
    w = wcwidth(c);
    return w < 0 ? 1 : (size_t)w;
}

size_t ui_fitting(const char *text, size_t n, size_t columns)
{
    size_t at = 0, sum = 0;

    while (at < n) {
        size_t len = ui_utf8_len((const unsigned char *)text + at, n - at);

        len += !len;
        sum += columns_of(text + at, len);
        if (sum > columns)
            break;
        at += len;
    }
    return at;
}

size_t ui_width(const char *text, size_t n)
{
    size_t sum = 0;

    for (size_t at = 0, len; at < n; at += len) {
        len = ui_utf8_len((const unsigned char *)text + at, n - at);
        len += !len;
        sum += columns_of(text + at, len);
    }
    return sum;
}

void ui_put_text(FILE *to, const char *text, size_t n)
{
    if (!isatty(fileno(to))) {
        fwrite(text, 1, n, to);
        return;
    }
    while (n > 0) {
        size_t len = printable((const unsigned char *)text, n);
        if (len == 0 && (*text == '\n' || *text == '\t'))
            len = 1;
        if (len > 0)
            fwrite(text, 1, len, to);
        else
            fputs("\xEF\xBF\xBD", to);
        len += len == 0;
        text += len;
        n -= len;
    }
}

int ui_format(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(out, size, fmt, ap);
    va_end(ap);
    if (n < 0)
        return 0;
    return (size_t)n < size ? n : (int)size - 1;
}

const char *ui_size(char out[UI_TEXT], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB",
                                         "TiB", "PiB", "EiB" };
    double v = (double)bytes / 1024;
    int u = 0;

    if (bytes < 1024) {
        ui_format(out, UI_TEXT, "%d B", (int)bytes);
        return out;
    }
    /* 1023.96 would be printed as 1024.0 */
    for (; v >= 1023.95 && u < 5; u++)
        v /= 1024;
    ui_format(out, UI_TEXT, "%.1f %s", v, units[u]);
    return out;
}

const char *ui_duration(char out[UI_TEXT], double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9) {
        ui_format(out, UI_TEXT, "?");
        return out;
    }
    long s = (long)(seconds + 0.5);
    if (seconds < 0.9995)
        ui_format(out, UI_TEXT, "%.0f ms", seconds * 1000);
    else if (seconds < 59.95)
        ui_format(out, UI_TEXT, "%.1f s", seconds);
    else if (s < 3600)
        ui_format(out, UI_TEXT, "%ldm%02lds", s / 60, s % 60);
    else if (s < 86400)
        ui_format(out, UI_TEXT, "%ldh%02ldm", s / 3600, s % 3600 / 60);
    else
        ui_format(out, UI_TEXT, "%ldd%02ldh", s / 86400, s % 86400 / 3600);
    return out;
}

double ui_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *ui_s(int64_t n)
{
    return n == 1 ? "" : "s";
}

bool ui_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

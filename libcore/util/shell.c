/*
 * shell.c - see shell.h.
 */
#include "util/shell.h"

#include <string.h>

static const char plain[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "._/+,@%-";

bool shell_is_plain(const char *s)
{
    return *s && *s != '-' && !s[strspn(s, plain)];
}

void shell_word(struct buf *b, const char *s)
{
    if (*s && !s[strspn(s, plain)]) {
        buf_str(b, s);
        return;
    }
    buf_char(b, '\'');
    for (; *s; s++)
        if (*s == '\'')
            buf_str(b, "'\\''");
        else
            buf_char(b, *s);
    buf_char(b, '\'');
}

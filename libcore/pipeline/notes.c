/*
 * notes.c - see notes.h.
 */
#include "pipeline/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void note(const cag_hooks *h, cag_note kind, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    if (!h || !h->note)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    h->note(h->ctx, kind, line);
}

double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

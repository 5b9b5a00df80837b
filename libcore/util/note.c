/*
 * note.c - see note.h.
 */
#include "util/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

bool note_progress(const cag_hooks *h, const char *what, cag_unit unit,
                   uint64_t done, uint64_t total)
{
    cag_progress p = {
        .what = what, .unit = unit, .done = done, .total = total
    };

    return !h || !h->progress || h->progress(h->ctx, &p);
}

void note_hashing(void *hooks, const char *path, uint64_t size_bytes)
{
    note(hooks, CAG_NOTE_WAIT,
         "%s: reading %.1f GiB to make sure it is the "
         "same; this is remembered",
         path, (double)size_bytes / (1024.0 * 1024 * 1024));
}

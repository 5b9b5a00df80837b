/*
 * notes.c - see notes.h.
 */
#include "util/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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

void notes_device(const cag_hooks *h, const cag_engine *e, cag_precision asked)
{
    bool warn;
    const char *text = cag_engine_note(e, &warn);

    note(h, warn ? CAG_NOTE_WARN : CAG_NOTE_DETAIL, "%s", text);
    if (asked != CAG_PRECISION_FAST || strcmp(cag_engine_device(e), "cpu"))
        return;
    if (strcmp(cag_engine_products(e), "f32"))
        note(h, CAG_NOTE_INFO, "--precision fast: prompts by %s (%s)",
             cag_engine_products(e), cag_engine_numerics(e));
    else
        note(h, CAG_NOTE_WARN,
             "--precision fast: nothing is faster for this "
             "model on this CPU (kernels %s); computing as by default",
             cag_engine_kernels(e));
}

void notes_hashing(void *hooks, const char *path, uint64_t size_bytes)
{
    note(hooks, CAG_NOTE_WAIT,
         "%s: reading %.1f GiB to make sure it is the "
         "same; this is remembered",
         path, (double)size_bytes / (1024.0 * 1024 * 1024));
}

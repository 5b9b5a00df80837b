/*
 * note.h - remarks of a job, handed to the program through its hooks.
 */
#ifndef UTIL_NOTE_H
#define UTIL_NOTE_H

#include <cag/base.h>

void note(const cag_hooks *h, cag_note kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* How far a job is; false: stop (there is a hook, and it said so).  h may be
 * NULL. */
bool note_progress(const cag_hooks *h, const char *what, cag_unit unit,
                   uint64_t done, uint64_t total);

/* For fingerprint_memory.announce with ctx = the hooks (may be NULL). */
void note_hashing(void *hooks, const char *path, uint64_t size_bytes);

#endif

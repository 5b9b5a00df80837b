/*
 * notes.h - remarks of a job, handed to the program through its hooks.
 */
#ifndef PIPELINE_NOTES_H
#define PIPELINE_NOTES_H

#include <cag/pipeline.h>

void note(const cag_hooks *h, cag_note kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Which device and why: a warning when a GPU could not be used, or when the
 * CPU has no faster arithmetic although that was asked for. */
void notes_device(const cag_hooks *h, const cag_engine *e, cag_precision asked);
/* For fingerprint_memory.announce with ctx = the hooks (may be NULL). */
void notes_hashing(void *hooks, const char *path, uint64_t size_bytes);

/* Seconds on a monotonic clock, for the reports. */
double now_s(void);

#endif

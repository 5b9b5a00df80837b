/*
 * notes.h - remarks of a job, handed to the program through its hooks.
 */
#ifndef PIPELINE_NOTES_H
#define PIPELINE_NOTES_H

#include <cag/pipeline.h>

void note(const cag_hooks *h, cag_note kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Seconds on a monotonic clock, for the reports. */
double now_s(void);

#endif

/*
 * file_emergency.h - names that must be unlinked when a signal ends the
 * program: temporaries, and locks that protect nothing yet.
 */
#ifndef UTIL_FILE_EMERGENCY_H
#define UTIL_FILE_EMERGENCY_H

#include <stdbool.h>

/* False when the name is too long or no slot is free: it would stay. */
bool file_emergency_add(const char *path);
void file_emergency_drop(const char *path);
/* Unlink them all; async-signal-safe, for a signal handler in cmd/. */
void file_emergency_run(void);

#endif

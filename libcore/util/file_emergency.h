/*
 * file_emergency.h - names in directories that must be unlinked when a signal
 * ends the program: temporaries, and locks that protect nothing yet.
 */
#ifndef UTIL_FILE_EMERGENCY_H
#define UTIL_FILE_EMERGENCY_H

#include <stdbool.h>

/* dir is open until the name is dropped.  False when no slot is free: it would
 * stay. */
bool file_emergency_add(int dir, const char *name);
void file_emergency_drop(int dir, const char *name);
/* Unlink them all; async-signal-safe, for a signal handler in cmd/. */
void file_emergency_run(void);

#endif

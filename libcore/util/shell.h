/*
 * shell.h - names as a user can paste them into a command.
 */
#ifndef UTIL_SHELL_H
#define UTIL_SHELL_H

#include "util/buf.h"

/* Does a shell read s as one word that stands for itself, and no program as
 * an option? */
bool shell_is_plain(const char *s);
/* Append s as one word, in quotes where it needs them. */
void shell_word(struct buf *b, const char *s);

#endif

/*
 * sniff.h - what a foreign file is, by its first bytes.
 *
 * A reader that is handed another kind of file should say so by name: "a
 * Git-LFS pointer" sends a user to `git lfs pull`, "bad magic" sends nobody
 * anywhere.
 */
#ifndef UTIL_SNIFF_H
#define UTIL_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cag/kvc.h>

/* So many bytes of the head are enough for cag_file_kind (cag/kvc.h). */
#define SNIFF_BYTES 64
/* A Git-LFS pointer: the text file that stands in for one not yet fetched. */
bool sniff_is_lfs(const uint8_t *head, size_t n);

/* Nothing in it that a text does not hold; n > 0. */
bool sniff_is_text(const uint8_t *head, size_t n);

/* Copy at most cap - 1 bytes of a name from a file into dst, with anything
 * that is not printable ASCII shown as '?', for messages. */
void sniff_printable(char *dst, size_t cap, const char *s, size_t n);

#endif

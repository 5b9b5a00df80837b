/*
 * model_place.h - where files of models were when they were hashed.
 *
 * A cache knows its model by digest.  Beside the memory of digests
 * (fingerprint.h) stands a file of "digest path" lines, newest last, so that a
 * cache which was carried elsewhere finds a model that stayed.  A line is a
 * hint: whoever takes a path from here hashes what is there.
 */
#ifndef MODEL_MODEL_PLACE_H
#define MODEL_MODEL_PLACE_H

#include <stdint.h>

#include "util/hash.h"

/* In dir, the writable cache directory.  That it cannot be written is no
 * error: the hint is missing then. */
void model_place_note(const char *dir, const uint8_t digest[SHA256_SIZE],
                      const char *path);
/* The newest path noted for a digest (hex) at which a file is; heap, or NULL
 * if there is none. */
char *model_place_find(const char *dir, const char *digest);

#endif

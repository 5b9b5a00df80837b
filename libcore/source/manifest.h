/*
 * source/manifest.h - a manifest from memory, for tests and fuzzing.
 */
#ifndef SOURCE_MANIFEST_H
#define SOURCE_MANIFEST_H

#include <cag/manifest.h>

cag_status manifest_parse(const void *text, size_t size, const char *path,
                          cag_manifest **out, cag_error *err);

#endif

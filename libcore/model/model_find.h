/*
 * model_find.h - what the library looks up itself; see cag/model.h.
 */
#ifndef MODEL_MODEL_FIND_H
#define MODEL_MODEL_FIND_H

#include <cag/model.h>

/* A hub id that a file records: in the cache of the hub (may be NULL) and
 * nowhere else, since whoever is in the current directory has no say in what
 * was meant.  *path is heap.  CAG_E_MISSING: not there, or no hub id. */
cag_status model_find_hub(const char *id, const char *hub, char **path,
                          cag_error *err);
/* Is path called like one file of a GGUF in several, and no directory? */
bool model_is_part(const char *path);

#endif

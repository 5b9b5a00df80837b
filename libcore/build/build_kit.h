/*
 * build_kit.h - a model, its digests and an engine that go from one build to
 * the next.
 *
 * A build owns what it took from a kit until it gives it back, so that a kit
 * never holds what is in use, and one build that fails costs the next nothing.
 */
#ifndef BUILD_BUILD_KIT_H
#define BUILD_BUILD_KIT_H

#include <cag/build.h>

#include "binding/model_files.h"
#include "model/model.h"

struct kit_parts {
    char *path; /* of the model, as it was given */
    cag_model *model;
    struct model_files files;
    struct model_fingerprint print;
    cag_engine *engine;   /* of model, or NULL    */
    cag_engine_opts opts; /* that made it; strings are its own */
};

/* Take what the kit holds (k may be NULL) if it is the model at path, as it is
 * now; false, and *out is empty, if not. */
bool kit_take(cag_build_kit *k, const char *path, struct kit_parts *out);
/* Give parts to the kit, in place of what it holds; without one they are
 * released.  *p is empty afterwards. */
void kit_give(cag_build_kit *k, struct kit_parts *p);
void kit_release(struct kit_parts *p);
/*
 * p->model, open with these flags: the one that is there, or a new one, then
 * with its fingerprint, unless the weights are left out.  *made says which.
 */
cag_status kit_model(struct kit_parts *p, const char *path, unsigned flags,
                     const struct fingerprint_memory *mem, bool *made,
                     cag_error *err);
/* p->engine for these options: the one that is there, if it is the same, or a
 * new one.  *made says which. */
cag_status kit_engine(struct kit_parts *p, const cag_engine_opts *o, bool *made,
                      cag_error *err);
/* After an error nobody knows what state it is in. */
void kit_drop_engine(struct kit_parts *p);

#endif

/*
 * kb_shared.h - a model and an engine that several open caches run on.
 *
 * Both are counted; who holds one more reference shares it.  Not thread-safe:
 * caches that share are one thread's (ask.h).
 */
#ifndef ASK_KB_SHARED_H
#define ASK_KB_SHARED_H

#include <cag/session.h>

#include "util/file.h"

struct kb_model {
    cag_model *model;
    struct file_id *id; /* of its files, as they were when it was opened */
    int n_ref;
};

struct kb_engine {
    struct kb_model *model;
    cag_engine *engine;
    cag_engine_opts opts; /* as they were asked for; its strings are own */
    int n_ref;
};

/* The model at path: shared if that of `with' (or NULL) is the same, and its
 * files are what they were; else opened. */
cag_status kb_model_get(const char *path, struct kb_model *with,
                        struct kb_model **out, cag_error *err);
/* An engine of m: shared if that of `with' (or NULL) is of m and these options
 * come to the same.  *made: it is a new one. */
cag_status kb_engine_get(struct kb_model *m, const cag_engine_opts *o,
                         struct kb_engine *with, struct kb_engine **out,
                         bool *made, cag_error *err);
/* NULL is allowed. */
void kb_model_release(struct kb_model *m);
void kb_engine_release(struct kb_engine *e);

#endif

/*
 * engine.h - what engine.c and session.c share.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backend.h"
#include "engine/session.h"
#include "model/model.h"

struct cag_engine {
    const cag_model *model;
    struct pool *pool;
    struct backend *backend;
    int chunk;
    struct forward_row *row; /* [backend->max_row] of the next pass */
    uint64_t stamp;          /* of the last step, see session.c */
    cag_progress_fn progress;
    void *progress_ctx;
};

struct cag_prefix {
    cag_engine *engine;
    struct backend_prefix *impl;
    int n_tok;
};

/* Before the first pass: remember when its parts end on the device. */
void engine_trace(cag_engine *e);
/* What was remembered, if anything; see backend.h. */
void engine_timeline(cag_engine *e, backend_moment_fn *fn, void *ctx);

#endif

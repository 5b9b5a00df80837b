/*
 * engine.h - what engine.c and session.c share.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backend.h"
#include "engine/session.h"
#include "model/model.h"

struct cag_engine {
    const cag_model    *model;
    struct pool        *pool;
    struct backend     *backend;
    int                 chunk;
    struct forward_row *row;       /* [backend->max_row] of the next pass */
    uint64_t            stamp;     /* of the last step, see session.c */
    cag_progress_fn     progress;
    void               *progress_ctx;
};

struct cag_prefix {
    cag_engine            *engine;
    struct backend_prefix *impl;
    int                    n_tok;
};

#endif

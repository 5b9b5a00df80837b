/*
 * copy_heads.h - find the heads that look where the text says what comes next.
 *
 * A part of the cache is read, then the model is asked for lines of it, and
 * the lines themselves are given as the answer: a head that copies looks, at
 * each token, at the very token that comes next.  Heads are ranked by the share
 * of their attention that goes there.  No label and no second model is needed,
 * and each text finds nearly the same heads: they belong to the model.
 *
 * What is found follows from the tokens, K and V of the first COPY_HEADS_TOK
 * tokens and the model alone, on any number of threads.  It is no part of a
 * cache's identity.
 */
#ifndef BUILD_COPY_HEADS_H
#define BUILD_COPY_HEADS_H

#include <cag/session.h>

#include "build/build_job.h"

#define COPY_HEADS     8   /* are kept                               */
#define COPY_HEADS_TOK 512 /* of the cache are read                  */
/* A text from this size on has them without being asked to: for smaller ones
 * they take over 5 % of the build (115 tokens, each as dear as two). */
#define COPY_HEADS_MIN 2560

struct copy_heads {
    struct build_job *j;
    cag_engine *engine;
    cag_kvc_head head[COPY_HEADS];
};

/* Will they be looked for? */
bool copy_heads_wanted(const struct build_job *j);
/* Memory the search takes at most. */
uint64_t copy_heads_bytes(const struct build_job *j);
/*
 * A kvc_desc.attention; ctx is the struct copy_heads.  A device that measures
 * no attention finds none, unless the caller insists (CAG_E_UNSUPPORTED).
 * CAG_E_CANCELLED, CAG_E_NOMEM.
 */
cag_status copy_heads_find(void *ctx, const cag_kvc *draft,
                           cag_kvc_attention *out, cag_error *err);

#endif

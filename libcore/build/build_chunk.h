/*
 * build_chunk.h - a session's rows as the chunks of a file.
 */
#ifndef BUILD_BUILD_CHUNK_H
#define BUILD_BUILD_CHUNK_H

#include <cag/session.h>

#include "kvc/kvc_layout.h"

/* What kvc_desc.chunk takes its bytes from: a session's rows, in the form of a
 * file of this shape.  Both are borrowed. */
struct build_chunks {
    const cag_session *session;
    const struct kvc_shape *shape;
};

/* kvc_desc.chunk; ctx is a struct build_chunks. */
cag_status build_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                       cag_error *err);

#endif

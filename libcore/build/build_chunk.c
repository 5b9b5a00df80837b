/*
 * build_chunk.c - see build_chunk.h.
 */
#include "build/build_chunk.h"

#include "engine/session.h"

cag_status build_chunk(void *ctx, int layer, int chunk, uint8_t *dst,
                       cag_error *err)
{
    const struct build_chunks *c = ctx;

    return session_export_chunk(c->session, c->shape, layer, chunk, dst, err);
}

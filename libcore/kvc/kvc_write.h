/*
 * kvc_write.h - stream a .kvc to disk: sections, then KV chunks, hashed on
 * the way, header last; aside and renamed (util/file.h).
 *
 * The same inputs give the same bytes on any number of threads.
 */
#ifndef KVC_WRITE_H
#define KVC_WRITE_H

#include <cag/kvc.h>

#include "kvc/kvc_layout.h"
#include "util/json.h"
#include "util/pool.h"

struct kvc_desc {
    struct kvc_shape shape;       /* chunk_tok filled by kvc_chunk_tok      */
    const char    *codec;         /* "f16z", "f16", "f32"                   */
    /*
     * META without what the writer adds itself (shape, codec, binding and
     * content id).  The writer computes
     *   binding    = SHA-256 of canonical JSON of meta's "binding" object
     *                plus {"kv_class": "f16"|"f32", "sources": [...]} (text digests)
     *   content id = SHA-256(binding || ids as LE u32 || raw chunk digests)
     */
    const jv      *meta;
    const jv      *sources;       /* SRCS: array of objects, kvc(5)         */
    const jv      *prompt;        /* PRMT                                   */
    const char    *text; size_t text_size;
    const int32_t *ids; const int64_t *id_off; size_t n_ids;
    const void    *tokenizer; size_t tokenizer_size;     /* TKNZ blob       */
    /* Fill dst with raw chunk (layer, chunk); may be called from several
     * threads for different chunks. */
    cag_status (*chunk)(void *ctx, int layer, int chunk, uint8_t *dst,
                        cag_error *err);
    void          *ctx;
    cag_progress_fn progress; void *progress_ctx;   /* may be NULL */
};

/* mode -1: the existing file's, else 0600 & ~umask. */
cag_status kvc_write(const char *path, const struct kvc_desc *d, int mode,
                     struct pool *pool, cag_error *err);
/* Upper bound of the file's size, for a free-space check before a prefill. */
uint64_t   kvc_size_bound(const struct kvc_desc *d);

#endif

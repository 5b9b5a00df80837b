/*
 * export.h - a cache's keys and values for other programs.
 */
#ifndef CAG_TOOL_EXPORT_H
#define CAG_TOOL_EXPORT_H

#include <cag/kvc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Write keys and values as a safetensors file: for each layer i the tensors
 * layer.i.k and layer.i.v [1, n_kv_head, n_tok, d_head], as a DynamicCache of
 * transformers holds them (keys after rotation, channels in half-split order).
 * Classes f16 and f32 are written as they are, q8h is decoded to f32.  Token
 * ids and digests are in the metadata, as strings.
 *
 *   mode      of the file, as in a build; -1: like an existing one, else 0600
 *   progress  may be NULL; it returns false to cancel
 *
 * path appears when it is complete.  It is not followed where it is a link,
 * and replaced only if it is such a file itself.
 *
 * Errors: CAG_E_CREATE, CAG_E_CORRUPT (a chunk), CAG_E_UNSUPPORTED (an
 * unfinished build; a value that is not finite), CAG_E_CANCELLED, CAG_E_IO,
 * CAG_E_NOMEM.
 */
cag_status cag_kvc_export(const cag_kvc *k, const char *path, int mode,
                          cag_progress_fn progress, void *ctx, cag_error *err);

#ifdef __cplusplus
}
#endif
#endif

/*
 * finite.h - NaN and infinity are errors that name their place; never a
 * token.
 *
 * Keys and values are looked at where a backend stores them.  What does not
 * pass through them any more, the end of the last layer, the last norm and
 * the output matrix, shows in the logits, so a backend looks at all logits
 * that it hands out and the build asks for those of its last token.
 */
#ifndef ENGINE_FINITE_H
#define ENGINE_FINITE_H

#include "engine/backend.h"
#include "model/config.h"

bool finite_all(const float *x, size_t n);
/* CAG_E_UNSUPPORTED for logits after the token at pos; x [d_model] is its
 * residual stream after the last layer, NULL if that is not known. */
cag_status finite_fail(const struct model_config *c, int pos, const float *x,
                       cag_error *err);
/*
 * After a pass that failed with CAG_E_UNSUPPORTED: are keys or values of the
 * cache the cause?  Then *err is rewritten, CAG_E_CORRUPT with the cache's
 * path and the layer, and that is returned; else st, and *err stays.
 * Reads all chunks.
 */
cag_status finite_blame(const cag_kvc *k, cag_status st, cag_error *err);

#endif

/*
 * engine/session.h - what the pipelines need of a session beyond the public
 * header: its K and V in the layout of a cache file.
 */
#ifndef ENGINE_SESSION_H
#define ENGINE_SESSION_H

#include <cag/session.h>

#include "engine/copy_head.h"
#include "kvc/kvc_layout.h"
#include "util/pool.h"

/* Copy raw chunk (layer, chunk) of the timeline's first shape->n_tok tokens
 * into dst (kvc_chunk_bytes), unused positions zero.  Thread-safe while the
 * session does not change. */
cag_status session_export_chunk(const cag_session *s,
                                const struct kvc_shape *shape, int layer,
                                int chunk, uint8_t *dst, cag_error *err);
/* Append n_tok tokens whose K and V come from chunks of an old cache (same
 * shape, positions 0..n_tok-1) instead of being computed; the session must
 * be empty and have no prefix.  For partial rebuilds. */
cag_status session_import(cag_session *s, const cag_kvc *k, int n_tok,
                          cag_error *err);
/*
 * For a build with codec q8h, which balances keys against queries: gather the
 * queries from position `from` on, before the first of them is computed; with
 * n_tok tokens there, make the factors, after which session_export_chunk
 * takes shapes of class q8h (from a session of f16, without a prefix).
 * CAG_E_UNSUPPORTED on a device that cannot.
 */
#define SESSION_PROBE 256 /* queries of the last tokens are gathered */
cag_status session_gather(cag_session *s, int from, cag_error *err);
cag_status session_balance(cag_session *s, cag_error *err);
/*
 * cag_session_prefill that gives the logits after every token, not only the
 * last: logits [n_ids, n_vocab], the caller's.  Row i is bit for bit what a
 * prefill of i + 1 ids gives.
 */
cag_status session_prefill_rows(cag_session *s, const int32_t *ids, int n_ids,
                                float *logits, cag_error *err);
/*
 * cag_prefix_new of a cache's first n_tok tokens (1 .. its number), as if it
 * held no more: what a session of it computes is what one of a shorter cache
 * of the same chunks would.
 */
cag_status prefix_new_part(cag_engine *e, const cag_kvc *k, int n_tok,
                           cag_prefix **out, cag_error *err);
/*
 * What the rows appended from now on see of the session's prefix: the tokens
 * of n ranges, ascending and apart, in [0, tokens of the prefix).  What comes
 * after the prefix is always seen; positions and K and V of the prefix stay
 * what they are.  n = 0 with range not NULL: nothing of it; range NULL: all
 * again, which is how a session begins.  A view of all tokens gives the bits of
 * no view, and what is hidden is not read: the cost is that of what is seen.
 * Rows of equal views share their walks, in one session or in many.
 * CAG_E_USAGE (no prefix, a range), CAG_E_UNSUPPORTED (the device cannot),
 * CAG_E_NOMEM; the session is then as it was.
 */
struct token_range {
    int32_t from, to; /* [from, to) */
};
cag_status session_set_view(cag_session *s, const struct token_range *range,
                            int n, cag_error *err);
bool engine_has_views(const cag_engine *e);
/*
 * The heads whose attention is measured, ascending by layer, then head; n 0:
 * none.  Before sessions ask for it.  CAG_E_USAGE (order, range),
 * CAG_E_UNSUPPORTED (the device cannot), CAG_E_NOMEM.
 */
cag_status engine_set_heads(cag_engine *e, const struct copy_head *head, int n,
                            cag_error *err);
/* Are they these? */
bool engine_has_heads(const cag_engine *e, const struct copy_head *head, int n);
/*
 * From now on each row appended to s adds to sum, for each of the engine's
 * heads, the share of its attention that each token of the prefix gets:
 *
 *   sum  [n_head, tokens of the prefix]; the caller's, zeroed by the caller,
 *        complete when this is called again.  NULL: no more.
 *
 * Rows are added in double, in the order of their positions: the bits depend
 * on nothing but the tokens and the session's view, whose hidden tokens get 0.
 * A draft that is taken back (truncate) right after its step was never added.
 * After a pass that failed, sum is unspecified.  CAG_E_USAGE (no prefix, no
 * heads), CAG_E_NOMEM; the session is then as it was.
 */
cag_status session_set_mass(cag_session *s, double *sum, cag_error *err);
/*
 * The same for each row of a prompt apart: row i of each prefill from now on
 * adds to sum + i * n_head * tokens of the prefix.  For prompts alone, of at
 * most as many tokens as sum has rows.
 */
cag_status session_set_mass_rows(cag_session *s, double *sum, cag_error *err);
int session_max_tok(const cag_session *s);
struct pool *engine_pool(cag_engine *e);
/* Host memory that an engine's passes take with these options, beside weights,
 * caches and sessions; m may be open without its weights.  CAG_E_UNSUPPORTED:
 * no set of kernels. */
cag_status engine_scratch_bytes(const cag_model *m, const cag_engine_opts *o,
                                uint64_t *bytes, cag_error *err);

#endif

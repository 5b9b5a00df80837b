/*
 * measure_loss.h - measure what a lossy codec lost, while the cache is written.
 *
 * The prefill keeps the logits after each of the last tokens.  When the file
 * is there but for its receipt, these tokens are read once more, as a
 * question would be, over the stored keys and values of all tokens before
 * them; the two runs are compared (loss_stats.h), and so are the values
 * themselves, layer by layer.  The file is refused above the limit.
 *
 * The logits of the exact pass are held until then, n * n_vocab floats (50 MB
 * for the demo model); those of the second pass come a block of rows at a
 * time.  To make the exact ones a second time instead would double the cost.
 */
#ifndef BUILD_MEASURE_LOSS_H
#define BUILD_MEASURE_LOSS_H

#include <cag/session.h>

#include "build/build_job.h"

/* Tokens that are compared, of a prefix of n_tok: 256, at most half of it. */
int measure_loss_n(int n_tok);
/* Memory the measurement needs. */
uint64_t measure_loss_bytes(const struct build_job *j);

struct receipt {
    struct build_job *j;
    cag_engine *engine;
    const cag_session *exact;
    int n;              /* tokens that are compared */
    float *logits;      /* [n, n_vocab] of the exact pass */
    cag_kvc_loss *loss; /* [n_layer][2] */
};

/*
 * Before the prefill.  CAG_E_UNSUPPORTED for a prefix of one token, which
 * leaves nothing to measure.  Release it also after a failure.
 */
cag_status measure_loss_init(struct receipt *r, struct build_job *j,
                             cag_engine *e, const cag_session *exact,
                             cag_error *err);
void measure_loss_release(struct receipt *r);

/*
 * A kvc_desc.receipt; ctx is the struct receipt.  CAG_E_LOSS when the mean is
 * above the job's max_loss, CAG_E_UNSUPPORTED when a logit or a stored value
 * is not finite, CAG_E_CANCELLED.  Fills the report's receipt as far as it
 * got.
 */
cag_status measure_loss(void *ctx, const cag_kvc *draft, cag_kvc_receipt *out,
                        cag_error *err);

#endif

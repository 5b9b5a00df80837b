/*
 * finite.c - see finite.h.
 */
#include "engine/finite.h"

#include "kvc/kvc_read.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/rd.h"

#include <stdio.h>
#include <string.h>

/* All ones in the exponent: NaN or infinity. */
#define F32_EXP 0x7f800000u
#define F16_EXP 0x7c00

bool finite_all(const float *x, size_t n)
{
    uint32_t bad = 0, u;

    for (size_t i = 0; i < n; i++) {
        memcpy(&u, &x[i], sizeof u);
        bad |= (u & F32_EXP) == F32_EXP;
    }
    return !bad;
}

cag_status finite_fail(const struct model_config *c, int pos, const float *x,
                       cag_error *err)
{
    char where[64];

    if (x && finite_all(x, (size_t)c->d_model))
        snprintf(where, sizeof where, "the last norm or the output matrix");
    else if (x)
        snprintf(where, sizeof where, "layer %d", c->n_layer - 1);
    else
        snprintf(where, sizeof where,
                 "layer %d, the last norm or the output matrix",
                 c->n_layer - 1);
    return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1,
                    "token %d: logits are infinite or not numbers; they "
                    "became so in %s",
                    pos, where);
}

/* -------------------------------------------------------------- the cache */

static bool chunk_finite(const struct kvc_shape *s, const uint8_t *raw,
                         size_t n)
{
    size_t i;

    if (s->kv_class == KVC_CLASS_F16) {
        for (i = 0; i < n; i += 2)
            if ((rd_le16(raw + i) & F16_EXP) == F16_EXP)
                return false;
    } else if (s->kv_class == KVC_CLASS_F32) {
        for (i = 0; i < n; i += 4)
            if ((rd_le32(raw + i) & F32_EXP) == F32_EXP)
                return false;
    }
    return true; /* scales of q8h are checked when a chunk is loaded */
}

cag_status finite_blame(const cag_kvc *k, cag_status st, cag_error *err)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    uint8_t *buf = NULL;

    if (st != CAG_E_UNSUPPORTED)
        return st;
    buf = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
    for (int l = 0; buf && l < s->n_layer; l++)
        for (int c = 0; c < kvc_n_chunk(s); c++) {
            const uint8_t *raw;
            cag_status bad = kvc_chunk_load(k, l, c, buf, &raw, err);

            if (!bad && !chunk_finite(s, raw, kvc_chunk_bytes(s, c)))
                bad =
                    cag_fail(err, CAG_E_CORRUPT, cag_kvc_get_info(k)->path, -1,
                             "layer %d, tokens %d..%d: a stored key or value "
                             "is infinite or not a number; build the cache "
                             "again with cag-build -B",
                             l, c * s->chunk_tok,
                             (c + 1) * s->chunk_tok < s->n_tok
                                 ? (c + 1) * s->chunk_tok - 1
                                 : s->n_tok - 1);
            if (bad) {
                mem_free(buf);
                return bad;
            }
        }
    mem_free(buf);
    return st;
}

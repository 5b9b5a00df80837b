/*
 * q8h_decode.c - see q8h_decode.h; the arithmetic is q8h_decode of kernels.h.
 */
#include "engine/q8h_decode.h"

#include <string.h>

#include "engine/kv_tile.h"
#include "util/error.h"
#include "util/rd.h"

void q8h_factors(const struct q8h_chunk *from, int kv_head, float *out)
{
    const uint8_t *p =
        from->raw + kvc_factor_off(from->shape, from->chunk, kv_head);

    for (int i = 0; i < from->shape->d_head; i++) {
        uint32_t u = rd_le32(p + 4 * i);

        memcpy(out + i, &u, sizeof u);
    }
}

/* Row t of a K or V tile (f: the factors of K, NULL for V). */
static void decode_row(const struct kernels *k, const struct q8h_chunk *from,
                       int kv_head, int tile, int t, const float *f, float *row)
{
    const struct kvc_shape *s = from->shape;
    bool is_v = !f;
    const uint8_t *codes =
        from->raw + kvc_tile_off(s, from->chunk, is_v, kv_head, tile);
    const uint8_t *scales =
        from->raw + kvc_scale_off(s, from->chunk, is_v, kv_head, tile);
    int8_t code[Q8H_D_MAX];

    for (int c = 0; c < s->d_head; c++)
        code[c] = (int8_t)codes[kv_tile_at(is_v, s->d_head, t, c)];
    k->q8h_decode(row, code, rd_le16(scales + 2 * t), f, s->d_head);
}

/* No build writes a value that large, but a file can say it. */
static cag_status too_large(const struct q8h_chunk *from, int kv_type,
                            cag_error *err)
{
    return cag_fail(err, CAG_E_UNSUPPORTED, from->path, -1,
                    kv_type == KV_F16
                        ? "layer %d: a decoded key or value does not fit f16"
                        : "layer %d: a stored value is not finite",
                    from->layer);
}

cag_status q8h_tile(const struct q8h_chunk *from, int kv_head,
                    int tile_in_chunk, int n_key, const struct kv_pair *to,
                    cag_error *err)
{
    const char *why = NULL;
    const struct kernels *k = kernels_get(&why);
    float factor[Q8H_D_MAX], row[2][Q8H_D_MAX];
    int d = from->shape->d_head;

    if (!k)
        return cag_fail(err, CAG_E_UNSUPPORTED, NULL, -1, "%s", why);
    if (d > Q8H_D_MAX)
        return cag_fail(err, CAG_E_UNSUPPORTED, from->path, -1,
                        "head size %d, codec q8h takes at most %d", d,
                        Q8H_D_MAX);
    q8h_factors(from, kv_head, factor);
    for (int t = 0; t < n_key; t++) {
        decode_row(k, from, kv_head, tile_in_chunk, t, factor, row[0]);
        decode_row(k, from, kv_head, tile_in_chunk, t, NULL, row[1]);
        if (!k->kv_store(to->kv_type, to->k, to->v, t, row[0], row[1], d))
            return too_large(from, to->kv_type, err);
    }
    return CAG_OK;
}

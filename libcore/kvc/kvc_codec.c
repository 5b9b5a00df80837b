/*
 * kvc_codec.c - byte planes and independent zstd frames; the only file with
 * zstd.h.  Format: kvc_codec.h, kvc(5).
 *
 * f16 values of one layer have exponents that hold about 2.5 of 8 bits and
 * mantissas that are noise.  So the high bytes compress, the low bytes are
 * nearly always stored as they are and are read where they are mapped: a
 * chunk costs one entropy decode of half its bytes and one interleave,
 * bound by zstd (Huffman) and then by memory.
 *
 * Deterministic: fixed parameters, no dictionary, no threads inside zstd.
 *
 * Tried: bit planes, deltas along tokens, levels 3-19: worse or much slower
 * for under 2 %.
 */
#include "kvc/kvc_codec.h"

#include <cag/kvc.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "util/mem.h"
#include "util/rd.h"

#define N_PLANE    4
#define HEAD       (4 * N_PLANE)
#define LEVEL      1
#define TEXT_LEVEL 3

struct kvc_coder {
    ZSTD_CCtx *cctx;
    ZSTD_DCtx *dctx;
    uint8_t *plane; /* two planes */
    size_t cap;     /* bytes of one plane */
};

typedef cag_status encode_fn(struct kvc_coder *c, const uint8_t *raw,
                             size_t n_raw, uint8_t *dst, size_t *n_dst,
                             cag_error *err);
typedef cag_status decode_fn(struct kvc_coder *c, const uint8_t *src,
                             size_t n_src, uint8_t *dst, size_t n_raw,
                             cag_error *err);
static encode_fn encode_f16z;
static decode_fn decode_f16z;

/*
 * All that is known of a codec.  exact is the codec that holds what its values
 * were made from: itself, where nothing is lost.  One without encode and
 * decode stores raw chunks, which are read where they are mapped.
 */
static const struct {
    const char *name;
    enum kvc_class kv_class;
    enum kvc_codec exact;
    float max_loss; /* default limit: mean KL in nats */
    size_t head;    /* bytes that a stored chunk may have more than raw */
    encode_fn *encode;
    decode_fn *decode;
} codecs[KVC_N_CODEC] = {
    [KVC_F16Z] = { "f16z", KVC_CLASS_F16, KVC_F16Z, 0, HEAD, encode_f16z,
                   decode_f16z },
    [KVC_F16] = { "f16", KVC_CLASS_F16, KVC_F16, 0, 0, NULL, NULL },
    [KVC_Q8H] = { "q8h", KVC_CLASS_Q8H, KVC_F16, 3e-4f, 0, NULL, NULL },
    [KVC_F32] = { "f32", KVC_CLASS_F32, KVC_F32, 0, 0, NULL, NULL },
};

const char *kvc_codec_name(enum kvc_codec c)
{
    return codecs[c].name;
}

const char *cag_kvc_codec_name(int i)
{
    return i >= 0 && i < KVC_N_CODEC ? codecs[i].name : NULL;
}

bool cag_kvc_codec_lossy(const char *name)
{
    int c = kvc_codec_find(name);

    return c >= 0 && kvc_codec_lossy((enum kvc_codec)c);
}

bool cag_kvc_codec_recodes(const char *to)
{
    int c = kvc_codec_find(to);

    for (int i = 0; c >= 0 && i < KVC_N_CODEC; i++)
        if (kvc_codec_recodes((enum kvc_codec)i, (enum kvc_codec)c))
            return true;
    return false;
}

enum kvc_class kvc_codec_class(enum kvc_codec c)
{
    return codecs[c].kv_class;
}

enum kvc_codec kvc_codec_exact(enum kvc_codec c)
{
    return codecs[c].exact;
}

bool kvc_codec_lossy(enum kvc_codec c)
{
    return codecs[c].exact != c;
}

float kvc_codec_max_loss(enum kvc_codec c)
{
    return codecs[c].max_loss;
}

bool kvc_codec_in_place(enum kvc_codec c)
{
    return !codecs[c].decode;
}

bool kvc_codec_recodes(enum kvc_codec from, enum kvc_codec to)
{
    return from != to && codecs[from].kv_class == codecs[to].kv_class &&
           !kvc_codec_lossy(from) && !kvc_codec_lossy(to);
}

const char *kvc_codec_list(char *buf, size_t size, const char *word)
{
    size_t n = 0;

    for (int i = 0; i < KVC_N_CODEC && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s%s%s",
                              !i                     ? ""
                              : i == KVC_N_CODEC - 1 ? " "
                                                     : ", ",
                              i == KVC_N_CODEC - 1 ? word : "",
                              i == KVC_N_CODEC - 1 ? " " : "", codecs[i].name);
    return buf;
}

int kvc_codec_find(const char *name)
{
    for (int i = 0; name && i < KVC_N_CODEC; i++)
        if (strcmp(name, codecs[i].name) == 0)
            return i;
    return -1;
}

size_t kvc_codec_stored_max(enum kvc_codec c, size_t raw)
{
    return raw + codecs[c].head;
}

/* ---------------------------------------------------------------- planes */

/* lo[i], hi[i] = bytes of the i-th little-endian u16 of src */
static void split(const uint8_t *src, uint8_t *lo, uint8_t *hi, size_t n)
{
    size_t i = 0;

#ifdef __SSE2__
    const __m128i mask = _mm_set1_epi16(0xff);

    for (; i + 16 <= n; i += 16) {
        __m128i a = _mm_loadu_si128((const void *)(src + 2 * i));
        __m128i b = _mm_loadu_si128((const void *)(src + 2 * i + 16));

        _mm_storeu_si128(
            (void *)(lo + i),
            _mm_packus_epi16(_mm_and_si128(a, mask), _mm_and_si128(b, mask)));
        _mm_storeu_si128(
            (void *)(hi + i),
            _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8)));
    }
#endif
    for (; i < n; i++) {
        lo[i] = src[2 * i];
        hi[i] = src[2 * i + 1];
    }
}

static void join(uint8_t *dst, const uint8_t *lo, const uint8_t *hi, size_t n)
{
    size_t i = 0;

#ifdef __SSE2__
    for (; i + 16 <= n; i += 16) {
        __m128i a = _mm_loadu_si128((const void *)(lo + i));
        __m128i b = _mm_loadu_si128((const void *)(hi + i));

        _mm_storeu_si128((void *)(dst + 2 * i), _mm_unpacklo_epi8(a, b));
        _mm_storeu_si128((void *)(dst + 2 * i + 16), _mm_unpackhi_epi8(a, b));
    }
#endif
    for (; i < n; i++) {
        dst[2 * i] = lo[i];
        dst[2 * i + 1] = hi[i];
    }
}

/* ----------------------------------------------------------------- coder */

struct kvc_coder *kvc_coder_new(void)
{
    return mem_zalloc(sizeof(struct kvc_coder));
}

void kvc_coder_free(struct kvc_coder *c)
{
    if (!c)
        return;
    ZSTD_freeCCtx(c->cctx);
    ZSTD_freeDCtx(c->dctx);
    mem_free(c->plane);
    mem_free(c);
}

static cag_status coder_room(struct kvc_coder *c, size_t plane, cag_error *err)
{
    uint8_t *p;

    if (plane <= c->cap)
        return CAG_OK;
    p = mem_alloc_aligned(64, 2 * plane);
    if (!p)
        return cag_fail_nomem(err, "KV chunk");
    mem_free(c->plane);
    c->plane = p;
    c->cap = plane;
    return CAG_OK;
}

static ZSTD_CCtx *cctx_new(int level)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();

    if (c &&
        (ZSTD_isError(
             ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level)) ||
         ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 1)) ||
         ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 0)))) {
        ZSTD_freeCCtx(c);
        c = NULL;
    }
    return c;
}

size_t kvc_encode_bound(size_t raw)
{
    return HEAD + N_PLANE * ZSTD_compressBound(raw / N_PLANE);
}

static cag_status encode_f16z(struct kvc_coder *c, const uint8_t *raw,
                              size_t n_raw, uint8_t *dst, size_t *n_dst,
                              cag_error *err)
{
    size_t p = n_raw / N_PLANE, at = HEAD;
    cag_status st = coder_room(c, p, err);

    if (st)
        return st;
    if (!c->cctx && !(c->cctx = cctx_new(LEVEL)))
        return cag_fail_nomem(err, "zstd encoder");
    for (int i = 0; i < N_PLANE; i++) {
        const uint8_t *plane = c->plane + (i % 2 ? p : 0);
        size_t n;

        if (i % 2 == 0)
            split(raw + (size_t)i * p, c->plane, c->plane + p, p);
        n = ZSTD_compress2(c->cctx, dst + at, ZSTD_compressBound(p), plane, p);
        if (ZSTD_isError(n) &&
            ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
            return cag_fail_nomem(err, "zstd encoder");
        if (ZSTD_isError(n))
            return cag_fail(err, CAG_E_INTERNAL, NULL, -1, "zstd: %s",
                            ZSTD_getErrorName(n));
        if (n >= p) {
            memcpy(dst + at, plane, p);
            n = p;
        }
        rd_put32(dst + 4 * i, (uint32_t)n);
        at += n;
    }
    *n_dst = at;
    return CAG_OK;
}

/* One frame, nothing after it, of exactly n bytes by its own account. */
static bool frame_is(const uint8_t *src, size_t n_src, size_t n)
{
    return ZSTD_getFrameContentSize(src, n_src) == n &&
           ZSTD_findFrameCompressedSize(src, n_src) == n_src;
}

static cag_status decode_f16z(struct kvc_coder *c, const uint8_t *src,
                              size_t n_src, uint8_t *dst, size_t n_raw,
                              cag_error *err)
{
    static const char *const names[N_PLANE] = { "K low bytes", "K high bytes",
                                                "V low bytes", "V high bytes" };
    const uint8_t *part[2] = { NULL, NULL };
    size_t p = n_raw / N_PLANE, at = HEAD, sum = HEAD;
    cag_status st;

    if (n_src < HEAD)
        return cag_fail(err, CAG_E_CORRUPT, NULL, -1, "only %zu bytes stored",
                        n_src);
    for (int i = 0; i < N_PLANE; i++) {
        uint32_t n = rd_le32(src + 4 * i);

        if (n == 0 || n > p)
            return cag_fail(err, CAG_E_CORRUPT, NULL, -1,
                            "%s take %u bytes, expected 1..%zu", names[i], n,
                            p);
        sum += n;
    }
    if (sum != n_src)
        return cag_fail(err, CAG_E_CORRUPT, NULL, -1,
                        "its planes take %zu bytes of %zu", sum, n_src);
    st = coder_room(c, p, err);
    if (st)
        return st;
    if (!c->dctx && !(c->dctx = ZSTD_createDCtx()))
        return cag_fail_nomem(err, "zstd decoder");
    for (int i = 0; i < N_PLANE; i++) {
        size_t n = rd_le32(src + 4 * i);

        if (n == p) {
            part[i % 2] = src + at;
        } else {
            uint8_t *to = c->plane + (i % 2 ? p : 0);

            if (!frame_is(src + at, n, p) ||
                ZSTD_decompressDCtx(c->dctx, to, p, src + at, n) != p)
                return cag_fail(err, CAG_E_CORRUPT, NULL, -1,
                                "%s are not a zstd frame of %zu bytes",
                                names[i], p);
            part[i % 2] = to;
        }
        at += n;
        if (i % 2)
            join(dst + (size_t)(i - 1) * p, part[0], part[1], p);
    }
    return CAG_OK;
}

cag_status kvc_encode(enum kvc_codec codec, struct kvc_coder *c,
                      const uint8_t *raw, size_t n_raw, uint8_t *dst,
                      size_t *n_dst, cag_error *err)
{
    return codecs[codec].encode(c, raw, n_raw, dst, n_dst, err);
}

cag_status kvc_decode(enum kvc_codec codec, struct kvc_coder *c,
                      const uint8_t *src, size_t n_src, uint8_t *dst,
                      size_t n_raw, cag_error *err)
{
    return codecs[codec].decode(c, src, n_src, dst, n_raw, err);
}

/* ------------------------------------------------------------------ text */

cag_status kvc_text_pack(const char *text, size_t n, struct buf *out,
                         uint32_t *method, cag_error *err)
{
    size_t bound = ZSTD_compressBound(n), got;
    ZSTD_CCtx *cctx = cctx_new(TEXT_LEVEL);
    char *tmp = mem_alloc(bound);
    cag_status st = CAG_OK;

    if (!cctx || !tmp) {
        st = cag_fail_nomem(err, "prefix text");
        goto out;
    }
    got = ZSTD_compress2(cctx, tmp, bound, text, n);
    if (ZSTD_isError(got) &&
        ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) {
        st = cag_fail_nomem(err, "zstd encoder");
        goto out;
    }
    if (ZSTD_isError(got)) {
        st = cag_fail(err, CAG_E_INTERNAL, NULL, -1, "zstd: %s",
                      ZSTD_getErrorName(got));
        goto out;
    }
    *method = got < n ? KVC_TEXT_ZSTD : KVC_TEXT_RAW;
    buf_add(out, got < n ? tmp : text, got < n ? got : n);
    if (buf_failed(out))
        st = cag_fail_nomem(err, "prefix text");
out:
    mem_free(tmp);
    ZSTD_freeCCtx(cctx);
    return st;
}

cag_status kvc_text_expand(const uint8_t *src, size_t n_src, char *dst,
                           size_t n, cag_error *err)
{
    ZSTD_DCtx *dctx;
    size_t got;

    if (!frame_is(src, n_src, n))
        return cag_fail(err, CAG_E_CORRUPT, NULL, -1,
                        "not a zstd frame of %zu bytes", n);
    dctx = ZSTD_createDCtx();
    if (!dctx)
        return cag_fail_nomem(err, "zstd decoder");
    got = ZSTD_decompressDCtx(dctx, dst, n, src, n_src);
    ZSTD_freeDCtx(dctx);
    if (got != n)
        return cag_fail(err, CAG_E_CORRUPT, NULL, -1, "zstd: %s",
                        ZSTD_isError(got) ? ZSTD_getErrorName(got)
                                          : "frame is short");
    return CAG_OK;
}

const char *kvc_codec_library(void)
{
    return ZSTD_versionString();
}

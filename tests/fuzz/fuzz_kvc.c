/*
 * fuzz_kvc.c - open a cache, load every chunk, verify it.
 *
 * Digests stop a mutation at the first check, so the target repairs what it
 * can and lets the parsers behind it see the bytes.  The first byte says what
 * follows:
 *   R  a file; XXH3 of chunks, SHA-256 of sections and header are repaired
 *   S  the eight sections and perhaps a receipt, each as u32 size and bytes,
 *      from which a file is put together (small inputs: no padding, no header)
 *   else  the whole input is a file, as it is
 */
#include <stdlib.h>
#include <string.h>

#include "kvc/kvc_format.h"
#include "kvc/kvc_read.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/rd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const uint8_t *data, size_t size)
{
    cag_kvc                *k = NULL;
    const struct kvc_shape *s;
    uint8_t                *dst;
    const uint8_t          *raw;
    cag_error               err = CAG_ERROR_INIT;

    if (kvc_parse(data, size, "fuzz.kvc", &k, &err) != CAG_OK)
        return;
    s = kvc_get_shape(k);
    dst = mem_alloc_aligned(64, kvc_chunk_bytes(s, 0));
    for (int l = 0; dst && l < s->n_layer; l++)
        for (int c = 0; c < kvc_n_chunk(s); c++)
            if (kvc_chunk_load(k, l, c, dst, &raw, &err) == CAG_OK &&
                raw[kvc_chunk_bytes(s, c) - 1] == 1)
                dst[0] ^= 1;
    mem_free(dst);
    (void)cag_kvc_tokenizer(k);
    (void)cag_kvc_verify(k, 1, NULL, NULL, &err);
    cag_kvc_close(k);
}

/* An entry whose section lies in the file, else NULL. */
static uint8_t *entry(uint8_t *p, size_t size, const char name[4], int i)
{
    uint8_t *e = p + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;
    uint64_t off = rd_le64(e + 8), n = rd_le64(e + 16);

    if (off > size || n > size - off || (name && memcmp(e, name, 4) != 0))
        return NULL;
    return e;
}

static void repair(uint8_t *p, size_t size)
{
    uint8_t *chnk = NULL, *kv = NULL;

    for (int i = 0; i < KVC_MAX_SECTION; i++) {
        chnk = chnk ? chnk : entry(p, size, "CHNK", i);
        kv = kv ? kv : entry(p, size, "KV\0", i);
    }
    if (chnk && kv) {
        uint8_t      *c = p + rd_le64(chnk + 8), *v = p + rd_le64(kv + 8);
        uint64_t      n = rd_le64(chnk + 16) / KVC_CHNK_SIZE;
        uint64_t      n_kv = rd_le64(kv + 16);
        struct sha256 h = { NULL };

        if (sha256_init(&h, NULL) != CAG_OK)
            abort();
        for (; n > 0; n--, c += KVC_CHNK_SIZE) {
            uint64_t off = rd_le64(c), len = rd_le64(c + 8);

            if (off <= n_kv && len <= n_kv - off)
                rd_put64(c + 24, xxh3_64(v + off, (size_t)len));
            sha256_update(&h, c + 32, SHA256_SIZE);
        }
        sha256_final(&h, kv + 24);
    }
    for (int i = 0; i < KVC_MAX_SECTION; i++) {
        uint8_t *e = entry(p, size, NULL, i);

        if (e && e != kv && rd_le64(e + 16) > 0)
            (void)sha256_buf(p + rd_le64(e + 8), (size_t)rd_le64(e + 16),
                             e + 24, NULL);
    }
    memset(p + KVC_OFF_SHA256, 0, SHA256_SIZE);
    (void)sha256_buf(p, KVC_PAGE, p + KVC_OFF_SHA256, NULL);
}

static void use_sections(const uint8_t *data, size_t size)
{
    static const char *const names[KVC_N_CORE] = KVC_CORE_NAMES;
    size_t   room = KVC_PAGE * (KVC_N_CORE + 3) + size, at = KVC_PAGE;
    uint8_t *p = mem_zalloc(room);

    if (!p)
        return;
    memcpy(p, KVC_MAGIC, 8);
    rd_put16(p + KVC_OFF_MAJOR, CAG_KVC_MAJOR);
    rd_put32(p + KVC_OFF_LAYOUT, KVC_LAYOUT_TILES);
    for (int i = 0; i <= KVC_N_CORE && size >= 4; i++) {
        const char *name = i < KVC_N_CORE ? names[i] : "RCPT";
        uint8_t *e = p + KVC_OFF_SECTIONS + i * KVC_SECTION_SIZE;
        size_t   n = rd_le32(data);

        data += 4;
        size -= 4;
        if (n > size)
            n = size;
        memcpy(e, name, strlen(name));
        rd_put32(e + 4, i < KVC_N_CORE ? KVC_REQUIRED : 0);
        rd_put32(p + KVC_OFF_N_SECTION, (uint32_t)i + 1);
        rd_put64(e + 8, at);
        rd_put64(e + 16, n);
        memcpy(p + at, data, n);
        at = (size_t)kvc_page_up(at + n);
        data += n;
        size -= n;
    }
    rd_put64(p + KVC_OFF_SIZE, at);
    repair(p, at);
    use(p, at);
    mem_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'S') {
        use_sections(data + 1, size - 1);
    } else if (size > KVC_PAGE && data[0] == 'R') {
        uint8_t *copy = mem_alloc(size - 1);

        if (!copy)
            return 0;
        memcpy(copy, data + 1, size - 1);
        repair(copy, size - 1);
        use(copy, size - 1);
        mem_free(copy);
    } else {
        use(data, size);
    }
    return 0;
}

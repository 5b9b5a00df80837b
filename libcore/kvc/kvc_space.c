/*
 * kvc_space.c - before a cache is written: does it fit, and may the file that
 * is there go?
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "kvc/kvc_attention.h"
#include "kvc/kvc_codec.h"
#include "kvc/kvc_receipt.h"
#include "kvc/kvc_write.h"
#include "util/file.h"

/* Canonical size of a JSON section, or the share of what is not known. */
static uint64_t json_bound(const jv *v)
{
    struct buf b = BUF_INIT;
    uint64_t n = UINT64_C(1) << 18;

    if (v) {
        jv_dump(v, &b);
        if (!buf_failed(&b))
            n = b.size;
    }
    buf_free(&b);
    return kvc_page_up(n);
}

uint64_t kvc_size_bound(const struct kvc_desc *d)
{
    struct kvc_shape s = d->shape;
    int codec = kvc_codec_find(d->codec);
    uint64_t n, small, kv = 0;

    if (codec < 0)
        codec = KVC_F16Z;
    if (s.chunk_tok == 0)
        s.chunk_tok = kvc_chunk_tok(s.n_kv_head, s.d_head, s.kv_class);
    n = (uint64_t)kvc_n_chunk(&s);
    for (int i = 0; i < (int)n; i++)
        kv += kvc_page_up(kvc_codec_stored_max((enum kvc_codec)codec,
                                               kvc_chunk_bytes(&s, i)));
    /* what the writer adds to META: fixed members and 67 bytes a source */
    small = KVC_PAGE + 2 * (uint64_t)KVC_PAGE +
            80 * (uint64_t)jv_count(d->sources) + json_bound(d->meta) +
            json_bound(d->sources) + json_bound(d->prompt) +
            kvc_page_up(KVC_TEXT_HEAD + d->text_size) +
            kvc_page_up(KVC_TOKS_HEAD + 8 * (uint64_t)s.n_tok) +
            kvc_page_up(d->tokenizer_size ? d->tokenizer_size : 1 << 18) +
            kvc_page_up((uint64_t)s.n_layer * n * KVC_CHNK_SIZE);
    if (kvc_codec_lossy((enum kvc_codec)codec))
        small += kvc_page_up(kvc_receipt_bound(s.n_layer));
    if (d->attention)
        small += kvc_page_up(KVC_ATTENTION_BOUND);
    for (int i = 0; i < d->n_extra; i++)
        small += kvc_page_up(d->extra[i].size);
    return kvc_page_up(small + (uint64_t)s.n_layer * kv);
}

cag_status kvc_check_space(const char *path, const struct kvc_desc *d,
                           cag_error *err)
{
    uint64_t need = kvc_size_bound(d), have;
    cag_status st = file_space(path, &have, err);

    if (st)
        return st;
    if (have < need)
        return cag_fail_sys(err, CAG_E_CREATE, ENOSPC, path,
                            "the cache may take %llu MiB, the file system has "
                            "%llu MiB free",
                            (unsigned long long)(need >> 20) + 1,
                            (unsigned long long)(have >> 20));
    return CAG_OK;
}

cag_status kvc_check_replace(const char *path, cag_error *err)
{
    char head[4];
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return CAG_OK; /* not there, or said when it is written */
    do
        n = pread(fd, head, sizeof head, 0);
    while (n < 0 && errno == EINTR);
    close(fd);
    if (n <= 0 ||
        ((size_t)n == sizeof head && memcmp(head, KVC_MAGIC, sizeof head) == 0))
        return CAG_OK;
    return cag_fail(err, CAG_E_CREATE, path, -1,
                    "is a file but no cache, so it is not replaced; name "
                    "another output");
}

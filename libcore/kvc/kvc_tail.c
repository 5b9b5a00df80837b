/*
 * kvc_tail.c - a cache with another section at its end.
 *
 * ATTN is the last section of a file, so that what is known later (a null,
 * which takes the finished cache to measure) changes the header and the tail
 * alone.  All else is copied as it is; nothing is decoded.
 */
#include <string.h>

#include "kvc/kvc_attention.h"
#include "kvc/kvc_impl.h"
#include "util/error.h"
#include "util/file_lock.h"
#include "util/mem.h"
#include "util/rd.h"

/* Sections before ATTN, and where they end. */
static cag_status find_tail(const cag_kvc *k, int *n, uint64_t *end,
                            cag_error *err)
{
    *n = k->n_section;
    for (int i = 0; i < k->n_section; i++)
        if (!strcmp(k->section[i].name, "ATTN"))
            *n = i;
    if (*n < k->n_section - 1)
        return cag_fail(err, CAG_E_UNSUPPORTED, k->name, -1,
                        "section ATTN is not the last; build the cache again");
    if (*n == KVC_MAX_SECTION)
        return cag_fail(err, CAG_E_LIMIT, k->name, -1,
                        "the cache has no room for one more section");
    *end = kvc_page_up(k->section[*n - 1].off + k->section[*n - 1].size);
    return CAG_OK;
}

static cag_status make_header(const cag_kvc *k, int n, uint64_t off,
                              const struct buf *b, uint8_t page[KVC_PAGE],
                              cag_error *err)
{
    uint8_t *e = page + KVC_OFF_SECTIONS + n * KVC_SECTION_SIZE;
    uint8_t d[SHA256_SIZE];
    cag_status st = sha256_buf(b->data, b->size, d, err);

    if (st)
        return st;
    memcpy(page, k->data, KVC_PAGE);
    memset(page + KVC_OFF_SHA256, 0, SHA256_SIZE);
    rd_put32(page + KVC_OFF_N_SECTION, (uint32_t)n + 1);
    rd_put64(page + KVC_OFF_SIZE, off + kvc_page_up(b->size));
    memset(e, 0, KVC_SECTION_SIZE);
    memcpy(e, "ATTN", 4);
    rd_put64(e + 8, off);
    rd_put64(e + 16, b->size);
    memcpy(e + 24, d, sizeof d);
    st = sha256_buf(page, KVC_PAGE, d, err);
    if (!st)
        memcpy(page + KVC_OFF_SHA256, d, sizeof d);
    return st;
}

static cag_status write_copy(const cag_kvc *k, const char *path, int n,
                             uint64_t end, const struct buf *b, cag_error *err)
{
    static const uint8_t zero[KVC_PAGE];
    uint8_t page[KVC_PAGE];
    uint64_t tail = kvc_page_up(b->size);
    struct file_out out;
    cag_status st = make_header(k, n, end, b, page, err);

    if (!st)
        st = file_out_open(&out, path, -1, err);
    if (st)
        return st;
    st = file_out_write(&out, page, sizeof page, err);
    if (!st)
        st = file_out_write(&out, k->data + KVC_PAGE, (size_t)end - KVC_PAGE,
                            err);
    if (!st)
        st = file_out_write(&out, b->data, b->size, err);
    if (!st && tail > b->size)
        st = file_out_write(&out, zero, (size_t)(tail - b->size), err);
    if (!st)
        return file_out_commit(&out, err);
    file_out_abort(&out);
    return st;
}

cag_status kvc_set_attention(const char *path, const cag_kvc_attention *a,
                             double lock_timeout_s, cag_error *err)
{
    struct file_lock lock = FILE_LOCK_NONE;
    struct buf b = BUF_INIT;
    cag_kvc *k = NULL;
    uint64_t end = 0;
    int n = 0;
    cag_status st = file_lock(&lock, path, -1, lock_timeout_s, err);

    if (st)
        return st;
    st = cag_kvc_open(path, &k, err);
    if (!st)
        st = kvc_attention_section(a, &k->shape, &b, err);
    if (!st)
        st = find_tail(k, &n, &end, err);
    if (!st)
        st = write_copy(k, path, n, end, &b, err);
    buf_free(&b);
    cag_kvc_close(k);
    file_unlock(&lock);
    return st;
}

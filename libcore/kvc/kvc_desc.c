/*
 * kvc_desc.c - validate a kvc_desc before the first byte is written.
 *
 * By the rules of a reader and with its code (kvc_meta.c), so that no file is
 * begun that would be refused; but the fault is the caller's, CAG_E_USAGE.
 */
#include <string.h>

#include "kvc/kvc_meta.h"
#include "kvc/kvc_receipt.h"
#include "kvc/kvc_write.h"
#include "util/arena.h"
#include "util/text.h"

static cag_status check_desc(const struct kvc_desc *d, struct kvc_shape *shape,
                             enum kvc_codec *as, cag_error *err)
{
    struct kvc_check c = { NULL, CAG_E_USAGE, err, CAG_OK };
    int codec = kvc_codec_find(d->codec);
    char list[64];
    cag_kvc_info info;
    int64_t last = 0;

    if (codec < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "unknown KV codec \"%.32s\", expected %s",
                        d->codec ? d->codec : "",
                        kvc_codec_list(list, sizeof list, "or"));
    *as = (enum kvc_codec)codec;
    *shape = d->shape;
    if (shape->kv_class != kvc_codec_class(*as))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "codec %s takes elements of class %s, not %s", d->codec,
                        kvc_class_name(kvc_codec_class(*as)),
                        kvc_class_name(shape->kv_class));
    if (kvc_codec_lossy(*as) != (d->receipt != NULL))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        d->receipt ? "codec %s loses nothing, so it has no "
                                     "receipt"
                                   : "codec %s needs a receipt",
                        d->codec);
    if (shape->chunk_tok == 0 && shape->n_kv_head > 0 && shape->d_head > 0)
        shape->chunk_tok =
            kvc_chunk_tok(shape->n_kv_head, shape->d_head, shape->kv_class);
    kvc_check_shape(&c, shape);
    memset(&info, 0, sizeof info);
    kvc_check_meta(&c, d->meta, &info);
    if (c.st)
        return c.st;
    if (d->n_ids != (size_t)shape->n_tok)
        return cag_fail(err, CAG_E_USAGE, NULL, -1, "%zu ids for %d tokens",
                        d->n_ids, shape->n_tok);
    if (d->text_size > KVC_MAX_TEXT ||
        d->text_size > KVC_MAX_TOK_TEXT * d->n_ids)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "the prefix text has %zu bytes for %zu tokens: a "
                        ".kvc holds at most 1 GiB and %d bytes per token",
                        d->text_size, d->n_ids, (int)KVC_MAX_TOK_TEXT);
    if (!utf8_valid(d->text, d->text_size, NULL))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "the prefix text is not UTF-8");
    for (size_t i = 0; i < d->n_ids; i++) {
        if (d->ids[i] < 0 || d->ids[i] >= info.n_vocab)
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "id %zu is %d, the vocabulary has %d", i, d->ids[i],
                            info.n_vocab);
        if (d->id_off[i] < last || d->id_off[i] > (int64_t)d->text_size)
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "byte offset of id %zu is %lld, expected %lld..%zu",
                            i, (long long)d->id_off[i], (long long)last,
                            d->text_size);
        last = d->id_off[i];
    }
    if (d->tokenizer_size == 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1, "the tokenizer is empty");
    kvc_check_prmt(&c, d->prompt, info.n_vocab, &info);
    return c.st;
}

static cag_status check_sources(const struct kvc_desc *d,
                                const struct kvc_shape *shape, cag_error *err)
{
    struct kvc_check c = { NULL, CAG_E_USAGE, err, CAG_OK };
    struct arena a = { NULL };
    cag_kvc_source *s;
    int n;

    kvc_check_srcs(&c, d->sources, d->text_size, shape->n_tok, &a, &s, &n);
    arena_release(&a);
    return c.st;
}

static cag_status check_extra(const struct kvc_desc *d, cag_error *err)
{
    static const char *const core[KVC_N_CORE] = KVC_CORE_NAMES;
    int n_max = KVC_MAX_SECTION - KVC_N_CORE - (d->receipt != NULL) -
                (d->attention != NULL);

    if (d->n_extra < 0 || d->n_extra > n_max)
        return cag_fail(err, CAG_E_LIMIT, NULL, -1,
                        "%d optional sections, a .kvc holds at most %d",
                        d->n_extra, n_max);
    for (int i = 0; i < d->n_extra; i++) {
        const char *name = d->extra[i].name;
        size_t n = strnlen(name, 5);
        bool ok = n >= 1 && n <= 4 && d->extra[i].size > 0 &&
                  strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == n;

        ok = ok && strcmp(name, "RCPT") != 0 && strcmp(name, "ATTN") != 0;
        for (int j = 0; ok && j < KVC_N_CORE; j++)
            ok = strcmp(name, core[j]) != 0;
        for (int j = 0; ok && j < i; j++)
            ok = strcmp(name, d->extra[j].name) != 0;
        if (!ok)
            return cag_fail(err, CAG_E_USAGE, NULL, -1,
                            "optional section %d has a bad name or no bytes",
                            i);
    }
    return CAG_OK;
}

cag_status kvc_desc_check(const struct kvc_desc *d, struct kvc_shape *shape,
                          enum kvc_codec *codec, cag_error *err)
{
    cag_status st = check_desc(d, shape, codec, err);

    if (!st)
        st = check_sources(d, shape, err);
    return st ? st : check_extra(d, err);
}

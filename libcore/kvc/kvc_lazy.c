/*
 * kvc_lazy.c - what an open cache makes on demand, behind one lock: decoders
 * (kept for the next chunk, as many as were ever needed at once) and the
 * tokenizer; and what has been checked so far.
 *
 * This is the one file of kvc/ that sees tokenizer/: a .kvc carries the
 * compiled tokenizer, so opening it is part of reading the file.
 */
#include <string.h>

#include "kvc/kvc_impl.h"
#include "tokenizer/tokenizer.h"
#include "util/mem.h"

struct kvc_lazy *kvc_lazy_new(void)
{
    struct kvc_lazy *l = mem_zalloc(sizeof *l);

    if (l && pthread_mutex_init(&l->lock, NULL) != 0) {
        mem_free(l);
        l = NULL;
    }
    return l;
}

void kvc_lazy_free(struct kvc_lazy *l)
{
    if (!l)
        return;
    while (l->n_idle > 0)
        kvc_coder_free(l->idle[--l->n_idle]);
    if (l->tok)
        tok_free(l->tok);
    mem_free(l->tok_copy);
    mem_free(l->checked);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}

bool kvc_lazy_chunks(struct kvc_lazy *l, size_t n_chunk)
{
    l->checked = mem_alloc_array(n_chunk, sizeof *l->checked);
    return l->checked != NULL;
}

void cag_kvc_get_checked(const cag_kvc *k, cag_kvc_checked *out)
{
    const struct kvc_lazy *l = k->lazy;

    *out = (cag_kvc_checked){
        .n_section = k->n_section - 1, /* KV is checked by chunks */
        .of_chunk = (int64_t)k->shape.n_layer * kvc_n_chunk(&k->shape),
        .full = atomic_load(&l->verified)
    };
    for (int64_t i = 0; i < out->of_chunk; i++)
        out->n_chunk +=
            atomic_load_explicit(&l->checked[i], memory_order_relaxed);
}

struct kvc_coder *kvc_lazy_take(struct kvc_lazy *l)
{
    struct kvc_coder *c = NULL;

    pthread_mutex_lock(&l->lock);
    if (l->n_idle > 0)
        c = l->idle[--l->n_idle];
    pthread_mutex_unlock(&l->lock);
    return c ? c : kvc_coder_new();
}

void kvc_lazy_give(struct kvc_lazy *l, struct kvc_coder *c)
{
    pthread_mutex_lock(&l->lock);
    if (l->n_idle < KVC_MAX_IDLE) {
        l->idle[l->n_idle++] = c;
        c = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    kvc_coder_free(c);
}

static cag_status make_tokenizer(const cag_kvc *k, cag_error *err)
{
    const struct kvc_section *s = k->core[KVC_TKNZ];
    const uint8_t *blob = k->data + s->off;

    if ((uintptr_t)blob % 8 != 0 && !k->lazy->tok_copy) {
        k->lazy->tok_copy = mem_alloc_aligned(64, (size_t)s->size);
        if (!k->lazy->tok_copy)
            return cag_fail_nomem(err, "tokenizer");
        memcpy(k->lazy->tok_copy, blob, (size_t)s->size);
    }
    if (k->lazy->tok_copy)
        blob = k->lazy->tok_copy;
    return tok_from_blob(blob, (size_t)s->size, k->name, &k->lazy->tok, err);
}

cag_status kvc_tokenizer(const cag_kvc *k, const cag_tokenizer **out,
                         cag_error *err)
{
    cag_status st = CAG_OK;

    pthread_mutex_lock(&k->lazy->lock);
    if (!k->lazy->tok)
        st = make_tokenizer(k, err);
    if (!st)
        *out = k->lazy->tok;
    pthread_mutex_unlock(&k->lazy->lock);
    return st;
}

const cag_tokenizer *cag_kvc_tokenizer(const cag_kvc *k)
{
    const cag_tokenizer *t = NULL;

    return kvc_tokenizer(k, &t, NULL) == CAG_OK ? t : NULL;
}

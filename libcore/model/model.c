/*
 * model.c - opening a model: which container, then configuration, weights,
 * tokenizer and template, each by its own reader.
 *
 * What a model is does not depend on the container: a GGUF file holds
 * everything, a directory holds the same in config.json,
 * generation_config.json, *.safetensors, tokenizer.json and
 * tokenizer_config.json (model_dir.c).  After opening, nothing changes any
 * more, so a model can be shared by threads without a lock.
 */
#include "model/model.h"

#include <string.h>

#include "util/sniff.h"
#include "model/model_open.h"
#include "tokenizer/tokenizer.h"
#include "util/buf.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/text.h"

/* ------------------------------------------------------------------ info */

struct census {
    uint64_t n_param, bytes;
};

/* The type that holds most bytes names the model. */
static const char *census_take(const struct cag_model *m, struct census *all)
{
    uint64_t by_type[64] = { 0 }, n, best = 0;
    size_t i, count = m->gguf ? gguf_n_tensor(m->gguf)
                      : m->st ? st_n_tensor(m->st)
                              : 0;
    const char *name = "";
    int t, d;

    for (i = 0; i < count; i++) {
        const struct gguf_tensor *g =
            m->gguf ? gguf_tensor_at(m->gguf, i) : NULL;
        const struct st_tensor *h = g ? NULL : st_at(m->st, i);
        const uint64_t *dims = g ? g->dims : h->dims;
        int n_dims = g ? g->n_dims : h->n_dims;
        int type = g ? g->type : h->type;
        uint64_t bytes = g ? g->size_bytes : h->size_bytes;

        if (weights_redundant(g ? g->name : h->name, g != NULL))
            continue;
        for (n = 1, d = 0; d < n_dims; d++)
            n *= dims[d];
        all->n_param += n;
        all->bytes += bytes;
        if (type >= 0 && type < 64)
            by_type[type] += bytes;
    }
    for (t = 0; t < 64; t++)
        if (by_type[t] > best) {
            best = by_type[t];
            name = gguf_type_name(t);
        }
    return name;
}

static void fill_info(struct cag_model *m, const char *container)
{
    const struct model_config *c = &m->config;
    struct census all = { 0, 0 };
    cag_model_info *i = &m->info;

    i->arch = c->family->arch;
    i->container = container;
    i->weight_type = census_take(m, &all);
    i->n_layer = c->n_layer;
    i->n_head = c->n_head;
    i->n_kv_head = c->n_kv_head;
    i->d_head = c->d_head;
    i->d_model = c->d_model;
    i->d_ff = c->d_ff;
    i->n_vocab = c->n_vocab;
    i->n_ctx = c->n_ctx;
    i->n_param = all.n_param;
    i->kv_bytes_per_tok = (uint64_t)c->n_layer * (uint64_t)c->n_kv_head *
                          (uint64_t)c->d_head * 2 * 2;
}

/* ------------------------------------------------------------------ GGUF */

static cag_status gguf_name(struct cag_model *m, const char *path,
                            cag_error *err)
{
    struct gguf_str s = { "", 0 };
    struct buf b = BUF_INIT;
    const char *slash = strrchr(path, '/');
    cag_status st;

    st = gguf_get_str(m->gguf, "general.name", false, &s, err);
    if (st)
        return st;
    if (s.n)
        utf8_sanitize(s.s, s.n, &b);
    else
        buf_str(&b, slash ? slash + 1 : path);
    if (!buf_failed(&b))
        m->info.name = arena_strndup(&m->arena, b.data, b.size);
    buf_free(&b);
    return m->info.name ? CAG_OK : cag_fail_nomem(err, "model name");
}

static cag_status open_gguf(struct cag_model *m, const char *path,
                            unsigned flags, cag_error *err)
{
    struct gguf_str text = { NULL, 0 };
    cag_status st;

    if ((st = gguf_open(path, &m->gguf, err)) ||
        (st = config_from_gguf(m->gguf, &m->config, err)) ||
        (st = gguf_name(m, path, err)))
        return st;
    for (size_t i = 0; i < gguf_n_file(m->gguf); i++) {
        m->info.size_bytes += gguf_file_id(m->gguf, i)->size_bytes;
        st = model_add_file(m, gguf_file(m->gguf, i), err);
        if (st)
            return st;
    }
    if (!(flags & CAG_MODEL_NO_WEIGHTS)) {
        st =
            weights_from_gguf(m->gguf, &m->config, &m->arena, &m->weights, err);
        if (st)
            return st;
    }
    st = gguf_get_str(m->gguf, "tokenizer.chat_template", false, &text, err);
    if (st)
        return st;
    if (text.s) {
        st = model_set_template(m, text.s, text.n, path, err);
        if (st)
            return st;
    }
    if (!(flags & CAG_MODEL_NO_TOKENIZER))
        st = tok_from_gguf(m->gguf, &m->tokenizer, err);
    return st;
}

/* ------------------------------------------------------------------ open */

/* Every id the tokenizer can make needs a row in the embedding. */
static cag_status check_vocab(const struct cag_model *m, const char *path,
                              cag_error *err)
{
    int n;

    if (!m->tokenizer)
        return CAG_OK;
    n = cag_tokenizer_n_vocab(m->tokenizer);
    if (n > m->config.n_vocab)
        return cag_fail(err, CAG_E_FORMAT, path, -1,
                        "the tokenizer has %d tokens, the embedding %d rows", n,
                        m->config.n_vocab);
    return CAG_OK;
}

cag_status cag_model_open(const char *path, unsigned flags, cag_model **out,
                          cag_error *err)
{
    struct cag_model *m = NULL;
    bool is_dir;
    cag_status st;

    if (!path || !*path ||
        (flags & ~(CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER)))
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "cag_model_open: no path, or unknown flags");
    m = mem_zalloc(sizeof *m);
    if (!m)
        return cag_fail_nomem(err, "model");
    m->info.path = arena_strndup(&m->arena, path, strlen(path));
    if (!m->info.path) {
        st = cag_fail_nomem(err, "model");
        goto out;
    }
    is_dir = file_is_dir(path);
    st = is_dir ? model_open_dir(m, path, flags, err)
                : open_gguf(m, path, flags, err);
    if (st)
        goto out;
    st = check_vocab(m, path, err);
    if (st)
        goto out;
    fill_info(m, is_dir ? "safetensors" : "gguf");
    *out = m;
    m = NULL;
out:
    cag_model_close(m);
    return st;
}

void cag_model_close(cag_model *m)
{
    if (!m)
        return;
    if (m->tokenizer)
        tok_free(m->tokenizer);
    gguf_close(m->gguf);
    st_close(m->st);
    arena_release(&m->arena);
    mem_free(m);
}

const cag_model_info *cag_model_get_info(const cag_model *m)
{
    return &m->info;
}

const cag_tokenizer *cag_model_get_tokenizer(const cag_model *m)
{
    return m->tokenizer;
}

const char *cag_model_get_template(const cag_model *m)
{
    return m->template_text;
}

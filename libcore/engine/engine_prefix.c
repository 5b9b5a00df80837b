/*
 * engine_prefix.c - a cache as an engine's device sees it.
 *
 * Whether the cache fits the model's shape is checked here, above the seam;
 * how its chunks reach the device, and when, is the backend's.
 */
#include "engine/engine.h"
#include "kvc/kvc_read.h"
#include "util/error.h"
#include "util/mem.h"

cag_status prefix_new_part(cag_engine *e, const cag_kvc *k, int n_tok,
                           cag_prefix **out, cag_error *err)
{
    const struct kvc_shape *s = kvc_get_shape(k);
    const struct model_config *c = &e->model->config;
    cag_prefix *p;
    cag_status st;

    if (s->n_layer != c->n_layer || s->n_kv_head != c->n_kv_head ||
        s->d_head != c->d_head)
        return cag_fail(err, CAG_E_MISMATCH, cag_kvc_get_info(k)->path, -1,
                        "the cache is %d layers x %d KV heads x %d, the "
                        "model %d x %d x %d",
                        s->n_layer, s->n_kv_head, s->d_head, c->n_layer,
                        c->n_kv_head, c->d_head);
    if (n_tok < 1 || n_tok > s->n_tok)
        return cag_fail(err, CAG_E_USAGE, cag_kvc_get_info(k)->path, -1,
                        "%d tokens asked of a cache of %d", n_tok, s->n_tok);
    p = mem_zalloc(sizeof *p);
    if (!p)
        return cag_fail_nomem(err, "prefix");
    p->engine = e;
    p->kvc = k;
    p->n_tok = n_tok;
    st = e->backend->ops->prefix_new(e->backend, k, n_tok, &p->impl, err);
    if (st) {
        mem_free(p);
        return st;
    }
    *out = p;
    return CAG_OK;
}

cag_status cag_prefix_new(cag_engine *e, const cag_kvc *k, cag_prefix **out,
                          cag_error *err)
{
    return prefix_new_part(e, k, kvc_get_shape(k)->n_tok, out, err);
}

void cag_prefix_free(cag_prefix *p)
{
    if (!p)
        return;
    p->engine->backend->ops->prefix_free(p->impl);
    mem_free(p);
}

uint64_t cag_prefix_private_bytes(const cag_prefix *p)
{
    return p->engine->backend->ops->prefix_private_bytes(p->impl);
}

double cag_prefix_seconds(const cag_prefix *p)
{
    const struct backend_ops *ops = p->engine->backend->ops;

    return ops->prefix_seconds ? ops->prefix_seconds(p->impl) : 0;
}

cag_status cag_prefix_load(cag_prefix *p, cag_error *err)
{
    return p->engine->backend->ops->prefix_load(p->impl, err);
}

/*
 * engine.c - a model, threads and a device put together; and the prefix, a
 * cache seen by that device.
 */
#include "engine/engine.h"

#include <string.h>

#include "kvc/kvc_read.h"
#include "util/error.h"
#include "util/mem.h"

#define MAX_CHUNK 65536

cag_status cag_engine_new(const cag_model *m, const cag_engine_opts *opts,
                          cag_engine **out, cag_error *err)
{
    static const cag_engine_opts defaults;
    const cag_engine_opts *o = opts ? opts : &defaults;
    struct backend_opts bo = { .chunk = o->chunk,
                               .precision = o->precision,
                               .kv_f32 = o->kv_f32,
                               .max_memory = o->max_memory,
                               .max_host = o->max_host,
                               .plugin = o->plugin,
                               .gpu_layers = o->gpu_layers,
                               .room_tok = o->room_tok };
    cag_engine *e;
    cag_status st;

    if (o->chunk < 0 || o->chunk > MAX_CHUNK || o->n_thread < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "chunk %d and %d threads, expected 0..%d and 0 or "
                        "more",
                        o->chunk, o->n_thread, MAX_CHUNK);
    if (o->gpu_layers < CAG_GPU_LAYERS_AUTO || o->room_tok < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%d layers on a GPU with room for %d positions",
                        o->gpu_layers, o->room_tok);
    e = mem_zalloc(sizeof *e);
    if (!e)
        return cag_fail_nomem(err, "engine");
    e->model = m;
    st = pool_new(&e->pool, o->n_thread, err);
    if (st)
        goto out;
    bo.pool = e->pool;
    st = backend_load(o->device, m, &bo, &e->backend, err);
    if (st)
        goto out;
    e->chunk = e->backend->chunk;
    e->row = mem_alloc_array((size_t)e->backend->max_row, sizeof *e->row);
    if (!e->row)
        st = cag_fail_nomem(err, "engine");
out:
    if (st) {
        cag_engine_free(e);
        return st;
    }
    *out = e;
    return CAG_OK;
}

void cag_engine_free(cag_engine *e)
{
    if (!e)
        return;
    mem_free(e->row);
    if (e->backend)
        e->backend->ops->free(e->backend);
    pool_free(e->pool);
    mem_free(e);
}

int cag_engine_n_thread(const cag_engine *e)
{
    return pool_size(e->pool);
}

const char *cag_engine_kernels(const cag_engine *e)
{
    return e->backend->ops->kernels(e->backend);
}

const char *cag_engine_numerics(const cag_engine *e)
{
    return e->backend->ops->numerics(e->backend);
}

const char *cag_engine_products(const cag_engine *e)
{
    return e->backend->products;
}

static const char *const precision_names[] = { "default", "exact", "fast",
                                               "auto" };

const char *cag_precision_name(cag_precision p)
{
    return p >= CAG_PRECISION_DEFAULT && p <= CAG_PRECISION_AUTO
               ? precision_names[p]
               : NULL;
}

cag_precision cag_precision_of(const char *name)
{
    for (int i = CAG_PRECISION_EXACT; i <= CAG_PRECISION_AUTO; i++)
        if (strcmp(name, precision_names[i]) == 0)
            return (cag_precision)i;
    return CAG_PRECISION_DEFAULT;
}

const char *cag_engine_device(const cag_engine *e)
{
    return e->backend->ops->name;
}

const char *cag_engine_note(const cag_engine *e, bool *warn)
{
    if (warn)
        *warn = e->backend->warn;
    return e->backend->note;
}

cag_device_memory cag_engine_device_memory(const cag_engine *e)
{
    static const cag_device_memory none;

    return e->backend->ops->memory ? e->backend->ops->memory(e->backend) : none;
}

uint64_t cag_engine_device_bytes(const cag_engine *e)
{
    cag_device_memory m = cag_engine_device_memory(e);

    return m.weights + m.caches + m.sessions + m.scratch;
}

int cag_engine_room(cag_engine *e, cag_prefix *p, int max_tok)
{
    return e->backend->ops->kv_room(e->backend, p ? p->impl : NULL, max_tok);
}

void cag_engine_set_progress(cag_engine *e, cag_progress_fn fn, void *ctx)
{
    e->progress = fn;
    e->progress_ctx = ctx;
}

void engine_trace(cag_engine *e)
{
    e->backend->trace = true;
}

void engine_timeline(cag_engine *e, backend_moment_fn *fn, void *ctx)
{
    if (e->backend->ops->timeline)
        e->backend->ops->timeline(e->backend, fn, ctx);
}

struct pool *engine_pool(cag_engine *e)
{
    return e->pool;
}

/* ------------------------------------------------------------------ prefix */

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

cag_status cag_prefix_load(cag_prefix *p, cag_error *err)
{
    return p->engine->backend->ops->prefix_load(p->impl, err);
}

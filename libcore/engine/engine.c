/*
 * engine.c - a model, threads and a device put together.
 */
#include "engine/engine.h"

#include "util/error.h"
#include "util/mem.h"

#define MAX_PASS_ROWS 65536

cag_status cag_engine_new(const cag_model *m, const cag_engine_opts *opts,
                          cag_engine **out, cag_error *err)
{
    static const cag_engine_opts defaults;
    const cag_engine_opts *o = opts ? opts : &defaults;
    struct backend_opts bo = { .pass_rows = o->pass_rows,
                               .precision = o->precision,
                               .kv_f32 = o->kv_f32,
                               .max_memory = o->max_memory,
                               .max_host = o->max_host,
                               .plugin = o->plugin,
                               .gpu_layers = o->gpu_layers,
                               .room_tok = o->room_tok };
    struct backend *b = NULL;
    cag_status st;

    if (o->pass_rows < 0 || o->pass_rows > MAX_PASS_ROWS || o->n_thread < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "chunk %d and %d threads, expected 0..%d and 0 or "
                        "more",
                        o->pass_rows, o->n_thread, MAX_PASS_ROWS);
    if (o->gpu_layers < CAG_GPU_LAYERS_AUTO || o->room_tok < 0)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "%d layers on a GPU with room for %d positions",
                        o->gpu_layers, o->room_tok);
    st = pool_new(&bo.pool, o->n_thread, err);
    if (st)
        return st;
    st = backend_load(o->device, m, &bo, &b, err);
    if (st) {
        pool_free(bo.pool);
        return st;
    }
    return engine_with_backend(m, bo.pool, b, out, err);
}

cag_status engine_with_backend(const cag_model *m, struct pool *pool,
                               struct backend *b, cag_engine **out,
                               cag_error *err)
{
    cag_engine *e = mem_zalloc(sizeof *e);

    if (!e) {
        b->ops->free(b);
        pool_free(pool);
        return cag_fail_nomem(err, "engine");
    }
    e->model = m;
    e->pool = pool;
    e->backend = b;
    e->pass_rows = b->pass_rows;
    e->row = mem_alloc_array((size_t)b->max_row, sizeof *e->row);
    if (!e->row) {
        cag_engine_free(e);
        return cag_fail_nomem(err, "engine");
    }
    *out = e;
    return CAG_OK;
}

cag_status engine_scratch_bytes(const cag_model *m, const cag_engine_opts *o,
                                uint64_t *bytes, cag_error *err)
{
    struct backend_opts bo = { .pass_rows = o->pass_rows,
                               .precision = o->precision,
                               .kv_f32 = o->kv_f32 };
    int n_thread = o->n_thread > 0 ? o->n_thread : pool_default_size();

    return cpu_scratch_bytes(m, &bo, n_thread, bytes, err);
}

void cag_engine_free(cag_engine *e)
{
    if (!e)
        return;
    mem_free(e->row);
    mem_free(e->head);
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
    return e->backend->prompt_gemm;
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

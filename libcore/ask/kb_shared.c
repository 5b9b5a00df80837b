/*
 * kb_shared.c - see kb_shared.h.
 */
#include "ask/kb_shared.h"

#include <string.h>

#include "model/model.h"
#include "util/error.h"
#include "util/mem.h"

static bool same_id(const struct file_id *a, const struct file_id *b)
{
    return a->dev == b->dev && a->ino == b->ino &&
           a->size_bytes == b->size_bytes && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

/* Is what is mapped what stands at path now? */
static bool is_same_model(const struct kb_model *m, const char *path)
{
    if (strcmp(cag_model_get_info(m->model)->path, path) != 0)
        return false;
    for (int i = 0; i < m->model->n_file; i++) {
        struct file_id now;

        if (file_stat(m->model->file[i], &now, NULL) ||
            !same_id(&now, &m->id[i]))
            return false;
    }
    return true;
}

static cag_status open_model(const char *path, struct kb_model *m,
                             cag_error *err)
{
    cag_status st =
        cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m->model, err);

    if (st)
        return st;
    m->id = mem_alloc_array((size_t)m->model->n_file + 1, sizeof *m->id);
    if (!m->id)
        return cag_fail_nomem(err, "model");
    for (int i = 0; i < m->model->n_file && !st; i++)
        st = file_stat(m->model->file[i], &m->id[i], err);
    return st;
}

cag_status kb_model_get(const char *path, struct kb_model *with,
                        struct kb_model **out, cag_error *err)
{
    struct kb_model *m;
    cag_status st;

    if (with && is_same_model(with, path)) {
        with->n_ref++;
        *out = with;
        return CAG_OK;
    }
    m = mem_zalloc(sizeof *m);
    if (!m)
        return cag_fail_nomem(err, "model");
    m->n_ref = 1;
    st = open_model(path, m, err);
    if (st) {
        kb_model_release(m);
        return st;
    }
    *out = m;
    return CAG_OK;
}

void kb_model_release(struct kb_model *m)
{
    if (!m || --m->n_ref)
        return;
    cag_model_close(m->model);
    mem_free(m->id);
    mem_free(m);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Room that --gpu-layers auto left is room for caches up to that size. */
static bool same_opts(const cag_engine_opts *a, const cag_engine_opts *b)
{
    return same_text(a->device, b->device) && same_text(a->plugin, b->plugin) &&
           a->n_thread == b->n_thread && a->pass_rows == b->pass_rows &&
           a->precision == b->precision && a->kv_f32 == b->kv_f32 &&
           a->max_memory == b->max_memory && a->max_host == b->max_host &&
           a->gpu_layers == b->gpu_layers &&
           (a->gpu_layers != CAG_GPU_LAYERS_AUTO || a->room_tok >= b->room_tok);
}

/* Strings of options are borrowed for a call only. */
static bool keep_opts(struct kb_engine *e, const cag_engine_opts *o)
{
    e->opts = *o;
    e->opts.device = o->device ? mem_strdup(o->device) : NULL;
    e->opts.plugin = o->plugin ? mem_strdup(o->plugin) : NULL;
    return (!o->device || e->opts.device) && (!o->plugin || e->opts.plugin);
}

cag_status kb_engine_get(struct kb_model *m, const cag_engine_opts *o,
                         struct kb_engine *with, struct kb_engine **out,
                         bool *made, cag_error *err)
{
    struct kb_engine *e;
    cag_status st;

    *made = false;
    if (with && with->model == m && same_opts(&with->opts, o)) {
        with->n_ref++;
        *out = with;
        return CAG_OK;
    }
    e = mem_zalloc(sizeof *e);
    if (!e)
        return cag_fail_nomem(err, "engine");
    e->n_ref = 1;
    e->model = m;
    m->n_ref++;
    st = keep_opts(e, o) ? cag_engine_new(m->model, o, &e->engine, err)
                         : cag_fail_nomem(err, "engine");
    if (st) {
        kb_engine_release(e);
        return st;
    }
    *made = true;
    *out = e;
    return CAG_OK;
}

void kb_engine_release(struct kb_engine *e)
{
    if (!e || --e->n_ref)
        return;
    cag_engine_free(e->engine);
    mem_free((void *)(uintptr_t)e->opts.device);
    mem_free((void *)(uintptr_t)e->opts.plugin);
    kb_model_release(e->model);
    mem_free(e);
}

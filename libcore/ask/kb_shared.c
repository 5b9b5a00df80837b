/*
 * kb_shared.c - see kb_shared.h.
 */
#include "ask/kb_shared.h"

#include <string.h>

#include "engine/engine_options.h"
#include "model/model.h"
#include "util/error.h"
#include "util/mem.h"

/* Is what is mapped what stands at path now? */
static bool is_same_model(const struct kb_model *m, const char *path)
{
    if (strcmp(cag_model_get_info(m->model)->path, path) != 0)
        return false;
    for (int i = 0; i < m->model->n_file; i++) {
        struct file_id now;

        if (file_stat(m->model->file[i], &now, NULL) ||
            !file_id_same(&now, &m->id[i]))
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

/* Room that --gpu-layers auto left is room for caches up to that size. */
static bool same_opts(const cag_engine_opts *a, const cag_engine_opts *b)
{
    return engine_options_same(a, b) &&
           (a->gpu_layers != CAG_GPU_LAYERS_AUTO || a->room_tok >= b->room_tok);
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
    st = engine_options_copy(&e->opts, o, err);
    if (!st)
        st = cag_engine_new(m->model, o, &e->engine, err);
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
    engine_options_release(&e->opts);
    kb_model_release(e->model);
    mem_free(e);
}

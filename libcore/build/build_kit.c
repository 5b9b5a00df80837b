/*
 * build_kit.c - see build_kit.h.
 */
#include "build/build_kit.h"

#include <string.h>

#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

struct cag_build_kit {
    struct kit_parts parts;
};

cag_status cag_build_kit_new(cag_build_kit **out, cag_error *err)
{
    cag_build_kit *k = mem_zalloc(sizeof *k);

    if (!k)
        return cag_fail_nomem(err, "build kit");
    *out = k;
    return CAG_OK;
}

void cag_build_kit_free(cag_build_kit *k)
{
    if (!k)
        return;
    kit_release(&k->parts);
    mem_free(k);
}

void kit_drop_engine(struct kit_parts *p)
{
    cag_engine_free(p->engine);
    mem_free(p->device);
    mem_free(p->plugin);
    p->engine = NULL;
    p->device = p->plugin = NULL;
}

void kit_release(struct kit_parts *p)
{
    kit_drop_engine(p);
    cag_model_close(p->model);
    model_files_release(&p->files);
    mem_free(p->path);
    memset(p, 0, sizeof *p);
}

bool kit_take(cag_build_kit *k, const char *path, struct kit_parts *out)
{
    char *full = k && k->parts.model ? file_absolute(path) : NULL;
    bool same = full && !strcmp(k->parts.path, full) &&
                model_files_unchanged(&k->parts.files, path);

    memset(out, 0, sizeof *out);
    if (same) {
        *out = k->parts;
        memset(&k->parts, 0, sizeof k->parts);
    }
    mem_free(full);
    return same;
}

void kit_give(cag_build_kit *k, struct kit_parts *p)
{
    if (k && p->model && p->files.n) {
        kit_release(&k->parts);
        k->parts = *p;
        memset(p, 0, sizeof *p);
    } else {
        kit_release(p);
    }
}

cag_status kit_model(struct kit_parts *p, const char *path, unsigned flags,
                     const struct fingerprint_memory *mem, bool *made,
                     cag_error *err)
{
    cag_status st;

    *made = !p->model || (!(flags & CAG_MODEL_NO_TOKENIZER) &&
                          !cag_model_get_tokenizer(p->model));
    if (!*made)
        return CAG_OK;
    kit_drop_engine(p);
    cag_model_close(p->model);
    p->model = NULL;
    if (!p->path && !(p->path = file_absolute(path)))
        return cag_fail_nomem(err, "model path");
    st = cag_model_open(path, flags, &p->model, err);
    if (!st && !(flags & CAG_MODEL_NO_WEIGHTS))
        st = fingerprint_model(p->model, mem, &p->print, err);
    return st;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Would o give the engine that is there?  On a GPU what it has room for is a
 * part of the plan. */
static bool same_engine(const struct kit_parts *p, const cag_engine_opts *o)
{
    const cag_engine_opts *had = &p->opts;

    return p->engine && same_text(p->device, o->device) &&
           same_text(p->plugin, o->plugin) && had->n_thread == o->n_thread &&
           had->pass_rows == o->pass_rows && had->precision == o->precision &&
           had->kv_f32 == o->kv_f32 && had->max_memory == o->max_memory &&
           had->max_host == o->max_host && had->gpu_layers == o->gpu_layers &&
           (had->room_tok == o->room_tok ||
            strcmp(cag_engine_device(p->engine), "cpu") == 0);
}

cag_status kit_engine(struct kit_parts *p, const cag_engine_opts *o, bool *made,
                      cag_error *err)
{
    cag_status st = CAG_OK;

    *made = !same_engine(p, o);
    if (!*made)
        return CAG_OK;
    kit_drop_engine(p);
    if (o->device && !(p->device = mem_strdup(o->device)))
        st = cag_fail_nomem(err, "engine");
    if (!st && o->plugin && !(p->plugin = mem_strdup(o->plugin)))
        st = cag_fail_nomem(err, "engine");
    p->opts = *o;
    return st ? st : cag_engine_new(p->model, o, &p->engine, err);
}

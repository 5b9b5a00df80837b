/*
 * build_kit.c - see build_kit.h.
 */
#include "build/build_kit.h"

#include <string.h>

#include "engine/engine_options.h"
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
    p->engine = NULL;
    engine_options_release(&p->opts);
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

/* Would o give the engine that is there?  On a GPU what it has room for is a
 * part of the plan. */
static bool same_engine(const struct kit_parts *p, const cag_engine_opts *o)
{
    return p->engine && engine_options_same(&p->opts, o) &&
           (p->opts.room_tok == o->room_tok ||
            strcmp(cag_engine_device(p->engine), "cpu") == 0);
}

cag_status kit_engine(struct kit_parts *p, const cag_engine_opts *o, bool *made,
                      cag_error *err)
{
    cag_status st;

    *made = !same_engine(p, o);
    if (!*made)
        return CAG_OK;
    kit_drop_engine(p);
    st = engine_options_copy(&p->opts, o, err);
    return st ? st : cag_engine_new(p->model, o, &p->engine, err);
}

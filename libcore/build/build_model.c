/*
 * build_model.c - the model of a build: found, told by its digests, opened.
 *
 * A build that comes after another one of the same model takes it over from
 * there (build_kit.h).
 */
#include <string.h>

#include "build/build_job.h"
#include "kvc/kvc_read.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"
#include "util/note.h"

static bool old_has_model(const struct build_job *j)
{
    return j->old &&
           model_files_same(&j->kit.files,
                            jv_get(jv_get(kvc_meta(j->old), "model"), "files"));
}

cag_status build_job_find_model(struct build_job *j, cag_error *err)
{
    const cag_places *p = &j->o->places;
    cag_model_search search = { p->hf_hub, p->models };
    const char *spec = j->o->model ? j->o->model : p->model;
    cag_status st;

    if (!spec)
        return cag_fail(err, CAG_E_USAGE, NULL, -1,
                        "no model: give one with -m (a GGUF file, a model "
                        "directory or a hub id) or in CAG_MODEL");
    if (j->o->model_hub) {
        j->hub = j->o->model_hub;
        j->model_path = mem_strdup(spec);
        return j->model_path ? CAG_OK : cag_fail_nomem(err, "model path");
    }
    st = cag_model_find(spec, &search, &j->model_path, err);
    if (st)
        return st;
    j->hub = file_exists(spec) || strchr(spec, '/') == NULL ||
                     strcmp(spec, j->model_path) == 0
                 ? NULL
                 : spec;
    return CAG_OK;
}

/* What is no model is refused by its first bytes, not after minutes in which
 * all of them are hashed. */
static cag_status check_model(const char *path, cag_error *err)
{
    cag_model *m = NULL;
    cag_status st = cag_model_open(
        path, CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER, &m, err);

    cag_model_close(m);
    return st;
}

/* A refresh takes the model that is there now: the user should know. */
static void note_other_model(const struct build_job *j)
{
    const jv *was = jv_get(jv_get(kvc_meta(j->old), "model"), "files");
    char hex[2 * SHA256_SIZE + 1];

    hash_hex(j->kit.files.v[0].sha256, SHA256_SIZE, hex);
    note(&j->o->hooks, CAG_NOTE_WARN,
         "%s is another model than the cache was made with (SHA-256 %.16s..., "
         "was %.16s...): everything is computed with it",
         j->model_path, hex, jv_get_str(jv_at(was, 0), "sha256", "unknown"));
}

/* The tokenizer of an unchanged model is in the old cache, compiled. */
static const cag_tokenizer *old_tokenizer(const struct build_job *j)
{
    return old_has_model(j) && !kvc_check_trust(j->old, NULL)
               ? cag_kvc_tokenizer(j->old)
               : NULL;
}

/* Digests of the model's files, unless the kit has them. */
static cag_status list_files(struct build_job *j,
                             const struct fingerprint_memory *mem,
                             cag_error *err)
{
    cag_status st;

    if (kit_take(j->o->kit, j->model_path, &j->kit))
        return CAG_OK;
    st = check_model(j->model_path, err);
    return st ? st : model_files_list(j->model_path, mem, &j->kit.files, err);
}

cag_status build_job_open_model(struct build_job *j, bool with_weights,
                                cag_error *err)
{
    const cag_places *p = &j->o->places;
    cag_hooks hooks = j->o->hooks;
    struct fingerprint_memory mem = { .dir = p->cache_dir,
                                      .dir_ro = p->cache_dir_ro,
                                      .ignore = j->o->verify_full,
                                      .announce = note_hashing,
                                      .ctx = &hooks };
    unsigned flags = with_weights ? 0 : CAG_MODEL_NO_WEIGHTS;
    bool made;
    cag_status st = CAG_OK;

    /* a dry run reads no weights, not even to hash them */
    if (with_weights)
        st = list_files(j, &mem, err);
    if (st)
        return st;
    if (with_weights && j->o->texts && j->old && !old_has_model(j))
        note_other_model(j);
    j->tok = old_tokenizer(j);
    if (j->tok)
        flags |= CAG_MODEL_NO_TOKENIZER;
    st = kit_model(&j->kit, j->model_path, flags, &mem, &made, err);
    if (st)
        return st;
    j->model = j->kit.model;
    if (!j->tok)
        j->tok = cag_model_get_tokenizer(j->model);
    j->r->model_path = mem_strdup(j->model_path);
    if (j->o->kit)
        note(&hooks, CAG_NOTE_INFO, "%s: %s", j->model_path,
             made ? "opened" : "open already");
    return CAG_OK;
}

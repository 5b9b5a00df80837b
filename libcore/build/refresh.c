/*
 * refresh.c - rebuild a cache from what it records, with no other argument.
 *
 * Filters are not run: nothing recorded in a cache is ever executed.  What
 * they made of a file that did not change is in the cache.  Files are read:
 * those that the cache names, below its own directory unless the caller allows
 * more, and only where nobody else can have written the names.
 */
#include <string.h>
#include <sys/stat.h>

#include "kvc/kvc_read.h"
#include "kvc/kvc_member.h"
#include "build/checkpoint.h"
#include "binding/model_files.h"
#include "model/model_find.h"
#include "source/source_path.h"
#include "util/note.h"
#include "binding/record.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/trust.h"

/* The prompt's parts that were not the default then. */
static const char *custom(const jv *build, const char *part,
                          const char *recorded)
{
    return record_was_default(build, part) ? NULL : recorded;
}

static void take_template(const cag_kvc *k, const jv *build, cag_build_opts *b)
{
    const jv *t = jv_get(build, "template");
    const char *kind = jv_get_str(t, "kind", "model");

    if (!strcmp(kind, "builtin"))
        b->chat_template = jv_get_str(t, "name", NULL);
    else if (!strcmp(kind, "text"))
        b->chat_template_text = jv_get_str(kvc_prmt(k), "template", NULL);
}

/* The model of the recorded hub id, in the hub's cache only, or at the
 * recorded place, whatever it is now: a new one is a reason to rebuild.
 * Elsewhere only the very same one will do. */
static cag_status find_model(const cag_kvc *k, const char *dir,
                             cag_build_opts *b, char **path, cag_error *err)
{
    struct fingerprint_memory mem = { .dir = b->places.cache_dir,
                                      .dir_ro = b->places.cache_dir_ro,
                                      .ignore = b->verify_full,
                                      .announce = note_hashing,
                                      .ctx = &b->hooks };
    const char *hub = cag_kvc_get_info(k)->model_hub;
    cag_error why = CAG_ERROR_INIT;
    cag_status st;

    if (hub && model_find_hub(hub, b->places.hf_hub, path, NULL) == CAG_OK) {
        b->model_hub = hub;
        return CAG_OK;
    }
    st = model_files_recorded(k, dir, &b->places, path, &why);
    if (st == CAG_E_MISSING)
        st = model_files_locate(k, NULL, &b->places, &mem, path, err);
    else if (st)
        cag_error_copy(err, &why);
    return st;
}

/* What a cache names is read because its owner wrote it there: only the
 * caller's own word, or root's, is taken for that. */
static cag_status check_owner(const char *path, const cag_build_opts *b,
                              cag_error *err)
{
    struct stat sb;

    if (b->force || stat(path, &sb) != 0)
        return CAG_OK; /* what cannot be seen is said by who opens it */
    if (!trust_owner(&sb))
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "belongs to another user, who chose what a refresh "
                        "would read; --force refreshes it nevertheless");
    if (sb.st_mode & S_IWOTH)
        return cag_fail(err, CAG_E_USAGE, path, -1,
                        "can be written by everybody, who would choose what a "
                        "refresh reads; chmod o-w, or --force");
    return CAG_OK;
}

/* The recorded limit of a lossy codec, where the caller names no other. */
static void take_max_loss(const jv *build, cag_build_opts *b)
{
    const char *hex = jv_get_str(build, "max_loss", "");
    float x;

    if (b->max_loss < 0 && kvc_f32_unhex(hex, &x) && x >= 0)
        b->max_loss = (double)x;
}

static void take_calibrate(const jv *build, cag_build_opts *b)
{
    const char *was = jv_get_str(build, "calibrate", "auto"), *name;

    for (int i = 0; (name = cag_calibrate_name(i)) != NULL; i++)
        if (!strcmp(name, was))
            b->calibrate = (cag_calibrate)i;
}

/* What was a file may have become a pipe, which would be waited for. */
static cag_status check_kinds(const cag_source_spec *spec, int n,
                              cag_error *err)
{
    struct stat s;

    for (int i = 0; i < n; i++)
        if (!spec[i].is_glob && stat(spec[i].path, &s) == 0 &&
            !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
            return cag_fail(err, CAG_E_MISSING, spec[i].path, -1,
                            "was a file and is now a pipe or a device, so it "
                            "is not read; run the cag-build that is meant");
    return CAG_OK;
}

static cag_status take_all(const cag_kvc *k, const char *path,
                           const char *below, cag_build_opts *b,
                           struct arena *a, char **model, cag_error *err)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    const jv *build = jv_get(kvc_meta(k), "build");
    cag_source_spec *spec;
    int n_spec, n_stream;
    cag_status st = record_specs(k, a, &spec, &n_spec, &n_stream, err);
    if (!st)
        st = record_patterns(k, "include", a, &b->include, err);
    if (!st)
        st = record_patterns(k, "exclude", a, &b->exclude, err);
    if (!st)
        st = check_kinds(spec, n_spec, err);
    if (!st && n_stream)
        st = cag_fail(err, CAG_E_MISSING, path, -1,
                      "cannot be refreshed: %d of its sources came from a "
                      "pipe; run the cag-build that made it",
                      n_stream);
    if (!st && !b->model)
        st = find_model(k, below, b, model, err);
    if (st)
        return st;
    if (!b->model)
        b->model = *model;
    b->output = path;
    b->below = b->allow_outside ? NULL : below;
    b->source = spec;
    b->n_source = n_spec;
    b->texts = k;
    b->system = custom(build, "system", i->system);
    b->label = custom(build, "label", i->label);
    b->refusal = custom(build, "refusal", i->refusal);
    b->acknowledgement = custom(build, "acknowledgement", i->acknowledgement);
    b->drop_front_matter = jv_get_bool(build, "drop_front_matter", false);
    b->n_ctx = i->n_ctx;
    b->reserve = i->reserve;
    b->codec = i->codec;
    b->engine.precision = cag_precision_of(i->precision);
    take_max_loss(build, b);
    take_calibrate(build, b);
    take_template(k, build, b);
    return CAG_OK;
}

cag_status cag_refresh(const char *path, const cag_build_opts *given,
                       cag_build_report *r, cag_error *err)
{
    cag_build_opts b;
    struct arena a = { NULL };
    char *model = NULL, *dir = NULL;
    cag_kvc *k;
    cag_status st = build_job_opts(&b, given, r, err);

    if (!st)
        st = check_owner(path, &b, err);
    if (!st)
        st = cag_kvc_open(path, &k, err);
    if (st)
        return st;
    st = kvc_refuse_checkpoint(k, err);
    dir = source_dir_of(path);
    if (!st && !dir)
        st = cag_fail_nomem(err, "path");
    if (!st)
        st = take_all(k, path, dir, &b, &a, &model, err);
    if (!st)
        st = cag_build(&b, r, err);
    mem_free(dir);
    mem_free(model);
    arena_release(&a);
    cag_kvc_close(k);
    return st;
}

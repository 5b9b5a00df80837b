/*
 * check_report.c - see check_report.h.
 */
#include "cmd/cli/check_report.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/ui.h"

static void json_check(const char *path, const char *state,
                       const cag_check_report *r, const char *build,
                       const cag_error *err)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_str(&j, "file", path);
    ui_json_str(&j, "state", state);
    ui_json_int(&j, "sources", r->n_source);
    ui_json_int(&j, "sources_unseen", r->n_unseen);
    ui_json_bool(&j, "model_seen", r->model_seen);
    ui_json_array(&j, "reasons");
    for (int i = 0; i < r->n_reason; i++)
        ui_json_str(&j, NULL, r->reason[i]);
    ui_json_end(&j);
    ui_json_array(&j, "unseen");
    for (int i = 0; i < r->n_unseen; i++)
        ui_json_str(&j, NULL, r->unseen[i]);
    ui_json_end(&j);
    ui_json_str(&j, "rebuild", build);
    ui_json_str(&j, "error", err->status ? err->msg : NULL);
    ui_json_end(&j);
}

int report_worse(int a, int b)
{
    if (!a || (b && b != UI_NOINPUT && (a == UI_NOINPUT || a == UI_NO)))
        return b;
    return a;
}

/* What to do about sources that cannot be seen. */
static void next_step(const cag_kvc *k)
{
    const cag_kvc_info *i = cag_kvc_get_info(k);
    int n_pipe = 0;

    for (int n = 0; n < i->n_source; n++)
        n_pipe += !cag_kvc_get_source(k, n)->path;
    if (n_pipe < i->n_source)
        ui_note("sources are looked for where the cache records them, from "
                "its own directory on (cag-inspect --sources lists them): put "
                "them there, or build the cache again from where they are");
    if (n_pipe)
        ui_note("what came from a pipe cannot be looked at again: build the "
                "cache again when it may have changed");
}

/* Put out what a check found; k: the cache, or NULL where it was not opened;
 * build: what rebuilds it. */
static int put_check(const char *path, cag_status st, const cag_kvc *k,
                     const cag_check_report *r, const char *build,
                     const cag_error *err, bool json)
{
    bool opened = k != NULL;

    ui_progress_end();
    if (json)
        json_check(path,
                   !st                             ? "fresh"
                   : st == CAG_E_STALE             ? "stale"
                   : st == CAG_E_MISSING && opened ? "unseen"
                   : st == CAG_E_MISSING           ? "missing"
                   : st == CAG_E_CORRUPT           ? "damaged"
                                                   : "unusable",
                   r, build, err);
    for (int i = 0; i < r->n_reason; i++)
        ui_note("%s: stale: %s", ui_clean(path), ui_clean(r->reason[i]));
    for (int i = 0; i < r->n_unseen; i++)
        ui_note("%s: not seen: %s", ui_clean(path), ui_clean(r->unseen[i]));
    if (r->model_unseen)
        ui_note("%s: not seen: %s", ui_clean(path), ui_clean(r->model_unseen));
    if (r->n_unseen && k)
        next_step(k);
    if (st == CAG_E_STALE && build)
        ui_note("rebuild: %s", build);
    if (!st)
        ui_verbose(isatty(2) ? 0 : 1, "%s: fresh", ui_clean(path));
    return !st ? UI_OK
           : st == CAG_E_STALE || (st == CAG_E_MISSING && opened)
               ? ui_exit_code(st)
               : ui_error(err);
}

int report_check(const char *path, const cag_places *places, bool verify_full,
                 bool json)
{
    cag_hooks hooks = places_hooks();
    cag_check_report r = { 0 };
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *k = NULL;
    cag_status st = cag_kvc_open(path, &k, &err);
    int status;

    if (!st)
        st = cag_check(k, places, &hooks, verify_full, &r, &err);
    status = put_check(path, st, k, &r, r.rebuild, &err, json);
    cag_check_report_release(&r);
    cag_kvc_close(k);
    return status;
}

void report_way_out(const char *path)
{
    cag_check_report r = { 0 };
    cag_kvc *k = NULL;

    if (!cag_kvc_open(path, &k, NULL) &&
        cag_check(k, places_get(), NULL, false, &r, NULL) == CAG_E_STALE &&
        !strstr(r.rebuild, " --refresh "))
        ui_note("%s: rebuild: %s", ui_clean(path), r.rebuild);
    cag_check_report_release(&r);
    cag_kvc_close(k);
}

int report_check_build(const cag_build_opts *b, const char *manifest, bool json)
{
    cag_check_report r = { 0 };
    cag_error err = CAG_ERROR_INIT;
    cag_status st = cag_build_check(b, &r, &err);
    char build[PATH_MAX];
    int status;

    snprintf(build, sizeof build, "cag-build --manifest %s", manifest);
    status = put_check(b->output, st, NULL, &r, build, &err, json);
    cag_check_report_release(&r);
    return status;
}

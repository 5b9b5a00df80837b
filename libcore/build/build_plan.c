/*
 * build_plan.c - what a build would do: its size and time, and whether the
 * cache that is there already is what it would write.
 */
#include <string.h>

#include "build/build_estimate.h"
#include "build/build_guard.h"
#include "build/build_job.h"
#include "engine/engine_rate.h"
#include "kvc/kvc_read.h"
#include "kvc/kvc_write.h"
#include "util/error.h"
#include "util/file.h"
#include "util/mem.h"

/*
 * Is the model that of the old cache, by what is seen without reading its
 * weights: the sizes of its files?
 */
static bool same_sizes(const struct build_job *j)
{
    const jv *list = jv_get(jv_get(kvc_meta(j->old), "model"), "files");
    bool is_dir = file_is_dir(j->model_path);
    bool same = is_dir ? jv_count(list) > 0
                       : jv_count(list) == (size_t)j->model->n_file;

    for (size_t i = 0; same && i < jv_count(list); i++) {
        const jv *o = jv_at(list, i);
        char *path = is_dir
                         ? file_join(j->model_path, jv_get_str(o, "name", ""))
                         : mem_strdup(j->model->file[i]);
        struct file_id id;

        same = path && file_stat(path, &id, NULL) == CAG_OK &&
               (int64_t)id.size_bytes == jv_get_int(o, "size_bytes", -1);
        mem_free(path);
    }
    return same;
}

/* Tokens that a build would keep from the cache that is there. */
static int64_t would_keep(const struct build_job *j)
{
    const cag_kvc_info *old = cag_kvc_get_info(j->old);
    const struct kvc_shape *s = kvc_get_shape(j->old);
    size_t n_old, n = 0;
    const int32_t *ids = cag_kvc_ids(j->old, &n_old);

    if (j->o->force || j->old_damaged || kvc_is_q8h(s) ||
        kvc_check_trust(j->old, NULL) || s->kv_class != j->exact.kv_class ||
        s->n_layer != j->exact.n_layer || s->n_kv_head != j->exact.n_kv_head ||
        s->d_head != j->exact.d_head ||
        strcmp(old->precision, cag_precision_name(j->o->engine.precision)) ||
        !same_sizes(j))
        return 0;
    while (n < n_old && n < j->ids.n && ids[n] == j->ids.id[n])
        n++;
    return (int64_t)n;
}

cag_status cag_build_plan(const cag_build_opts *given, cag_build_report *r,
                          cag_error *err)
{
    cag_build_opts own, *o = &own;
    struct build_job j;
    double rate = 0;
    cag_status st = build_job_opts(o, given, r, err);

    if (st)
        return st;
    st = build_job_begin(&j, o, r, err);
    if (!st)
        st = build_guard(&j, err);
    if (!st && j.no_write.status)
        st = cag_error_copy(err, &j.no_write);
    if (!st)
        st = build_job_prepare(&j, false, err);
    if (!st) {
        struct kvc_desc d = { .shape = j.shape, .codec = j.codec };

        r->file_bytes = kvc_size_bound(&d);
        r->has_old = j.old != NULL;
        r->n_tok_kept = j.old ? would_keep(&j) : 0;
        st = engine_rate(o->engine.n_thread, &rate, err);
    }
    if (!st) {
        r->about_s =
            estimate_work(&j.model->config, r->n_tok_kept, r->n_tok) / rate;
        st = costly_lines(&j, err);
    } else if (st == CAG_E_LIMIT) {
        cag_error none = CAG_ERROR_INIT;

        costly_lines(&j, &none); /* that it does not fit is the answer */
    }
    build_job_release(&j);
    return st;
}

static cag_status add_reason(void *ctx, const char *what, const char *why,
                             cag_error *err)
{
    cag_check_report *r = ctx;
    char **grown =
        mem_realloc(r->reason, (size_t)(r->n_reason + 1) * sizeof *grown);
    struct buf b = BUF_INIT;
    char *line;

    if (!grown)
        return cag_fail_nomem(err, "check report");
    r->reason = grown;
    buf_printf(&b, "%s: %s", what, why);
    line = buf_detach(&b, NULL);
    if (!line)
        return cag_fail_nomem(err, "check report");
    grown[r->n_reason++] = line;
    return CAG_OK;
}

cag_status cag_build_check(const cag_build_opts *given, cag_check_report *r,
                           cag_error *err)
{
    cag_build_opts own, *o = &own;
    cag_build_report unused;
    struct build_job j;
    bool fresh = false;
    cag_status st;

    memset(r, 0, sizeof *r);
    st = build_job_opts(o, given, &unused, err);
    if (st)
        return st;
    st = build_job_begin(&j, o, &unused, err);
    if (!st)
        st = build_guard(&j, err);
    if (!st)
        st = build_job_prepare(&j, true, err);
    r->n_source = j.src.n;
    r->model_seen = !st;
    if (!st && !j.old)
        st = cag_fail(err, CAG_E_MISSING, o->output, -1, "is not built yet");
    if (!st)
        st = build_job_records(&j, err);
    if (!st && j.old_damaged)
        st = add_reason(r, o->output, "is damaged", err);
    else if (!st)
        st = build_job_is_fresh(&j, &fresh, err);
    if (!st && !fresh && !j.old_damaged)
        st = build_job_reasons(&j, add_reason, r, err);
    if (!st && !fresh)
        st = cag_fail(err, CAG_E_STALE, o->output, -1, "stale: %s%s",
                      r->n_reason ? r->reason[0] : "the build is another",
                      r->n_reason > 1 ? " (and more)" : "");
    build_job_release(&j);
    cag_build_report_release(&unused);
    return st;
}

/*
 * build_null.c - cag-build --questions: what follows the build.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <cag/tool/calibrate.h>

#include "cmd/build/build_opts.h"
#include "cmd/build/build_report.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/ui.h"

int build_null_check(void)
{
    /* not read here: it may be a pipe */
    return access(cli.questions, R_OK)
               ? ui_fail(CAG_E_MISSING, cli.questions, "cannot read: %s",
                         strerror(errno))
               : UI_OK;
}

int build_null(const cag_build_opts *b)
{
    cag_error err = CAG_ERROR_INIT;
    cag_calibrate_report r;
    cag_kb_opts o;
    char took[UI_TEXT];
    cag_status st;

    cag_kb_opts_init(&o);
    o.model = b->model;
    o.stale = CAG_STALE_IGNORE; /* it was built just now */
    o.engine = b->engine;
    o.engine.precision = CAG_PRECISION_AUTO; /* the cache's */
    o.places = b->places;
    o.hooks = b->hooks;
    ui_catch(false);
    st = cag_calibrate_null(b->output, &o, cli.questions, b->lock_timeout_s, &r,
                            &err);
    ui_progress_end();
    if (st)
        return ui_error(&err);
    if (!r.fresh && r.n_answerable)
        ui_note("%s: of %d questions with answers right: %d at first, %d "
                "masked, %d read again",
                ui_clean(b->output), r.n_answerable, r.n_whole, r.n_mask,
                r.n_reread);
    if (!r.fresh)
        ui_note("%s: null %.3g of %d questions; %s", ui_clean(b->output),
                (double)r.null, r.n_question, ui_duration(took, r.seconds));
    return UI_OK;
}

bool build_has_null(const char *path)
{
    const cag_kvc_attention *a;
    cag_kvc *k = NULL;
    bool has;

    if (cag_kvc_open(path, &k, NULL))
        return false;
    a = cag_kvc_get_attention(k);
    has = a && a->has_null;
    cag_kvc_close(k);
    return has;
}

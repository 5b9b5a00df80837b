/*
 * bench_job.c - what every measurement asks of the run it belongs to.
 */
#include "bench/bench.h"
#include "util/error.h"
#include "util/note.h"

/* Tokens of a pass that takes long enough to be followed. */
enum { LONG = 1024 };

cag_status bench_cancelled(struct bench_job *j, const char *what,
                           cag_error *err)
{
    j->phase = what;
    if (!note_progress(&j->o->hooks, what, CAG_UNIT_NONE, 0, 0))
        return cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    return CAG_OK;
}

/* What a measurement does inside is short: its name stands, and does not
 * flicker. */
static bool on_progress(void *ctx, const cag_progress *p)
{
    const struct bench_job *j = ctx;

    if (!j->phase || (p->unit == CAG_UNIT_TOKENS && p->total >= LONG))
        return note_progress(&j->o->hooks, p->what, p->unit, p->done, p->total);
    return note_progress(&j->o->hooks, j->phase, CAG_UNIT_NONE, 0, 0);
}

void bench_kb_opts(struct bench_job *j, bool no_cache, cag_kb_opts *o)
{
    cag_kb_opts_init(o);
    o->model = j->model ? j->model : j->o->model;
    o->stale = CAG_STALE_WARN; /* checked as always, but no obstacle */
    o->no_cache = no_cache;
    o->engine = j->o->engine;
    o->places = j->o->places;
    o->hooks.progress = on_progress;
    o->hooks.ctx = j;
}

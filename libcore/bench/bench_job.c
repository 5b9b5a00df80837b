/*
 * bench_job.c - what every measurement asks of the run it belongs to.
 */
#include "bench/bench.h"
#include "util/error.h"
#include "util/note.h"

cag_status bench_cancelled(const struct bench_job *j, const char *what,
                           cag_error *err)
{
    if (!note_progress(&j->o->hooks, what, CAG_UNIT_NONE, 0, 0))
        return cag_fail(err, CAG_E_CANCELLED, NULL, -1, "cancelled");
    return CAG_OK;
}

void bench_kb_opts(const struct bench_job *j, bool no_cache, cag_kb_opts *o)
{
    cag_kb_opts_init(o);
    o->model = j->model ? j->model : j->o->model;
    o->stale = CAG_STALE_WARN; /* checked as always, but no obstacle */
    o->no_cache = no_cache;
    o->engine = j->o->engine;
    o->places = j->o->places;
    o->hooks.progress = j->o->hooks.progress;
    o->hooks.ctx = j->o->hooks.ctx;
}

/*
 * engine_opts.c - see engine_opts.h.
 */
#include "cmd/cli/engine_opts.h"

#include <cag/backend.h>

#include "cmd/cli/places.h"

const char *engine_precision_auto(int i)
{
    return cag_precision_name((cag_precision)i);
}

const char *engine_precision(int i)
{
    return i < CAG_PRECISION_AUTO ? engine_precision_auto(i) : NULL;
}

void engine_opts_fill(const struct engine_cli *e, cag_engine_opts *out)
{
    out->device = e->device;
    out->plugin = places_plugin();
    out->n_thread = e->n_thread;
    out->precision = (cag_precision)e->precision;
    if (e->gpu_layers && !cag_gpu_layers_of(e->gpu_layers, &out->gpu_layers))
        opt_fail("--gpu-layers is '%s', expected all, auto or a number from 1 "
                 "on (for none: --device cpu)",
                 ui_clean(e->gpu_layers));
}

void engine_opts_show(const struct engine_cli *e)
{
    opt_show(&e->n_thread, "processors");
    opt_show(&e->device, "auto");
    opt_show(&e->gpu_layers, "all");
}

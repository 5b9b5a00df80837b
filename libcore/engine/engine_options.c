/*
 * engine_options.c - see engine_options.h.
 */
#include "engine/engine_options.h"

#include <string.h>

#include "util/error.h"
#include "util/mem.h"

cag_status engine_options_copy(cag_engine_opts *to, const cag_engine_opts *o,
                               cag_error *err)
{
    *to = *o;
    to->device = o->device ? mem_strdup(o->device) : NULL;
    to->plugin = o->plugin ? mem_strdup(o->plugin) : NULL;
    return (o->device && !to->device) || (o->plugin && !to->plugin)
               ? cag_fail_nomem(err, "engine")
               : CAG_OK;
}

void engine_options_release(cag_engine_opts *o)
{
    mem_free((void *)(uintptr_t)o->device);
    mem_free((void *)(uintptr_t)o->plugin);
    memset(o, 0, sizeof *o);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

bool engine_options_same(const cag_engine_opts *a, const cag_engine_opts *b)
{
    return same_text(a->device, b->device) && same_text(a->plugin, b->plugin) &&
           a->n_thread == b->n_thread && a->pass_rows == b->pass_rows &&
           a->precision == b->precision && a->kv_f32 == b->kv_f32 &&
           a->max_memory == b->max_memory && a->max_host == b->max_host &&
           a->gpu_layers == b->gpu_layers;
}

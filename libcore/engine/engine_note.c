/*
 * engine_note.c - see engine_note.h.
 */
#include "engine/engine_note.h"

#include <string.h>

#include "util/note.h"

void engine_note(const cag_hooks *h, const cag_engine *e, cag_precision asked)
{
    bool warn;
    const char *text = cag_engine_note(e, &warn);

    note(h, warn ? CAG_NOTE_WARN : CAG_NOTE_DETAIL, "%s", text);
    if ((asked != CAG_PRECISION_FAST && asked != CAG_PRECISION_FAST8) ||
        strcmp(cag_engine_device(e), "cpu"))
        return;
    if (strcmp(cag_engine_products(e), "f32"))
        note(h, CAG_NOTE_INFO, "--precision %s: prompts by %s (%s)",
             cag_precision_name(asked), cag_engine_products(e),
             cag_engine_numerics(e));
    else
        note(h, CAG_NOTE_WARN,
             "--precision %s: nothing is faster for this "
             "model on this CPU (kernels %s); computing as by default",
             cag_precision_name(asked), cag_engine_kernels(e));
}

/*
 * build_hint.c - see build_hint.h.
 *
 * Only a person at a terminal is told, ten seconds into a prefill that is not
 * half done: a script has made its choice, and a short wait is no reason to
 * change the numbers.
 */
#include "cmd/build/build_hint.h"

#include <cag/tool/names.h>
#include <string.h>

#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

static cag_progress_fn inner;
static double start_s; /* of the prefill; 0: not yet */
static bool told;

static bool on_progress(void *ctx, const cag_progress *p)
{
    const char *how;

    if (!strcmp(p->what, "prefill") && !told) {
        if (start_s <= 0)
            start_s = ui_now();
        if (ui_now() - start_s >= 10) {
            told = true;
            how = p->done < p->total / 2 ? cag_fast_how() : NULL;
            if (how && ui_stderr_is_smart())
                ui_note("--precision fast takes less time on this CPU (%s); "
                        "keys and values differ in the third digit then",
                        how);
        }
    }
    return inner(ctx, p);
}

void build_hint(cag_hooks *h)
{
    inner = h->progress;
    h->progress = on_progress;
}

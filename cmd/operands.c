/*
 * operands.c - see operands.h.
 */
#include "cmd/operands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/opt.h"
#include "cmd/ui.h"

static bool add(struct operands *o, const char *path, const char *title)
{
    cag_source_spec *v = realloc(o->spec, (size_t)(o->n + 1) * sizeof *v);

    if (!v)
        return false;
    o->spec = v;
    v += o->n++;
    memset(v, 0, sizeof *v);
    v->path = path;
    v->title = title;
    return true;
}

static int read_list(struct operands *o, const char *files0,
                     const char *title)
{
    cag_error err = CAG_ERROR_INIT;
    size_t n;

    if (cag_read_file(files0, &o->list, &n, &err))
        return ui_error(&err);
    for (size_t i = 0; i < n; i += strlen(o->list + i) + 1) {
        if (!o->list[i])
            return ui_fail(CAG_E_FORMAT, files0, "an empty name in the list; "
                           "names are separated by one NUL byte");
        if (!add(o, o->list + i, title))
            return ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    return UI_OK;
}

int operands_read(char **word, const char *files0, const char *title,
                  struct operands *out)
{
    int status = UI_OK;

    memset(out, 0, sizeof *out);
    for (; *word && !status; word++) {
        if (!**word)
            opt_fail("an empty word where a source is expected");
        if (!add(out, *word, title))
            status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    if (!status && files0)
        status = read_list(out, files0, title);
    if (status)
        operands_release(out);
    return status;
}

void operands_release(struct operands *o)
{
    free(o->spec);
    cag_free(o->list);
    memset(o, 0, sizeof *o);
}

bool operand_date(const char *s, int64_t *seconds)
{
    struct tm tm = { 0 };
    const char *end = strptime(s, "%Y-%m-%d", &tm);

    if (!end || *end || strlen(s) != 10)
        return false;
    *seconds = (int64_t)timegm(&tm);
    return *seconds >= 0;
}

bool operand_mode(const char *s, int *mode)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(s, &end, 8);
    if (errno || end == s || *end || v < 0 || v > 0777)
        return false;
    *mode = (int)v;
    return true;
}

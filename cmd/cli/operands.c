/*
 * operands.c - see operands.h.
 */
#include "cmd/cli/operands.h"

#include <cag/tool/text_file.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cmd/cli/opt.h"
#include "cmd/cli/ui.h"

static bool add(struct operands *o, const char *path)
{
    cag_source_spec *v = realloc(o->spec, (size_t)(o->n + 1) * sizeof *v);

    if (!v)
        return false;
    o->spec = v;
    v += o->n++;
    memset(v, 0, sizeof *v);
    v->path = path;
    return true;
}

/* A source without a name of its own: '-', a pipe, a device. */
static bool is_nameless(const char *path)
{
    struct stat sb;

    return !strcmp(path, "-") || (stat(path, &sb) == 0 &&
                                  !S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode));
}

/* The title is for the one nameless source, or for the only one. */
static void set_title(struct operands *o, const char *title)
{
    cag_source_spec *only = o->n == 1 ? &o->spec[0] : NULL;
    int n = 0;

    for (int i = 0; i < o->n; i++)
        if (is_nameless(o->spec[i].path)) {
            only = &o->spec[i];
            n++;
        }
    if (!only || n > 1)
        opt_fail("--title names one source, and here it could be any of %d; "
                 "a manifest gives each its title",
                 n ? n : o->n);
    only->title = title;
}

static int read_list(struct operands *o, const char *files0)
{
    cag_error err = CAG_ERROR_INIT;
    size_t n;

    if (cag_read_file(files0, &o->list, &n, &err))
        return ui_error(&err);
    for (size_t i = 0; i < n; i += strlen(o->list + i) + 1) {
        if (!o->list[i])
            return ui_fail(CAG_E_FORMAT, files0,
                           "an empty name in the list; "
                           "names are separated by one NUL byte");
        if (!add(o, o->list + i))
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
        if (!add(out, *word))
            status = ui_fail(CAG_E_NOMEM, NULL, "out of memory");
    }
    if (!status && files0)
        status = read_list(out, files0);
    if (status)
        operands_release(out);
    else if (title && out->n)
        set_title(out, title);
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

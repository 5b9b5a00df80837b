/*
 * ask_log.c - --log: an answer a line, with when and from which cache.
 */
#include <cag/tool/text_file.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/ask/ask_common.h"
#include "cmd/cli/ui.h"

/* {"time":...,"cache":..., and what the row has after its brace; heap. */
static char *log_line(const cag_kb *kb, const char *row, size_t n, size_t *size)
{
    const char *cache = cag_kvc_get_info(cag_kb_get_kvc(kb))->path;
    char *whole = realpath(cache, NULL), *line = NULL;
    char when[32] = "";
    time_t now = time(NULL);
    struct tm t;
    struct ui_json j;
    FILE *f = open_memstream(&line, size);

    if (f) {
        if (gmtime_r(&now, &t))
            strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &t);
        ui_json_start(&j, f);
        ui_json_object(&j, NULL);
        ui_json_str(&j, "time", when);
        ui_json_str(&j, "cache", whole ? whole : cache);
        /* the object goes on with the members of the row */
        putc(',', f);
        ui_put_json(f, row + 1, n - 1);
        putc('\n', f);
        if (fclose(f) != 0) {
            free(line);
            line = NULL;
        }
    }
    free(whole);
    return line;
}

int ask_log(const char *path, const cag_kb *kb, const char *row, size_t n)
{
    cag_error err = CAG_ERROR_INIT;
    int fd;

    if (cag_open_output(path, true, true, &fd, &err))
        return ui_error(&err);
    size_t size = 0;
    char *line = log_line(kb, row, n, &size);
    /* one write, so that lines of two processes never mix */
    bool ok = line && write(fd, line, size) == (ssize_t)size;

    if (!ok)
        ui_fail(CAG_E_IO, path, "cannot write the log: %s", strerror(errno));
    free(line);
    close(fd);
    return ok ? UI_OK : UI_IOERR;
}

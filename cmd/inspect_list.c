/*
 * inspect_list.c - cag-inspect -l: one line per cache below directories.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/build_report.h"
#include "cmd/inspect_report.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

static const char *state(const cag_kvc *k, const cag_places *places)
{
    cag_hooks hooks = places_hooks();
    cag_check_report r;
    cag_status st = cag_check(k, places, &hooks, false, &r, NULL);

    cag_check_report_release(&r);
    return !st                   ? "fresh"
           : st == CAG_E_STALE   ? "stale"
           : st == CAG_E_MISSING ? "unseen"
                                 : "unusable";
}

static int list_one(const char *path, const cag_places *places, bool json)
{
    cag_error err = CAG_ERROR_INIT;
    char size[UI_TEXT], age[UI_TEXT];
    const cag_kvc_info *i;
    struct stat sb;
    cag_kvc *k;
    double seconds = 0;

    if (cag_kvc_open(path, &k, &err))
        return ui_error(&err);
    i = cag_kvc_get_info(k);
    if (stat(path, &sb) == 0)
        seconds = (double)(places_now() - (int64_t)sb.st_mtime);
    if (json) {
        struct ui_json j;

        ui_json_start(&j, stdout);
        ui_json_object(&j, NULL);
        ui_json_int(&j, "schema", 1);
        ui_json_str(&j, "file", path);
        ui_json_str(&j, "model", i->model_name);
        ui_json_int(&j, "tokens", i->n_tok);
        ui_json_uint(&j, "bytes", i->size_bytes);
        ui_json_double(&j, "age_seconds", seconds);
        ui_json_str(&j, "state", state(k, places));
        ui_json_str(&j, "content_id", i->content_id);
        ui_json_end(&j);
    } else {
        printf("%-8s %7lld tokens  %10s  %8s  %s  %s\n", state(k, places),
               (long long)i->n_tok, ui_size(size, i->size_bytes),
               ui_duration(age, seconds), ui_clean(path),
               ui_clean(i->model_name));
    }
    cag_kvc_close(k);
    return UI_OK;
}

static int is_cache(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return e->d_name[0] != '.' && n > 4 && !strcmp(e->d_name + n - 4, ".kvc");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int inspect_list(char **word, const cag_places *places, bool json)
{
    static char here[] = ".", *only[] = { here, NULL };
    int status = UI_OK;

    for (char **w = word[0] ? word : only; *w; w++) {
        struct dirent **e;
        struct stat sb;
        int n;

        if (stat(*w, &sb) == 0 && !S_ISDIR(sb.st_mode)) {
            status = report_worse(status, list_one(*w, places, json));
            continue;
        }
        n = scandir(*w, &e, is_cache, by_bytes);
        if (n < 0) {
            int s = ui_fail(CAG_E_MISSING, *w, "cannot read directory: %s",
                            strerror(errno));

            status = report_worse(status, s);
            continue;
        }
        for (int i = 0; i < n; i++) {
            char *path;

            if (asprintf(&path, "%s/%s", *w, e[i]->d_name) >= 0) {
                status = report_worse(status, list_one(path, places, json));
                free(path);
            }
            free(e[i]);
        }
        free(e);
    }
    return status;
}

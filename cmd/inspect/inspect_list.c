/*
 * inspect_list.c - cag-inspect -l: one line per cache below directories.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cli/check_report.h"
#include "cmd/inspect/inspect_report.h"
#include "cmd/cli/places.h"
#include "cmd/cli/model_words.h"
#include "cmd/cli/ui_wrap.h"

enum { FRESH, STALE, UNSEEN, UNUSABLE, N_STATE };
static const char *const state_names[] = { "fresh", "stale", "unseen",
                                           "unusable" };

/* What the list adds up to. */
struct sums {
    int n_state[N_STATE];
    int64_t n_tok;
    uint64_t bytes;
    bool headed;
};

static int state(const cag_kvc *k, const cag_places *places)
{
    cag_hooks hooks = places_hooks();
    cag_check_report r;
    cag_status st = cag_check(k, places, &hooks, false, &r, NULL);

    cag_check_report_release(&r);
    return !st                   ? FRESH
           : st == CAG_E_STALE   ? STALE
           : st == CAG_E_MISSING ? UNSEEN
                                 : UNUSABLE;
}

/* Columns are as wide as what usually stands in them; a name may be long, so
 * it comes last but one, and the model, which may hold blanks, last.  What a
 * terminal has no room for goes to the next line. */
static void list_line(struct sums *sum, const char *path, const cag_kvc_info *i,
                      int is, double age)
{
    char size[UI_TEXT], t[UI_TEXT];

    if (!sum->headed && !ui.quiet)
        ui_printf(stdout, 4, "%-8s %8s %10s %8s  %s\n", "state", "tokens",
                  "size", "age", "cache, model");
    sum->headed = true;
    ui_printf(stdout, 4, "%-8s %8lld %10s %8s  %s  %s\n", state_names[is],
              (long long)i->n_tok, ui_size(size, i->size_bytes),
              ui_duration(t, age), ui_clean(path), ui_clean(model_words(i)));
}

static void list_json(const char *path, const cag_kvc_info *i, int is,
                      double age)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_str(&j, "file", path);
    ui_json_str(&j, "model", i->model_name);
    ui_json_str(&j, "model_file", model_words(i));
    ui_json_int(&j, "tokens", i->n_tok);
    ui_json_uint(&j, "bytes", i->size_bytes);
    ui_json_double(&j, "age_seconds", age);
    ui_json_str(&j, "state", state_names[is]);
    ui_json_str(&j, "content_id", i->content_id);
    ui_json_end(&j);
}

static int list_one(struct sums *sum, const char *path,
                    const cag_places *places, bool json)
{
    cag_error err = CAG_ERROR_INIT;
    const cag_kvc_info *i;
    double age = 0;
    struct stat sb;
    cag_kvc *k;
    int is;

    if (cag_kvc_open(path, &k, &err))
        return ui_error(&err);
    i = cag_kvc_get_info(k);
    is = state(k, places);
    if (stat(path, &sb) == 0)
        age = (double)(places_now() - (int64_t)sb.st_mtime);
    if (json)
        list_json(path, i, is, age);
    else
        list_line(sum, path, i, is, age);
    sum->n_state[is]++;
    sum->n_tok += i->n_tok;
    sum->bytes += i->size_bytes;
    cag_kvc_close(k);
    return UI_OK;
}

/* "3 caches, 12345 tokens, 1.2 GiB: 2 fresh, 1 stale" */
static void print_sums(const struct sums *sum)
{
    const char *between = ": ";
    char size[UI_TEXT];
    int n = 0;

    for (int i = 0; i < N_STATE; i++)
        n += sum->n_state[i];
    if (n < 2 || ui.quiet)
        return;
    printf("%d caches, %lld tokens, %s", n, (long long)sum->n_tok,
           ui_size(size, sum->bytes));
    for (int i = 0; i < N_STATE; i++)
        if (sum->n_state[i]) {
            printf("%s%d %s", between, sum->n_state[i], state_names[i]);
            between = ", ";
        }
    putchar('\n');
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

static int list_directory(struct sums *sum, const char *dir,
                          const cag_places *places, bool json)
{
    struct dirent **e;
    int status = UI_OK;
    int n = scandir(dir, &e, is_cache, by_bytes);

    if (n < 0)
        return ui_fail(CAG_E_MISSING, dir, "cannot read directory: %s",
                       strerror(errno));
    for (int i = 0; i < n; i++) {
        char *path;

        if (asprintf(&path, "%s/%s", dir, e[i]->d_name) >= 0) {
            int s = list_one(sum, path, places, json);

            status = report_worse(status, s);
            free(path);
        }
        free(e[i]);
    }
    free(e);
    return status;
}

int inspect_list(char **word, const cag_places *places, bool json)
{
    static char here[] = ".", *only[] = { here, NULL };
    struct sums sum = { .headed = false };
    int status = UI_OK;

    for (char **w = word[0] ? word : only; *w; w++) {
        struct stat sb;
        int s = stat(*w, &sb) == 0 && !S_ISDIR(sb.st_mode)
                    ? list_one(&sum, *w, places, json)
                    : list_directory(&sum, *w, places, json);

        status = report_worse(status, s);
    }
    if (!json)
        print_sums(&sum);
    return status;
}

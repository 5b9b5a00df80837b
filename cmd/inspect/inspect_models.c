/*
 * inspect_models.c - cag-inspect --models: the models that -m finds by name.
 *
 * They are looked for where cag_model_find looks: in the directories of models
 * (CAG_MODELS, then the user's own) and in the hub's cache.  A name is what -m
 * takes; of one name the first counts, as there.  Only headers are read.
 */
#include <cag/model.h>
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/inspect/inspect_report.h"
#include "cmd/cli/ui_wrap.h"

struct models {
    bool json, headed;
    char **seen; /* [n] names, heap */
    int n;
};

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);

    return n > m && !strcmp(s + n - m, tail);
}

/* Was this name listed already?  It is from now on. */
static bool is_known(struct models *m, const char *name)
{
    char **v;

    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->seen[i], name))
            return true;
    v = realloc(m->seen, (size_t)(m->n + 1) * sizeof *v);
    if (v) {
        m->seen = v;
        v[m->n] = strdup(name);
        m->n += v[m->n] != NULL;
    }
    return false;
}

static void model_json(const char *name, const char *path,
                       const cag_model_info *i, const cag_error *err)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "schema", 1);
    ui_json_str(&j, "name", name);
    ui_json_str(&j, "path", path);
    if (i) {
        ui_json_uint(&j, "bytes", i->size_bytes);
        ui_json_str(&j, "arch", i->arch);
        ui_json_int(&j, "context", i->n_ctx);
        ui_json_str(&j, "weights", i->weight_type);
        ui_json_int(&j, "layers", i->n_layer);
        ui_json_uint(&j, "kv_bytes_per_token", i->kv_bytes_per_tok);
    }
    ui_json_str(&j, "error", i ? NULL : err->msg);
    ui_json_end(&j);
}

/* One that cannot be used is listed, with the reason. */
static void model_line(struct models *m, const char *name, const char *path)
{
    cag_error err = CAG_ERROR_INIT;
    const cag_model_info *i = NULL;
    char size[UI_TEXT];
    cag_model *model;

    if (is_known(m, name))
        return;
    if (!cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &model, &err))
        i = cag_model_get_info(model);
    if (m->json) {
        model_json(name, path, i, &err);
    } else {
        if (!m->headed && !ui.quiet)
            ui_printf(stdout, 4, "%10s %-8s %8s %-8s %s\n", "size", "arch",
                      "context", "weights", "model");
        m->headed = true;
        if (i)
            ui_printf(stdout, 4, "%10s %-8s %8d %-8s %s\n",
                      ui_size(size, i->size_bytes), ui_clean(i->arch), i->n_ctx,
                      i->weight_type, ui_clean(name));
        else
            ui_printf(stdout, 4, "%10s %-8s %8s %-8s %s: %s\n", "-", "-", "-",
                      "-", ui_clean(name), ui_clean(err.msg));
    }
    if (i)
        cag_model_close(model);
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A GGUF file, the first of several parts, or a directory with a config. */
static bool is_model(const char *path, const char *name)
{
    char config[PATH_MAX];
    const char *of = strstr(name, "-of-");

    if (ends_with(name, ".gguf"))
        return !of || of - name < 6 || !strncmp(of - 6, "-00001", 6);
    return snprintf(config, sizeof config, "%s/config.json", path) <
               (int)sizeof config &&
           !access(config, F_OK);
}

static void list_directory(struct models *m, const char *dir)
{
    struct dirent **e;
    char path[PATH_MAX];
    int n = scandir(dir, &e, NULL, by_bytes);

    for (int i = 0; i < n; i++) {
        if (e[i]->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", dir, e[i]->d_name) <
                (int)sizeof path &&
            is_model(path, e[i]->d_name))
            model_line(m, e[i]->d_name, path);
        free(e[i]);
    }
    if (n >= 0)
        free(e);
}

/* models--ORG--NAME -> ORG/NAME; false for what is none. */
static bool hub_name(const char *dir, char *out, size_t size)
{
    static const char begin[] = "models--";
    const char *name, *org = dir + sizeof begin - 1;

    if (strncmp(dir, begin, sizeof begin - 1))
        return false;
    name = strstr(org, "--");
    return snprintf(out, size, "%.*s%s%s",
                    name ? (int)(name - org) : (int)strlen(org), org,
                    name ? "/" : "", name ? name + 2 : "") < (int)size;
}

static void list_hub(struct models *m, const char *hub)
{
    const cag_model_search search = { hub, NULL };
    struct dirent **e;
    int n = scandir(hub, &e, NULL, by_bytes);

    for (int i = 0; i < n; i++) {
        cag_error err = CAG_ERROR_INIT;
        char name[256], *path = NULL;

        if (hub_name(e[i]->d_name, name, sizeof name) &&
            !cag_model_find(name, &search, &path, &err))
            model_line(m, name, path);
        else if (err.status)
            ui_note("%s: %s", ui_clean(name), ui_clean(err.msg));
        cag_free(path);
        free(e[i]);
    }
    if (n >= 0)
        free(e);
}

int inspect_models(const cag_places *places, bool json)
{
    struct models m = { .json = json };
    char dir[PATH_MAX];

    for (const char *d = places->models; d && *d;) {
        size_t n = strcspn(d, ":");

        if (n && n < sizeof dir) {
            memcpy(dir, d, n);
            dir[n] = 0;
            list_directory(&m, dir);
        }
        d += n + (d[n] == ':');
    }
    if (places->hf_hub)
        list_hub(&m, places->hf_hub);
    if (!m.n)
        ui_note("no model there; looked in %s%s%s: put a GGUF file into one of "
                "them, or name its path with -m",
                places->models ? ui_clean(places->models) : "",
                places->models && places->hf_hub ? ":" : "",
                places->hf_hub ? ui_clean(places->hf_hub) : "");
    for (int i = 0; i < m.n; i++)
        free(m.seen[i]);
    free(m.seen);
    return UI_OK;
}

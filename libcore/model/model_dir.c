/*
 * model_dir.c - a model as Hugging Face lays it out: a directory with
 * config.json, generation_config.json (optional), the weights
 * (model.safetensors, or an index and shards), tokenizer.json and a chat
 * template.
 *
 * The template: chat_template.jinja wins over the chat_template key of
 * tokenizer_config.json, which is a string or a list of {name, template}
 * whose "default" is taken.  That is transformers' rule.
 */
#include <string.h>

#include "model/model_open.h"
#include "tokenizer/tokenizer.h"
#include "util/file.h"
#include "util/mem.h"

#define MAX_CONFIG_BYTES   ((size_t)16 << 20)
#define MAX_TEMPLATE_BYTES ((size_t)4 << 20)

/* ------------------------------------------------------------------ name */

/* ".../models--ORG--NAME/snapshots/REVISION" is ORG/NAME, any other
 * directory its last component. */
static char *dir_name(struct arena *a, const char *path)
{
    char *abs = file_absolute(path), *name = NULL, *hub, *slash;
    const char *base;

    if (!abs)
        return NULL;
    hub = strstr(abs, "/models--");
    slash = strrchr(abs, '/');
    base = slash && slash[1] ? slash + 1 : abs;
    if (hub && slash && slash - hub > 10 &&
        strncmp(slash - 10, "/snapshots", 10) == 0) {
        char *end = slash - 10, *sep;

        *end = '\0';
        base = hub + 9;
        sep = strstr(hub + 9, "--");
        name =
            !sep ? arena_strndup(a, base, strlen(base))
                 : arena_printf(a, "%.*s/%s", (int)(sep - base), base, sep + 2);
    } else {
        name = arena_strndup(a, base, strlen(base));
    }
    mem_free(abs);
    return name;
}

/* -------------------------------------------------------------- template */

/* The text of chat_template's value, NULL if it has no default. */
static const char *default_template(const jv *v, size_t *n)
{
    size_t i;

    if (jv_type(v) == JV_STR)
        return jv_str(v, n);
    for (i = 0; i < jv_count(v); i++) {
        const jv *e = jv_at(v, i);

        if (strcmp(jv_get_str(e, "name", ""), "default") == 0)
            return jv_str(jv_get(e, "template"), n);
    }
    return NULL;
}

static cag_status template_of_config(struct cag_model *m, const char *path,
                                     cag_error *err)
{
    jv *root = NULL;
    const char *text;
    size_t n = 0;
    cag_status st = jv_parse_object(path, MAX_CONFIG_BYTES, &root, err);

    if (st)
        return st;
    text = default_template(jv_get(root, "chat_template"), &n);
    if (text)
        st = model_set_template(m, text, n, path, err);
    jv_free(root);
    return st;
}

static cag_status read_template(struct cag_model *m, const char *dir,
                                cag_error *err)
{
    char *jinja = file_join(dir, "chat_template.jinja");
    char *config = file_join(dir, "tokenizer_config.json");
    struct buf b = BUF_INIT;
    cag_status st = CAG_OK;

    if (!jinja || !config) {
        st = cag_fail_nomem(err, "chat template");
    } else if (file_exists(jinja)) {
        st = file_read_regular(jinja, MAX_TEMPLATE_BYTES, &b, err);
        if (!st)
            st =
                model_set_template(m, b.data ? b.data : "", b.size, jinja, err);
    } else if (file_exists(config)) {
        st = template_of_config(m, config, err);
    }
    buf_free(&b);
    mem_free(jinja);
    mem_free(config);
    return st;
}

/* --------------------------------------------------------- configuration */

static cag_status read_config(struct cag_model *m, const char *dir,
                              char **config_path, cag_error *err)
{
    char *path = file_join(dir, "config.json");
    char *gen_path = file_join(dir, "generation_config.json");
    jv *config = NULL, *generation = NULL;
    cag_status st;

    if (!path || !gen_path) {
        st = cag_fail_nomem(err, "model directory");
        goto out;
    }
    if (!file_exists(path)) {
        st = cag_fail(err, CAG_E_MISSING, dir, -1,
                      "this directory holds no config.json; a model is a GGUF "
                      "file, or a directory with config.json, *.safetensors "
                      "and tokenizer.json");
        goto out;
    }
    st = jv_parse_object(path, MAX_CONFIG_BYTES, &config, err);
    if (!st && file_exists(gen_path))
        st = jv_parse_object(gen_path, MAX_CONFIG_BYTES, &generation, err);
    if (!st)
        st = config_from_json(config, generation, path, &m->config, err);
    if (!st) {
        *config_path = path;
        path = NULL;
    }
out:
    jv_free(config);
    jv_free(generation);
    mem_free(path);
    mem_free(gen_path);
    return st;
}

/* Weights may be absent when only the rest is wanted; what is there is
 * checked all the same. */
static cag_status read_weights(struct cag_model *m, const char *dir,
                               unsigned flags, cag_error *err)
{
    struct file_id id;
    cag_error mine = CAG_ERROR_INIT;
    cag_status st = st_open(dir, &m->st, &mine);
    size_t i;

    if (st == CAG_E_MISSING && (flags & CAG_MODEL_NO_WEIGHTS))
        return CAG_OK;
    if (st)
        return cag_error_copy(err, &mine);
    for (i = 0; i < st_n_file(m->st); i++) {
        if ((st = file_stat(st_file(m->st, i), &id, err)) ||
            (st = model_add_file(m, st_file(m->st, i), err)))
            return st;
        m->info.size_bytes += id.size_bytes;
    }
    if (flags & CAG_MODEL_NO_WEIGHTS)
        return CAG_OK;
    return weights_from_st(m->st, &m->config, &m->arena, &m->weights, err);
}

cag_status model_open_dir(struct cag_model *m, const char *path, unsigned flags,
                          cag_error *err)
{
    char *config_path = NULL;
    cag_status st;

    m->info.name = dir_name(&m->arena, path);
    if (!m->info.name)
        return cag_fail_nomem(err, "model directory");
    if ((st = read_config(m, path, &config_path, err)) ||
        (st = read_weights(m, path, flags, err)) ||
        (st = model_add_file(m, config_path, err)) ||
        (st = read_template(m, path, err)))
        goto out;
    if (!(flags & CAG_MODEL_NO_TOKENIZER))
        st = tok_from_dir(path, &m->tokenizer, err);
out:
    mem_free(config_path);
    return st;
}

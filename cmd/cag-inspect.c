/*
 * cag-inspect - what is in a cache, and what a model reads.
 */
#include <stdlib.h>
#include <string.h>

#include <cag/tool/export.h>
#include <cag/tool/text_file.h>
#include <cag/show.h>

#include "cmd/cli/check_report.h"
#include "cmd/inspect/inspect_report.h"
#include "cmd/cli/opt.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

static struct {
    const char *model, *template_file, *messages, *export;
    bool json, list, sources, text, tokens, prompt, ids, test, check, diff,
        tensors, digest, devices, parse_special, think, shards, models;
    int n_thread;
} o;

static const opt_spec specs[] = {
    OPT_FLAG('t', "test", &o.test, "check every byte of the file"),
    OPT_FLAG(0, "check", &o.check, "is it fresh? 0 yes, 1 no, 66 not seen"),
    OPT_FLAG('l', "list", &o.list, "one line per cache in DIR..."),
    OPT_FLAG(0, "sources", &o.sources, "digests and paths, for sha256sum -c"),
    OPT_FLAG(0, "text", &o.text, "the exact text that was cached"),
    OPT_FLAG(0, "diff", &o.diff, "how two caches differ"),
    OPT_FLAG(0, "json", &o.json, "as JSON"),
    OPT_MORE,
    OPT_FLAG(0, "shards", &o.shards,
             "is a batch of many runs complete, each row once?"),
    OPT_STR(0, "export", &o.export, "F", NULL,
            "keys and values as a safetensors file"),
    OPT_FLAG(0, "tokens", &o.tokens, "its tokens"),
    OPT_FLAG(0, "digest", &o.digest, "the content id"),
    OPT_FLAG(0, "tensors", &o.tensors, "shapes and sections"),
    OPT_FLAG(0, "ids", &o.ids, "token ids of texts (with -m)"),
    OPT_FLAG(0, "prompt", &o.prompt, "a prompt as the model reads it"),
    OPT_STR('m', "model", &o.model, "M", "CAG_MODEL",
            "model for --ids and --prompt"),
    OPT_FLAG(0, "parse-special", &o.parse_special,
             "control tokens in the text count as such"),
    OPT_STR(0, "chat-template-file", &o.template_file, "F", NULL,
            "template for --prompt"),
    OPT_STR(0, "messages", &o.messages, "F", NULL,
            "messages for --prompt: JSON, [{role, content}]"),
    OPT_FLAG(0, "think", &o.think, "the prompt with thinking on"),
    OPT_FLAG(0, "devices", &o.devices, "what cag can compute on here"),
    OPT_FLAG(0, "models", &o.models, "the models that -m finds by name"),
    OPT_INT(0, "threads", &o.n_thread, 1, 512, "N", "CAG_THREADS",
            "threads for -t"),
    OPT_COMMON,
    OPT_END
};

static const char examples[] =
    "  cag-inspect handbook.kvc\n"
    "  cag-inspect -t handbook.kvc            is every byte intact?\n"
    "  cag-inspect --sources handbook.kvc | sha256sum -c\n"
    "  cag-inspect --ids -m model.gguf notes.txt\n";

static const opt_usage usage = { "cag-inspect",
                                 "[options] FILE.kvc...\n"
                                 "-l [DIR...]\n"
                                 "--diff A.kvc B.kvc\n"
                                 "--shards 'answers.*.jsonl'\n"
                                 "--ids -m MODEL [FILE...]\n"
                                 "--prompt -m MODEL [--messages FILE.json]",
                                 "show and verify caches",
                                 examples,
                                 specs,
                                 "*.kvc",
                                 NULL };

static int verify(cag_kvc *k)
{
    cag_error err = CAG_ERROR_INIT;
    cag_hooks h = places_hooks();
    cag_status st;

    ui_catch(true);
    st = cag_kvc_verify(k, o.n_thread, h.progress, h.ctx, &err);
    ui_catch(false);
    ui_progress_end();
    if (st)
        return ui_error(&err);
    if (o.json)
        inspect_sound(k);
    else
        ui_note("%s: every byte is intact",
                ui_clean(cag_kvc_get_info(k)->path));
    return UI_OK;
}

static int export(const cag_kvc *k)
{
    cag_error err = CAG_ERROR_INIT;
    cag_hooks h = places_hooks();
    cag_status st;

    ui_catch(true);
    st = cag_kvc_export(k, o.export, -1, h.progress, h.ctx, &err);
    ui_catch(false);
    ui_progress_end();
    return st ? ui_error(&err) : UI_OK;
}

static int inspect(const char *path)
{
    cag_error err = CAG_ERROR_INIT;
    int status = UI_OK;
    cag_kvc *k;

    if (o.check)
        return report_check(path, places_get(), false, o.json);
    if (cag_kvc_open(path, &k, &err))
        return ui_error(&err);
    if (o.test)
        status = verify(k);
    else if (o.export)
        status = export(k);
    else if (o.sources)
        inspect_sources(k, o.json);
    else if (o.text)
        inspect_text(k, o.json);
    else if (o.tokens)
        inspect_tokens(k, o.json);
    else if (o.digest)
        inspect_digest(k, o.json);
    else if (o.tensors)
        inspect_tensors(k, o.json);
    else if (o.json)
        inspect_json(k);
    else
        inspect_summary(k);
    cag_kvc_close(k);
    return status;
}

static int diff(char **file)
{
    cag_error err = CAG_ERROR_INIT;
    cag_kvc *a = NULL, *b = NULL;
    int status;

    if (!file[0] || !file[1] || file[2])
        opt_fail("--diff takes two caches");
    if (cag_kvc_open(file[0], &a, &err) || cag_kvc_open(file[1], &b, &err))
        status = ui_error(&err);
    else
        status = inspect_diff(a, b, o.json);
    cag_kvc_close(a);
    cag_kvc_close(b);
    return status;
}

static int ids_of(const cag_tokenizer *t, const char *path)
{
    cag_error err = CAG_ERROR_INIT;
    cag_ids ids = CAG_IDS_INIT;
    struct ui_json j;
    cag_text piece;
    char *text;
    size_t n;

    if (cag_read_file(path, &text, &n, &err))
        return ui_error(&err);
    piece = (cag_text){ text, n, o.parse_special ? CAG_TEXT_TEMPLATE : 0 };
    if (cag_encode(t, &piece, 1, 0, &ids, &err)) {
        if (!err.file[0])
            snprintf(err.file, sizeof err.file, "%s",
                     strcmp(path, "-") ? path : "standard input");
        cag_free(text);
        return ui_error(&err);
    }
    if (ids.n_dropped)
        ui_warn("%s: %zu bytes have no token in this vocabulary",
                ui_clean(path), ids.n_dropped);
    ui_json_start(&j, stdout);
    ui_json_array(&j, NULL);
    for (size_t i = 0; i < ids.n; i++)
        ui_json_int(&j, NULL, ids.id[i]);
    ui_json_end(&j);
    cag_ids_free(&ids);
    cag_free(text);
    return UI_OK;
}

static int show_ids(char **file)
{
    static char dash[] = "-", *only[] = { dash, NULL };
    cag_error err = CAG_ERROR_INIT;
    int status = UI_OK;
    cag_model *m;

    if (cag_open_tokenizer(o.model, places_get(), &m, &err))
        return ui_error(&err);
    for (char **f = file[0] ? file : only; *f; f++) {
        int s = ids_of(cag_model_get_tokenizer(m), *f);

        status = s ? s : status;
    }
    cag_model_close(m);
    return status;
}

static int show_prompt(void)
{
    cag_error err = CAG_ERROR_INIT;
    const char *model = o.model, *from = opt_origin(&o.model);
    cag_prompt_view v;
    static const char *template_text, *messages; /* live to the end */
    int64_t date = places_epoch();

    /* a template of its own needs no model unless one is asked for */
    if (o.template_file && from && !strncmp(from, "environment", 11))
        model = NULL;
    if ((o.template_file &&
         cag_read_text(o.template_file, &template_text, &err)) ||
        (o.messages && cag_read_text(o.messages, &messages, &err)) ||
        cag_render_prompt(
            model, template_text, messages, messages ? strlen(messages) : 0,
            o.think, date >= 0 ? date : places_now(), places_get(), &v, &err)) {
        if (o.messages && !strcmp(err.file, "messages"))
            snprintf(err.file, sizeof err.file, "%s", o.messages);
        return ui_error(&err);
    }
    if (o.json) {
        struct ui_json j;

        ui_json_start(&j, stdout);
        ui_json_object(&j, NULL);
        ui_json_int(&j, "schema", 1);
        ui_json_strn(&j, "prompt", v.text, v.size);
        ui_json_uint(&j, "cached_bytes", v.cached_bytes);
        ui_json_end(&j);
    } else {
        ui_put_text(stdout, v.text, v.cached_bytes);
        if (v.cached_bytes)
            fputs("[cached part ends here]", stdout);
        ui_put_text(stdout, v.text + v.cached_bytes, v.size - v.cached_bytes);
        putchar('\n');
    }
    cag_free(v.text);
    return UI_OK;
}

int main(int argc, char **argv)
{
    char **file = opt_parse(&usage, argc, argv, 0);
    int status = UI_OK;

    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    if (o.list + o.diff + o.ids + o.prompt + o.devices + o.test + o.check +
            o.sources + o.text + o.tokens + o.digest + o.tensors + o.shards +
            (o.export != NULL) + o.models >
        1)
        opt_fail("one view at a time");
    if (o.export && file[0] && file[1])
        opt_fail("--export takes one cache");
    if ((o.prompt || o.devices || o.models) && file[0])
        opt_fail("--prompt, --devices and --models take no file; the text of a "
                 "cache is shown by --text");
    if (o.list)
        status = inspect_list(file, places_get(), o.json);
    else if (o.diff)
        status = diff(file);
    else if (o.ids)
        status = show_ids(file);
    else if (o.prompt)
        status = show_prompt();
    else if (o.shards)
        status = inspect_shards(file, o.json);
    else if (o.devices)
        inspect_devices(o.json);
    else if (o.models)
        status = inspect_models(places_get(), o.json);
    else if (!file[0])
        opt_fail(
            "name a cache, as in: cag-inspect FILE.kvc; -l lists those of a "
            "directory");
    else
        for (; *file; file++)
            status = report_worse(status, inspect(*file));
    return ui_close_stdout(status);
}

/*
 * bench_probe.c - evaluate given token ids: greedy continuation, largest
 * logits.
 */
#include <cag/tool/probe.h>

#include "cmd/bench/bench_cmd.h"
#include "cmd/cli/engine_opts.h"
#include "cmd/cli/places.h"
#include "cmd/cli/ui.h"

static const char *const kv_names[] = { "f16", "f32", NULL };

static struct {
    const char *model, *ids;
    struct engine_cli engine;
    int n_next, n_top, chunk, kv;
    bool step, json;
} o = { .n_next = 16, .n_top = 5, .engine.device = "auto" };

static const opt_spec probe_specs[] = {
    OPT_STR('m', "model", &o.model, "MODEL", "CAG_MODEL",
            "GGUF file, model directory or hub id"),
    OPT_STR(0, "ids", &o.ids, "FILE", NULL,
            "JSON array of token ids, or of such arrays; - is stdin"),
    OPT_INT('n', "max-tokens", &o.n_next, 0, 1000000, "N", NULL,
            "length of the greedy continuation"),
    OPT_INT(0, "top", &o.n_top, 0, 1000000, "K", NULL,
            "how many of the largest logits"),
    OPT_FLAG(0, "step", &o.step,
             "feed the prompt id by id, as generated tokens"),
    OPT_FLAG(0, "json", &o.json, "print one JSON object a list"),
    OPT_MORE,
    OPT_CHOICE(0, "kv", &o.kv, kv_names, NULL, "how K and V are kept"),
    OPT_INT(0, "chunk", &o.chunk, 1, 65536, "C", NULL,
            "prompt tokens a pass (default 512)"),
    OPT_ENGINE(&o.engine, engine_precision),
    OPT_COMMON,
    OPT_END
};

const opt_usage bench_probe_usage = {
    "cag-bench probe",
    "-m MODEL --ids FILE [options]",
    "evaluate given token ids",
    "  echo '[1, 2, 3]' | cag-bench probe -m MODEL --ids - -n 8 --json\n",
    probe_specs,
    NULL,
    NULL
};

static void print_text(int n_ids, const cag_probe_result *r)
{
    printf("%d ids\nnext:", n_ids);
    for (int i = 0; i < r->n_next; i++)
        printf(" %d", (int)r->next[i]);
    printf("\ntop:");
    for (int i = 0; i < r->n_top; i++)
        printf("%s %d %.9g", i > 0 ? "," : "", (int)r->top[i].id,
               (double)r->top[i].logit);
    printf("\n");
}

static void print_json(int n_ids, const cag_probe_result *r)
{
    struct ui_json j;

    ui_json_start(&j, stdout);
    ui_json_object(&j, NULL);
    ui_json_int(&j, "n_ids", n_ids);
    ui_json_array(&j, "next");
    for (int i = 0; i < r->n_next; i++)
        ui_json_int(&j, NULL, r->next[i]);
    ui_json_end(&j);
    ui_json_array(&j, "top");
    for (int i = 0; i < r->n_top; i++) {
        ui_json_array(&j, NULL);
        ui_json_int(&j, NULL, r->top[i].id);
        ui_json_double(&j, NULL, (double)r->top[i].logit);
        ui_json_end(&j);
    }
    ui_json_end(&j);
    ui_json_end(&j);
}

static cag_status probe_lists(cag_engine *e, const cag_probe_ids *lists,
                              cag_error *err)
{
    cag_probe_opts po = { o.n_next, o.n_top, o.step };
    cag_probe_result r = { NULL, 0, NULL, 0 };
    cag_status st = CAG_OK;

    for (int i = 0; !st && i < cag_probe_n_list(lists); i++) {
        int n_ids;
        const int32_t *ids = cag_probe_list(lists, i, &n_ids);
        st = cag_probe_run(e, &po, ids, n_ids, &r, err);
        if (!st)
            (o.json ? print_json : print_text)(n_ids, &r);
    }
    cag_probe_release(&r);
    return st;
}

int bench_probe(int argc, char **argv)
{
    cag_error err = CAG_ERROR_INIT;
    cag_probe_ids *lists = NULL;
    cag_model *m = NULL;
    cag_engine *e = NULL;
    char *path = NULL;
    cag_status st;

    char **rest = opt_parse(&bench_probe_usage, argc, argv, 0);
    if (opt_wants_config()) {
        opt_print_config();
        return ui_close_stdout(UI_OK);
    }
    if (*rest)
        opt_fail("unexpected operand '%s'", ui_clean(*rest));
    if (!o.model)
        opt_fail("no model: use -m MODEL");
    if (!o.ids)
        opt_fail("no ids: use --ids FILE");

    cag_engine_opts eo = { .pass_rows = o.chunk, .kv_f32 = o.kv == 1 };
    engine_opts_fill(&o.engine, &eo);
    st = cag_probe_read(o.ids, &lists, &err);
    cag_model_search search = { places_get()->hf_hub, places_get()->models };
    if (!st)
        st = cag_model_find(o.model, &search, &path, &err);
    if (!st)
        st = cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m, &err);
    if (!st)
        st = cag_engine_new(m, &eo, &e, &err);
    if (!st)
        st = probe_lists(e, lists, &err);
    cag_engine_free(e);
    cag_model_close(m);
    cag_free(path);
    cag_probe_free(lists);
    return ui_close_stdout(st ? ui_error(&err) : UI_OK);
}

/*
 * test_model.c - whole models in both containers, opened as a program does.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model.h"
#include "util/file.h"
#include "util/mem.h"

#define DIR_ "tests/golden/models/"

static cag_model *open_model(const char *path, unsigned flags)
{
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_status st = cag_model_open(path, flags, &m, &err);

    if (st)
        print_message("%s: %s: %s\n", path, err.file, err.msg);
    assert_int_equal(st, CAG_OK);
    return m;
}

/* Everything a caller can see is the same in both containers. */
static void containers_agree(void **state)
{
    static const char *const pairs[][2] = {
        { DIR_ "llama", DIR_ "llama.F16.gguf" },
        { DIR_ "llama3", DIR_ "llama3.F16.gguf" },
        { DIR_ "mistral", DIR_ "mistral.F16.gguf" },
        { DIR_ "qwen2", DIR_ "qwen2.F16.gguf" },
        { DIR_ "qwen3", DIR_ "qwen3.F16.gguf" },
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        cag_model *a = open_model(pairs[i][0], 0);
        cag_model *b = open_model(pairs[i][1], 0);
        const cag_model_info *p = cag_model_get_info(a);
        const cag_model_info *q = cag_model_get_info(b);
        struct file_id id;

        assert_string_equal(p->container, "safetensors");
        assert_string_equal(q->container, "gguf");
        assert_string_equal(p->weight_type, "BF16");
        assert_string_equal(q->weight_type, "F16");
        assert_string_equal(p->name, q->name);
        assert_string_equal(p->arch, q->arch);
        assert_string_equal(p->path, pairs[i][0]);
        assert_int_equal(p->n_param, q->n_param);
        assert_int_equal(p->n_vocab, q->n_vocab);
        assert_int_equal(p->kv_bytes_per_tok, 4u * (unsigned)p->n_layer *
                                                  (unsigned)p->n_kv_head *
                                                  (unsigned)p->d_head);
        assert_int_equal(p->kv_bytes_per_tok, q->kv_bytes_per_tok);
        assert_int_equal(file_stat(pairs[i][1], &id, NULL), CAG_OK);
        assert_int_equal(q->size_bytes, id.size_bytes);
        assert_true(p->size_bytes > 2 * p->n_param);
        assert_string_equal(cag_model_get_template(a),
                            cag_model_get_template(b));
        assert_non_null(cag_model_get_tokenizer(a));
        assert_non_null(cag_model_get_tokenizer(b));
        cag_model_close(a);
        cag_model_close(b);
    }
}

/* Channel c of row r of Wq in the order of the mathematics. */
static float wq_at(const cag_model *m, int r, int c)
{
    const struct kmat *w = &m->weights.layer[0].mat[WQ];
    int d = 2 * w->perm_half, j = d ? r % d : 0;
    const uint8_t *p;
    uint32_t bits;
    float f;

    if (d)
        r += j % w->perm_half * 2 + j / w->perm_half - j;
    p = w->data + (size_t)r * w->row_bytes;
    if (w->type == GGUF_F32)
        bits = (uint32_t)p[4 * c] | (uint32_t)p[4 * c + 1] << 8 |
               (uint32_t)p[4 * c + 2] << 16 | (uint32_t)p[4 * c + 3] << 24;
    else
        bits = (uint32_t)p[2 * c] << 16 | (uint32_t)p[2 * c + 1] << 24;
    memcpy(&f, &bits, 4);
    return f;
}

/* B82: rows of Wq are the same ones whatever the container's order. */
static void rows_agree(void **state)
{
    cag_model *a = open_model(DIR_ "llama", CAG_MODEL_NO_TOKENIZER);
    cag_model *b = open_model(DIR_ "llama.F32.gguf", CAG_MODEL_NO_TOKENIZER);
    int r, c;

    (void)state;
    for (r = 0; r < a->weights.layer[0].mat[WQ].n_out; r++)
        for (c = 0; c < a->weights.layer[0].mat[WQ].d_in; c++)
            assert_true(wq_at(a, r, c) == wq_at(b, r, c));
    cag_model_close(a);
    cag_model_close(b);
    a = open_model(DIR_ "llama-bias", CAG_MODEL_NO_TOKENIZER);
    b = open_model(DIR_ "llama-bias.BF16.gguf", CAG_MODEL_NO_TOKENIZER);
    for (r = 0; r < a->weights.layer[1].mat[WK].n_out; r++)
        assert_true(a->weights.layer[1].bk[r] == b->weights.layer[1].bk[r]);
    cag_model_close(a);
    cag_model_close(b);
}

static void every_golden_opens(void **state)
{
    static const char *const names[] = {
        "llama-bias",          "llama-linear",          "llama-yarn",
        "qwen3-tied",          "llama-bias.BF16.gguf",  "llama-k.Q4_K.gguf",
        "llama-k.Q56_K.gguf",  "llama-linear.F16.gguf", "llama-mix.MIX.gguf",
        "llama-yarn.F32.gguf", "llama.F32.gguf",        "llama.Q4_0.gguf",
        "llama.Q4_1.gguf",     "llama.Q5_0.gguf",       "llama.Q5_1.gguf",
        "llama.Q8_0.gguf",     "qwen3-tied.F32.gguf",
    };
    char path[128];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, DIR_ "%s", names[i]);
        cag_model_close(open_model(path, 0));
    }
}

/* ------------------------------------------------------ directories at hand */

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/cag-model-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char cmd[128];

    (void)state;
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    return system(cmd);
}

static const char *in_root(const char *name)
{
    static char path[2][160];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[0], "%s/%s", root, name);
    return path[turn];
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(in_root(name), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void link_golden(const char *model, const char *name)
{
    char cwd[4096], target[8192];

    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(target, sizeof target, "%s/" DIR_ "%s/%s", cwd, model, name);
    assert_int_equal(symlink(target, in_root(name)), 0);
}

/* Which template wins, and what is no template. */
static void chooses_the_template(void **state)
{
    unsigned flags = CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER;
    cag_error err = CAG_ERROR_INIT;
    cag_model *m;

    (void)state;
    link_golden("qwen3", "config.json");
    m = open_model(root, flags); /* weights are absent, and may be */
    assert_null(cag_model_get_template(m));
    assert_int_equal(cag_model_get_info(m)->n_param, 0);
    cag_model_close(m);
    put("tokenizer_config.json", "{\"chat_template\":\"one\"}");
    m = open_model(root, flags);
    assert_string_equal(cag_model_get_template(m), "one");
    cag_model_close(m);
    put("tokenizer_config.json",
        "{\"chat_template\":[{\"name\":\"tool_use\","
        "\"template\":\"two\"},{\"name\":\"default\",\"template\":\"3\"}]}");
    m = open_model(root, flags);
    assert_string_equal(cag_model_get_template(m), "3");
    cag_model_close(m);
    put("chat_template.jinja", "from the file\n");
    m = open_model(root, flags);
    assert_string_equal(cag_model_get_template(m), "from the file\n");
    cag_model_close(m);
    put("chat_template.jinja", "bad \xff byte");
    m = NULL;
    assert_int_equal(cag_model_open(root, flags, &m, &err), CAG_E_FORMAT);
    assert_non_null(strstr(err.msg, "UTF-8 at its byte 4"));
    put("chat_template.jinja", "");
    put("tokenizer_config.json", "{");
    m = open_model(root, flags); /* not even looked at */
    assert_string_equal(cag_model_get_template(m), "");
    cag_model_close(m);
    assert_int_equal(cag_model_open(root, CAG_MODEL_NO_TOKENIZER, &m, &err),
                     CAG_E_MISSING);
    assert_non_null(strstr(err.msg, "model.safetensors"));
}

static void names_hub_models(void **state)
{
    unsigned flags = CAG_MODEL_NO_WEIGHTS | CAG_MODEL_NO_TOKENIZER;
    const char *dir = "models--Org--Some-Model/snapshots/0123";
    char cmd[512];
    cag_model *m;

    (void)state;
    snprintf(cmd, sizeof cmd,
             "mkdir -p '%s/%s' && cp " DIR_ "llama/"
             "config.json '%s/%s/'",
             root, dir, root, dir);
    assert_int_equal(system(cmd), 0);
    m = open_model(in_root(dir), flags);
    assert_string_equal(cag_model_get_info(m)->name, "Org/Some-Model");
    cag_model_close(m);
}

static void refuses(const char *path, cag_status want, const char *msg)
{
    cag_error err = CAG_ERROR_INIT;
    cag_model *m = NULL;
    cag_status st = cag_model_open(path, CAG_MODEL_NO_TOKENIZER, &m, &err);

    if (st != want || !strstr(err.msg, msg))
        print_message("%s: %s\n", cag_status_name(st), err.msg);
    assert_int_equal(st, want);
    assert_non_null(strstr(err.msg, msg));
    assert_null(m);
}

static void refuses_what_is_no_model(void **state)
{
    (void)state;
    refuses("", CAG_E_USAGE, "no path");
    refuses("tests/none", CAG_E_MISSING, "");
    refuses("tests", CAG_E_MISSING, "no config.json");
    refuses(DIR_ "llama3/model.safetensors", CAG_E_FORMAT, "safetensors");
    refuses("/dev/null", CAG_E_MISSING, "");
    put("config.json", "{\"model_type\":\"bert\"}");
    refuses(root, CAG_E_UNSUPPORTED, "bert");
    put("config.json", "{\"model_type\":");
    refuses(root, CAG_E_FORMAT, "");
}

/* Every allocation of an open fails in turn. */
static void survives_oom(void **state)
{
    static const char *const paths[] = { DIR_ "llama", DIR_ "llama.Q4_1.gguf",
                                         DIR_ "qwen3-tied" };
    cag_error err = CAG_ERROR_INIT;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof paths / sizeof *paths; i++) {
        int64_t live = mem_live(), n = 1;
        cag_status st = CAG_E_NOMEM;

        for (; st == CAG_E_NOMEM; n++) {
            cag_model *m = NULL;

            mem_fault(n, false);
            st = cag_model_open(paths[i], CAG_MODEL_NO_TOKENIZER, &m, &err);
            mem_fault(0, false);
            cag_model_close(m);
            assert_int_equal(mem_live(), live);
        }
        assert_int_equal(st, CAG_OK);
        assert_true(n > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(containers_agree),
        cmocka_unit_test(rows_agree),
        cmocka_unit_test(every_golden_opens),
        cmocka_unit_test_setup_teardown(chooses_the_template, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(names_hub_models, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_model, make_root,
                                        remove_root),
        cmocka_unit_test(survives_oom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

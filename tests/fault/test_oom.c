/*
 * test_oom.c - whole jobs on a tiny model, with the N-th allocation failing.
 *
 * A scene is a job of the library.  It is run once as a reference, then with
 * one failing allocation after the other.  Each run must end in CAG_E_NOMEM
 * (exit 71), or do all of its work as if nothing had happened (a hash that
 * is not remembered costs time, no correctness); no block may stay behind,
 * and what lay on disk before is there afterwards.
 *
 * `make check` takes some of the N, CAG_TEST_LONG all, and both kinds of
 * failure: one allocation, and all from the N-th on.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include <cag/show.h>
#include <cag/tool/batch_file.h>
#include <cag/tool/export.h>
#include <cag/tool/shard.h>
#include <cag/manifest.h>

#include "kvc/kvc_read.h"
#include "util/mem.h"

#define MODEL_GGUF "tests/golden/models/llama.F16.gguf"
#define CHECK_RUNS 120 /* sampled N of a scene in `make check` */

static char kb[64], kb16[64], kbf[64], other[64], out[64], memory[64], yaml[64];

/* What a scene leaves behind that must not depend on luck. */
struct result {
    char data[4096];
    size_t n;
    char file[64]; /* a file it made, "" for none */
};

static void add(struct result *r, const void *data, size_t n)
{
    if (n > sizeof r->data - r->n)
        n = sizeof r->data - r->n;
    memcpy(r->data + r->n, data, n);
    r->n += n;
}

static void add_file(struct result *r, const char *path)
{
    uint8_t d[SHA256_SIZE];

    sha_of(path, d);
    add(r, d, sizeof d);
}

/* ------------------------------------------------------------------ scenes */

static cag_status build_with(const char *model, const char *codec,
                             const char *depfile, struct result *res,
                             cag_error *err)
{
    cag_build_opts o;
    cag_build_report r;
    cag_status st;

    build_opts(&o, out);
    o.model = model;
    o.places.cache_dir = memory;
    o.codec = codec;
    o.depfile = depfile;
    st = cag_build(&o, &r, err);
    cag_build_report_release(&r);
    if (!st)
        memcpy(res->file, out, sizeof out);
    return st;
}

static cag_status scene_build(struct result *res, cag_error *err)
{
    char dep[64];

    return build_with(FAULT_MODEL, "f16z", in_dir(dep, "out.d"), res, err);
}

static cag_status scene_build_gguf(struct result *res, cag_error *err)
{
    return build_with(MODEL_GGUF, "f32", NULL, res, err);
}

static cag_status scene_build_q8h(struct result *res, cag_error *err)
{
    return build_with(FAULT_MODEL, "q8h", NULL, res, err);
}

/* out is an earlier build of other texts: its prefix is taken over */
static cag_status scene_rebuild(struct result *res, cag_error *err)
{
    return build_with(FAULT_MODEL, NULL, NULL, res, err);
}

static cag_status scene_plan(struct result *res, cag_error *err)
{
    cag_build_opts o;
    cag_build_report r;
    cag_status st;

    build_opts(&o, NULL);
    st = cag_build_plan(&o, &r, err);
    if (!st)
        add(res, &r.n_tok, sizeof r.n_tok);
    cag_build_report_release(&r);
    return st;
}

static cag_status refresh(const char *path, struct result *res, cag_error *err)
{
    cag_build_opts o;
    cag_build_report r;
    cag_status st;

    build_opts(&o, path);
    o.allow_outside = true; /* the sources lie beside the cache's directory */
    st = cag_refresh(path, &o, &r, err);
    if (!st)
        add(res, &r.fresh, sizeof r.fresh);
    cag_build_report_release(&r);
    return st;
}

static cag_status scene_fresh(struct result *res, cag_error *err)
{
    return refresh(kb, res, err);
}

static cag_status scene_fresh_filtered(struct result *res, cag_error *err)
{
    return refresh(kbf, res, err);
}

static cag_status scene_check(struct result *res, cag_error *err)
{
    cag_places places = { .cache_dir = memory };
    cag_check_report r = { 0 };
    cag_kvc *k;
    cag_status st = cag_kvc_open(kb, &k, err);

    if (st)
        return st;
    st = cag_check(k, &places, NULL, true, &r, err);
    add(res, &r.n_source, sizeof r.n_source);
    cag_check_report_release(&r);
    cag_kvc_close(k);
    return st;
}

static cag_status scene_manifest(struct result *res, cag_error *err)
{
    cag_manifest *m = NULL;
    cag_status st = cag_manifest_load(yaml, &m, err);

    if (!st)
        add(res, &m->n_source, sizeof m->n_source);
    cag_manifest_free(m);
    return st;
}

static cag_status open_kb(cag_kb **out_kb, bool no_cache, cag_error *err)
{
    cag_kb_opts o;

    cag_kb_opts_init(&o);
    o.no_cache = no_cache;
    o.engine.device = "cpu";
    o.engine.n_thread = 1;
    o.places.cache_dir = memory;
    return cag_kb_open(kb, &o, out_kb, err);
}

static cag_status ask_one(cag_kb *k, cag_chat *chat, const char *q,
                          struct result *res, cag_error *err)
{
    cag_ask_params p;
    cag_answer a;
    cag_status st;
    char *row;

    cag_ask_params_init(&p);
    p.max_tok = 4;
    p.evidence = true;
    st = chat ? cag_chat_ask(chat, q, strlen(q), &p, NULL, NULL, &a, err)
              : cag_kb_ask(k, q, strlen(q), &p, NULL, NULL, &a, err);
    if (!st) {
        row = cag_answer_json(k, &a, q, strlen(q), "7", &p);
        if (!row)
            st = cag_fail_nomem(err, "row");
        cag_free(row);
        add(res, a.text, a.size);
    }
    cag_answer_release(&a);
    return st;
}

static cag_status scene_ask(struct result *res, cag_error *err)
{
    cag_prompt_view v = { 0 };
    cag_kb *k = NULL;
    cag_status st = open_kb(&k, false, err);

    if (!st)
        st = ask_one(k, NULL, "Who is Dana?", res, err);
    if (!st)
        st = cag_kb_prompt(k, "Why?", 4, false, &v, err);
    cag_free(v.text);
    cag_kb_close(k);
    return st;
}

static cag_status scene_ask_cold(struct result *res, cag_error *err)
{
    cag_kb *k = NULL;
    cag_status st = open_kb(&k, true, err);

    if (!st)
        st = ask_one(k, NULL, "Who is Dana?", res, err);
    cag_kb_close(k);
    return st;
}

static cag_status scene_chat(struct result *res, cag_error *err)
{
    cag_chat *c = NULL;
    cag_kb *k = NULL;
    cag_status st = open_kb(&k, false, err);

    if (!st)
        st = cag_chat_new(k, &c, err);
    if (!st)
        st = ask_one(k, c, "Who is Dana?", res, err);
    if (!st)
        st = ask_one(k, c, "And why?", res, err);
    if (!st) {
        cag_chat_reset(c);
        st = ask_one(k, c, "Where?", res, err);
    }
    cag_chat_free(c);
    cag_kb_close(k);
    return st;
}

struct lines {
    const char *const *line;
    int at;
    struct result *res;
    cag_rows *rows;
};

static const char *next_line(void *ctx, size_t *size, cag_error *err)
{
    struct lines *l = ctx;

    (void)err;
    if (!l->line[l->at])
        return NULL;
    *size = strlen(l->line[l->at]);
    return l->line[l->at++];
}

static cag_status take_row(void *ctx, const char *row, size_t size,
                           cag_row_kind kind, cag_error *err)
{
    struct lines *l = ctx;
    const char *end = strstr(row, "\"seconds\"");

    add(l->res, &kind, sizeof kind);
    add(l->res, row, end ? (size_t)(end - row) : size);
    return cag_rows_put(l->rows, row, size, kind, err);
}

static cag_status scene_batch(struct result *res, cag_error *err)
{
    static const char *const rows[] = {
        "{\"question\":\"Who?\",\"id\":7,\"stop\":[\"zz\"],\"extra\":[1,{}]}",
        "{\"question\":\"Where?\",\"max_tokens\":2}",
        "{bad",
        "{\"question\":\"Who?\",\"id\":8,\"stop\":[\"zz\"]}",
        "",
        "{\"question\":\"\"}",
        "{\"question\":\"When?\"}",
        NULL
    };
    struct lines l = { rows, 0, res, NULL };
    cag_batch_opts o;
    cag_ask_params p;
    cag_batch_report r;
    cag_kb *k = NULL;
    cag_status st = open_kb(&k, false, err);
    char path[64], part[64];

    /* rows that stand, one that differs, a torn one; and PATH itself */
    write_text(in_dir(path, "memory/rows"),
               "{\"line\":7,\"question\":\"When?\",\"options\":\"none\"}\n");
    write_text(in_dir(part, "memory/rows.part"),
               "{\"line\":7,\"question\":\"When?\",\"options\":\"none\","
               "\"answer\":\"\"}\n{\"li");

    cag_ask_params_init(&p);
    p.max_tok = 3;
    p.require = CAG_SUPPORT_STRONG; /* each answer is checked and withheld */
    cag_batch_opts_init(&o);
    o.parallel = 3;
    o.params = &p;
    if (!st)
        st = cag_rows_open(path, true, NULL, 0, &l.rows, err);
    o.earlier = l.rows;
    if (!st)
        st = cag_kb_batch(k, &o, next_line, take_row, &l, &r, err);
    if (!st)
        st = cag_rows_end(l.rows, true, err);
    cag_rows_close(l.rows);
    unlink(part);
    cag_kb_close(k);
    return st;
}

/* A shard that takes rows of another one's file, its end, and the check. */
static cag_status scene_shard(struct result *res, cag_error *err)
{
    static const char *const rows[] = { "{\"question\":\"Who?\"}",
                                        "{\"question\":\"Where?\"}",
                                        "{\"question\":\"When?\"}", NULL };
    struct lines l = { rows, 0, res, NULL };
    char path[64], part[64], sibling[64], *line = NULL;
    const char *files[] = { path, sibling };
    cag_batch_opts o;
    cag_batch_report r;
    cag_shards all;
    cag_shard end;
    cag_kb *k = NULL;
    size_t n;
    cag_status st = open_kb(&k, false, err);

    in_dir(path, "memory/shard.0");
    in_dir(part, "memory/shard.0.part");
    write_text(in_dir(sibling, "memory/shard.1"),
               "{\"line\":7,\"question\":\"When?\",\"options\":\"none\","
               "\"answer\":\"\"}\n");
    cag_batch_opts_init(&o);
    o.parallel = 2;
    o.n_shard = 2;
    if (!st)
        st = cag_rows_open(path, true, NULL, 0, &l.rows, err);
    if (!st)
        st = cag_rows_also(l.rows, sibling, err);
    o.earlier = l.rows;
    if (!st)
        st = cag_kb_batch(k, &o, next_line, take_row, &l, &r, err);
    if (!st)
        st = cag_shard_of(k, &o, &r, &end, err);
    if (!st)
        st = cag_shard_line(&end, &line, &n, err);
    if (!st)
        st = take_row(&l, line, n, CAG_ROW_FAILED, err);
    if (!st)
        st = cag_rows_end(l.rows, true, err);
    if (!st)
        st = cag_shards_check(files, 2, &all, err);
    if (!st) {
        add(res, all.missing, sizeof *all.missing * (size_t)all.n_missing);
        cag_shards_release(&all);
    }
    cag_free(line);
    cag_rows_close(l.rows);
    unlink(part);
    unlink(path);
    cag_kb_close(k);
    return st;
}

static cag_status scene_export(struct result *res, cag_error *err)
{
    cag_kvc *k = NULL;
    cag_status st = cag_kvc_open(kb, &k, err);

    if (!st)
        st = cag_kvc_export(k, out, -1, NULL, NULL, err);
    if (!st)
        memcpy(res->file, out, sizeof out);
    cag_kvc_close(k);
    return st;
}

static cag_status scene_open(struct result *res, cag_error *err)
{
    cag_kvc *k = NULL;
    cag_status st = cag_kvc_open(kb, &k, err);
    const cag_tokenizer *t;
    size_t n;

    if (st)
        return st;
    add(res, cag_kvc_text(k, &n), 64);
    st = kvc_tokenizer(k, &t, err);
    if (!st)
        st = cag_kvc_verify(k, 1, NULL, NULL, err);
    cag_kvc_close(k);
    return st;
}

static cag_status scene_diff(struct result *res, cag_error *err)
{
    cag_kvc *a = NULL, *b = NULL;
    cag_diff d = { 0 };
    cag_status st = cag_kvc_open(kb, &a, err);

    if (!st)
        st = cag_kvc_open(other, &b, err);
    if (!st)
        st = cag_kvc_diff(a, b, &d, err);
    if (!st)
        for (int i = 0; i < d.n_line; i++)
            add(res, d.line[i], strlen(d.line[i]));
    cag_diff_release(&d);
    cag_kvc_close(a);
    cag_kvc_close(b);
    return st;
}

static cag_status scene_recode(struct result *res, cag_error *err)
{
    cag_status st = cag_kvc_recode(kb, "f16", kb16, -1, 1, 0, err);

    if (!st)
        memcpy(res->file, kb16, sizeof kb16);
    return st;
}

static cag_status scene_render(struct result *res, cag_error *err)
{
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"hi\"}]";
    cag_places places = { .models = "tests/golden/models" };
    cag_prompt_view v = { 0 };
    cag_status st =
        cag_render_prompt("qwen3", NULL, messages, sizeof messages - 1, false,
                          1764000000, &places, &v, err);

    if (!st)
        add(res, v.text, v.size);
    cag_free(v.text);
    return st;
}

/* ----------------------------------------------------------------- harness */

static int64_t asked; /* allocations of the last run */
static bool counted;  /* false: a block may stay for later runs */

struct scene {
    const char *name;
    cag_status (*run)(struct result *res, cag_error *err);
    const char *start; /* what lies at out before each run, or NULL */
};

static void put_start(const struct scene *s)
{
    unlink(out);
    if (s->start)
        copy_file(s->start, out);
}

/* The old file is whole after a failure. */
static void check_start(const struct scene *s, int64_t n)
{
    struct result is = { .n = 0 }, was = { .n = 0 };

    if (!s->start) {
        if (file_exists(out))
            fail_msg("%s: allocation %lld failed, and there is a file", s->name,
                     (long long)n);
        return;
    }
    add_file(&is, out);
    add_file(&was, s->start);
    if (memcmp(is.data, was.data, was.n))
        fail_msg("%s: allocation %lld failed, and the old file changed",
                 s->name, (long long)n);
}

/* Run it with the nth allocation failing; what it made is added to res. */
static cag_status run_once(const struct scene *s, int64_t n, bool sticky,
                           struct result *res, cag_error *err)
{
    int64_t live;
    cag_status st;

    put_start(s);
    memset(res, 0, sizeof *res);
    live = mem_live();
    mem_fault(n, sticky);
    st = s->run(res, err);
    asked = mem_count();
    mem_fault(0, false);
    if (mem_live() != live && counted)
        fail_msg("%s: allocation %lld: %lld blocks are left (%s)", s->name,
                 (long long)n, (long long)(mem_live() - live),
                 cag_status_name(st));
    counted = true;
    if (res->file[0])
        add_file(res, res->file);
    return st;
}

static void fail_at(const struct scene *s, const struct result *want, int64_t n,
                    bool sticky)
{
    static struct result got;
    cag_error err = CAG_ERROR_INIT;
    cag_status st = run_once(s, n, sticky, &got, &err);

    if (st != CAG_OK && st != CAG_E_NOMEM)
        fail_msg("%s: allocation %lld: %s: %s", s->name, (long long)n,
                 cag_status_name(st), err.msg);
    if (st == CAG_E_NOMEM && (err.status != st || !err.msg[0]))
        fail_msg("%s: allocation %lld: no message", s->name, (long long)n);
    if (st == CAG_OK &&
        (got.n != want->n || memcmp(got.data, want->data, want->n)))
        fail_msg("%s: allocation %lld changed the result", s->name,
                 (long long)n);
    if (st)
        check_start(s, n);
    assert_int_equal(n_temporary(), 0);
}

static void run_scene(void **state)
{
    const struct scene *s = *state;
    static struct result want;
    cag_error err = CAG_ERROR_INIT;
    bool all = getenv("CAG_TEST_LONG") != NULL;
    int64_t total = 0, step;
    const char *only = getenv("CAG_TEST_N");

    /* once for what is made once per process, once to count */
    for (int i = 0; i < 2; i++) {
        counted = i > 0;
        if (run_once(s, INT64_MAX, false, &want, &err))
            fail_msg("%s: %s: %s: %s", s->name, cag_status_name(err.status),
                     err.file, err.msg);
        total = asked;
    }
    if (only) {
        fail_at(s, &want, strtoll(only, NULL, 10), false);
        return;
    }
    step = all || total < CHECK_RUNS ? 1 : total / CHECK_RUNS;
    for (int64_t n = 1; n <= total; n += step) {
        fail_at(s, &want, n, false);
        if (all || n % 3 == 0)
            fail_at(s, &want, n, true);
    }
    print_message("# %s: %lld allocations\n", s->name, (long long)total);
}

static int set_up(void **state)
{
    static const char *const cat[] = { "cat", NULL };
    cag_build_opts o;
    cag_source_spec spec;

    (void)state;
    if (fault_set_up())
        return -1;
    in_dir(kb, "kb.kvc");
    in_dir(kb16, "memory/kb16.kvc");
    in_dir(kbf, "memory/kbf.kvc");
    in_dir(other, "other.kvc");
    in_dir(out, "out.kvc");
    in_dir(memory, "memory");
    in_dir(yaml, "kb.yaml");
    if (mkdir(memory, 0700))
        return -1;
    write_text(yaml, "model: m.gguf\noutput: kb.kvc\nsources:\n"
                     "  - path: docs\n    title: The docs\n"
                     "  - path: '*.md'\n    filter: [cat, '{}']\n");
    build_opts(&o, other);
    build_ok(&o);
    set_text(FAULT_TEXT_B);
    o.output = kb;
    build_ok(&o);
    spec = o.source[0];
    spec.filter = cat;
    o.source = &spec;
    o.n_source = 1;
    o.output = kbf;
    build_ok(&o);
    return 0;
}

int main(void)
{
    static const struct scene scenes[] = {
        { "build", scene_build, NULL },
        { "build-gguf-f32", scene_build_gguf, NULL },
        { "build-q8h", scene_build_q8h, other },
        { "rebuild", scene_rebuild, other },
        { "plan", scene_plan, NULL },
        { "fresh", scene_fresh, NULL },
        { "fresh-filtered", scene_fresh_filtered, NULL },
        { "check", scene_check, NULL },
        { "manifest", scene_manifest, NULL },
        { "ask", scene_ask, NULL },
        { "ask-cold", scene_ask_cold, NULL },
        { "chat", scene_chat, NULL },
        { "batch", scene_batch, NULL },
        { "open-verify", scene_open, NULL },
        { "shard", scene_shard, NULL },
        { "export", scene_export, NULL },
        { "diff", scene_diff, NULL },
        { "recode", scene_recode, NULL },
        { "render", scene_render, NULL },
    };
    enum { N = sizeof scenes / sizeof *scenes };
    struct CMUnitTest tests[N];

    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ scenes[i].name, run_scene, NULL, NULL,
                                        (void *)(uintptr_t)&scenes[i] };
    return cmocka_run_group_tests(tests, set_up, fault_tear_down);
}

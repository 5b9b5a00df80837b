/*
 * test_tok_golden.c - ids against those of the tokenizers library.
 *
 * tests/tools/make_tok_golden.py records them: for every text the ids as
 * plain text and, where they differ, as template text.  Every tokenizer is
 * tried through its blob, opened again, and where there is a GGUF of the
 * same vocabulary, from that too.
 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include <zstd.h>

#include "tests/lib/gguf_make.h"
#include "tokenizer/tokenizer.h"
#include "util/file.h"
#include "util/json.h"
#include "util/mem.h"

#define DIR "tests/golden/tok/"

static void ok(cag_status st, const cag_error *err)
{
    if (st != CAG_OK)
        fail_msg("%s: %s: %s", cag_status_name(st), err->file, err->msg);
}

/* ---- a tokenizer for a golden file -------------------------------------- */

static void read_zst(const char *path, struct buf *out)
{
    cag_error err = CAG_ERROR_INIT;
    struct buf packed = BUF_INIT;
    ok(file_read(path, (size_t)1 << 26, &packed, &err), &err);
    size_t n = (size_t)ZSTD_getFrameContentSize(packed.data, packed.size);
    assert_true(n < (size_t)1 << 26);
    char *text = mem_alloc(n);
    assert_non_null(text);
    assert_int_equal(ZSTD_decompress(text, n, packed.data, packed.size), n);
    buf_add(out, text, n);
    mem_free(text);
    buf_free(&packed);
}

/* Replace members of root by those of patch; "model" member by member. */
static void apply(jv *root, const jv *patch)
{
    for (void *it = jv_iter(patch); it; it = jv_next(patch, it)) {
        size_t n;
        const char *key = jv_iter_key(it, &n);
        const jv *value = jv_iter_value(it);
        if (strcmp(key, "model") == 0) {
            jv *model = jv_copy(jv_get(root, "model"));
            apply(model, value);
            assert_true(jv_set(root, "model", model));
        } else {
            assert_true(jv_set(root, key, jv_copy(value)));
        }
    }
}

/* The golden's source, patched. */
static cag_tokenizer *load_patched(const jv *golden)
{
    cag_error err = CAG_ERROR_INIT;
    cag_tokenizer *t = NULL;
    struct buf text = BUF_INIT;
    char path[256];
    const char *source = jv_get_str(golden, "source", "");

    if (strstr(source, ".zst")) {
        snprintf(path, sizeof path, DIR "%s", source);
        read_zst(path, &text);
    } else {
        snprintf(path, sizeof path, DIR "%s/tokenizer.json", source);
        ok(file_read(path, (size_t)1 << 26, &text, &err), &err);
    }
    if (jv_count(jv_get(golden, "patch"))) {
        jv *root = NULL;
        ok(jv_parse(text.data, text.size, path, &root, &err), &err);
        apply(root, jv_get(golden, "patch"));
        buf_clear(&text);
        jv_dump(root, &text);
        jv_free(root);
    }
    ok(tok_from_json(text.data, text.size, path, &t, &err), &err);
    buf_free(&text);
    return t;
}

/* ---- comparing ---------------------------------------------------------- */

static void check_ids(const char *name, const char *text, size_t n,
                      const jv *want, const cag_ids *got)
{
    bool same = jv_count(want) == got->n;
    for (size_t i = 0; same && i < got->n; i++)
        same = jv_int(jv_at(want, i), -1) == got->id[i];
    if (same)
        return;
    print_message("# %s: text of %zu bytes: \"%s\"\n# want:", name, n, text);
    for (size_t i = 0; i < jv_count(want); i++)
        print_message(" %d", (int)jv_int(jv_at(want, i), -1));
    print_message("\n# got: ");
    for (size_t i = 0; i < got->n; i++)
        print_message(" %d", got->id[i]);
    print_message("\n");
    fail_msg("%s: other ids", name);
}

/* The start of the character that holds byte at, or the last byte. */
static size_t char_start(const char *text, size_t n, size_t at)
{
    if (at >= n)
        at = n - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    return at;
}

/*
 * Offsets never go back and are at character starts.  Where decoding gives
 * the text back, an id begins where the ids before it end; a tokenizer's
 * own leading space is no byte of the text.
 */
static void check_offsets(const cag_tokenizer *t, const char *text, size_t n,
                          const cag_ids *ids)
{
    cag_error err = CAG_ERROR_INIT;
    char *back = NULL;
    size_t size, at = 0, sum = 0, len;

    ok(cag_decode(t, ids->id, ids->n, true, &back, &size, &err), &err);
    bool exact = size == n && memcmp(back, text, n) == 0;
    for (size_t i = 0; i < ids->n; i++) {
        cag_token_bytes(t, ids->id[i], true, &len);
        sum += len;
    }
    for (size_t i = 0; i < ids->n; i++) {
        size_t off = (size_t)ids->off[i];
        assert_true(off < n);
        assert_true(i == 0 || ids->off[i] >= ids->off[i - 1]);
        assert_int_equal(off, char_start(text, n, off));
        if (exact)
            assert_int_equal(
                off, char_start(text, n, at > sum - n ? at - (sum - n) : 0));
        cag_token_bytes(t, ids->id[i], true, &len);
        at += len;
    }
    mem_free(back);
}

static void check_case(const char *name, const cag_tokenizer *t, const jv *c)
{
    cag_error err = CAG_ERROR_INIT;
    size_t n;
    const char *text = jv_str(jv_get(c, "t"), &n);
    const jv *plain = jv_get(c, "p"), *tmpl = jv_get(c, "s");

    for (unsigned flags = 0; flags <= CAG_TEXT_TEMPLATE; flags++) {
        cag_ids ids = CAG_IDS_INIT, cut = CAG_IDS_INIT;
        cag_text piece = { text, n, flags };
        ok(cag_encode(t, &piece, 1, CAG_ENCODE_OFFSETS, &ids, &err), &err);
        check_ids(name, text, n, flags && tmpl ? tmpl : plain, &ids);
        check_offsets(t, text, n, &ids);
        /* a border between pieces of one kind changes nothing */
        size_t k = n ? char_start(text, n, n / 2) : 0;
        cag_text two[2] = { { text, k, flags }, { text + k, n - k, flags } };
        ok(cag_encode(t, two, 2, 0, &cut, &err), &err);
        assert_null(cut.off);
        assert_int_equal(cut.n, ids.n);
        assert_memory_equal(cut.id, ids.id, ids.n * sizeof *ids.id);
        /* what is refused by its size would not have fitted */
        assert_true(tok_least_ids(t, &piece, 1) <= ids.n);
        assert_true(tok_least_ids(t, two, 2) <= ids.n);
        cag_ids_free(&cut);
        cag_ids_free(&ids);
    }
}

/* One word of many units; p is [[id, how often], ...]. */
static void check_run(const char *name, const cag_tokenizer *t, const jv *c)
{
    cag_error err = CAG_ERROR_INIT;
    const jv *want = jv_get(c, "p");
    const char *unit = jv_get_str(c, "t", "");
    struct buf text = BUF_INIT;
    cag_ids ids = CAG_IDS_INIT;
    size_t at = 0;

    for (int64_t i = jv_get_int(c, "n", 0); i > 0; i--)
        buf_str(&text, unit);
    assert_true(text.size > 10000);
    const cag_text piece = { text.data, text.size, 0 };
    ok(cag_encode(t, &piece, 1, 0, &ids, &err), &err);
    for (size_t i = 0; i < jv_count(want); i++) {
        int64_t n = jv_int(jv_at(jv_at(want, i), 1), 0);
        while (n-- > 0 && at < ids.n) {
            if (ids.id[at++] != jv_int(jv_at(jv_at(want, i), 0), -1))
                fail_msg("%s: run of \"%s\": id %zu differs", name, unit,
                         at - 1);
        }
        assert_int_equal(n, -1);
    }
    assert_int_equal(at, ids.n);
    cag_ids_free(&ids);
    buf_free(&text);
}

static jv *load_golden(const char *name)
{
    cag_error err = CAG_ERROR_INIT;
    char path[256];
    jv *golden = NULL;
    snprintf(path, sizeof path, DIR "%s.golden.json", name);
    ok(jv_parse_file(path, (size_t)1 << 24, &golden, &err), &err);
    assert_true(jv_count(jv_get(golden, "cases")) > 50);
    return golden;
}

/* All cases, on a tokenizer opened from t's blob; t is freed. */
static void check_all(const char *name, const jv *golden, cag_tokenizer *t)
{
    cag_error err = CAG_ERROR_INIT;
    cag_tokenizer *again = NULL;
    const jv *cases = jv_get(golden, "cases"), *runs = jv_get(golden, "runs");
    size_t size;
    const void *blob = tok_blob(t, &size);
    void *copy = mem_alloc(size);

    assert_non_null(copy);
    memcpy(copy, blob, size);
    tok_free(t);
    ok(tok_from_blob(copy, size, name, &again, &err), &err);
    for (size_t i = 0; i < jv_count(cases); i++)
        check_case(name, again, jv_at(cases, i));
    for (size_t i = 0; i < jv_count(runs); i++)
        check_run(name, again, jv_at(runs, i));
    tok_free(again);
    mem_free(copy);
}

static void family(const char *name)
{
    jv *golden = load_golden(name);
    check_all(name, golden, load_patched(golden));
    jv_free(golden);
}

static void family_gguf(const char *name, const char *path)
{
    cag_error err = CAG_ERROR_INIT;
    jv *golden = load_golden(name);
    struct gguf *g = NULL;
    cag_tokenizer *t = NULL;
    ok(gguf_open(path, &g, &err), &err);
    ok(tok_from_gguf(g, &t, &err), &err);
    check_all(path, golden, t);
    gguf_close(g);
    jv_free(golden);
}

/* ---- the families ------------------------------------------------------- */

static void qwen3(void **state)
{
    (void)state;
    family("qwen3");
}

static void llama3(void **state)
{
    (void)state;
    family("llama3_like");
    family_gguf("llama3_like", DIR "llama3_like.gguf");
}

static void mistral(void **state)
{
    (void)state;
    family("spm_like");
    family_gguf("spm_like", DIR "spm_like.gguf");
}

static void smollm2(void **state)
{
    static const char path[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    (void)state;
    if (!file_exists(path))
        skip();
    family_gguf("smollm2", path);
}

static void byte_level_variants(void **state)
{
    static const char *const name[] = { "llama3_flags",    "llama3_blank",
                                        "llama3_gpt2",     "llama3_digits",
                                        "llama3_removed",  "llama3_gaps",
                                        "llama3_previous", "llama3_next",
                                        "llama3_gpt4o" };
    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        family(name[i]);
}

static void spm_variants(void **state)
{
    static const char *const name[] = { "spm_meta_first", "spm_meta_always",
                                        "spm_meta_never", "spm_unk",
                                        "spm_unk_each" };
    (void)state;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        family(name[i]);
}

/* Random pipelines: the order of normalizer, added tokens and pre-tokenizer
 * (make_tok_pipelines.py). */
static void pipelines(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    jv *golden = NULL;

    (void)state;
    ok(jv_parse_file(DIR "pipelines.json", (size_t)1 << 24, &golden, &err),
       &err);
    const jv *all = jv_get(golden, "pipelines");
    assert_true(jv_count(all) > 100);
    for (size_t i = 0; i < jv_count(all); i++) {
        const jv *p = jv_at(all, i);
        const jv *base =
            jv_get(jv_get(golden, "base"), jv_get_str(p, "base", ""));
        jv *root = jv_copy(base);
        struct buf text = BUF_INIT;
        cag_tokenizer *t = NULL;
        char name[32];

        snprintf(name, sizeof name, "pipeline %zu", i);
        apply(root, jv_get(p, "patch"));
        jv_dump(root, &text);
        ok(tok_from_json(text.data, text.size, name, &t, &err), &err);
        check_all(name, p, t);
        buf_free(&text);
        jv_free(root);
    }
    jv_free(golden);
}

static void put_strings(struct gm *m, const char *key, const jv *list)
{
    gm_key(m, key, GGUF_V_ARRAY);
    gm_u32(&m->kv, GGUF_V_STR);
    gm_u64(&m->kv, jv_count(list));
    for (size_t i = 0; i < jv_count(list); i++)
        gm_str(&m->kv, jv_str(jv_at(list, i), NULL));
}

/* The names of tokenizer.ggml.pre (make_tok_pre.py). */
static void named_patterns(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    jv *golden = NULL;
    size_t n = 0;

    (void)state;
    ok(jv_parse_file(DIR "pre.json", (size_t)1 << 24, &golden, &err), &err);
    const jv *groups = jv_get(golden, "groups");
    for (size_t i = 0; i < jv_count(groups); i++) {
        const jv *names = jv_get(jv_at(groups, i), "names");
        for (size_t k = 0; k < jv_count(names); k++, n++) {
            const char *name = jv_str(jv_at(names, k), NULL);
            struct gguf *g = NULL;
            cag_tokenizer *t = NULL;
            struct gm m;

            gm_init(&m);
            gm_kv_str(&m, "tokenizer.ggml.model", "gpt2");
            gm_kv_str(&m, "tokenizer.ggml.pre", name);
            put_strings(&m, "tokenizer.ggml.tokens", jv_get(golden, "tokens"));
            put_strings(&m, "tokenizer.ggml.merges", jv_get(golden, "merges"));
            gm_kv_u32(&m, "tokenizer.ggml.bos_token_id", 0);
            gm_finish(&m);
            ok(gguf_parse(m.file.data, m.file.size, name, &g, &err), &err);
            ok(tok_from_gguf(g, &t, &err), &err);
            check_all(name, jv_at(groups, i), t);
            gguf_close(g);
            gm_free(&m);
        }
    }
    assert_true(n > 30);
    jv_free(golden);
}

/* What is not known to give the library's ids is refused by both names. */
static void refused_pairs(void **state)
{
    static const struct {
        const char *normalizer, *split, *msg;
    } cases[] = {
        { "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
          "\"content\":\"\xe2\x96\x81\"}",
          "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+\"},"
          "\"behavior\":\"Isolated\",\"invert\":false}",
          "normalizer Replace before pre-tokenizer Split by Regex \"\\s+\"" },
        { "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
          "\"content\":\"\xe2\x96\x81\"}",
          "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},"
          "\"behavior\":\"Removed\",\"invert\":true}",
          "normalizer Replace before inverted pre-tokenizer Split" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cag_error err = CAG_ERROR_INIT;
        cag_tokenizer *t = NULL;
        struct buf text = BUF_INIT;

        buf_printf(&text,
                   "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":"
                   "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
                   cases[i].normalizer, cases[i].split);
        assert_int_equal(tok_from_json(text.data, text.size, "t", &t, &err),
                         CAG_E_UNSUPPORTED);
        if (!strstr(err.msg, cases[i].msg))
            fail_msg("%s", err.msg);
        buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3),
        cmocka_unit_test(llama3),
        cmocka_unit_test(mistral),
        cmocka_unit_test(smollm2),
        cmocka_unit_test(byte_level_variants),
        cmocka_unit_test(spm_variants),
        cmocka_unit_test(pipelines),
        cmocka_unit_test(named_patterns),
        cmocka_unit_test(refused_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

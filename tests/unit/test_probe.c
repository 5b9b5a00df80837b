/*
 * test_probe.c - reading lists of ids, and what a probe gives back.
 */
#include "tests/lib/kvc_fixture.h"

#include "tests/lib/mtest.h"

#include <cag/tool/probe.h>

static char *dir, *path;

static int setup(void **state)
{
    (void)state;
    dir = fix_mkdir();
    path = file_join(dir, "ids.json");
    return path != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    rmdir(dir);
    mem_free(path);
    mem_free(dir);
    return 0;
}

static cag_status read_text(const char *text, cag_probe_ids **out,
                            cag_error *err)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return cag_probe_read(path, out, err);
}

static void lists(void **state)
{
    cag_probe_ids *p = NULL;
    const int32_t *ids;
    int n;

    (void)state;
    OK(read_text("[1, 2, 2147483647]", &p, err));
    assert_int_equal(cag_probe_n_list(p), 1);
    ids = cag_probe_list(p, 0, &n);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[2], 2147483647);
    cag_probe_free(p);
    OK(read_text(" [[7],[0,5]]\n", &p, err));
    assert_int_equal(cag_probe_n_list(p), 2);
    ids = cag_probe_list(p, 1, &n);
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 5);
    cag_probe_free(p);
    cag_probe_free(NULL);
}

static void bad_lists(void **state)
{
    static const char *const bad[] = { "",         "[]",      "{}",
                                       "7",        "[1,",     "[1, -1]",
                                       "[1, 1.5]", "[\"1\"]", "[[1],2]",
                                       "[[1],[]]", "[1,[2]]", "[2147483648]",
                                       "[null]",   "[[[1]]]", "[1] 2" };
    cag_probe_ids *p = NULL;
    int64_t live = mem_live();

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cag_error err = CAG_ERROR_INIT;
        if (read_text(bad[i], &p, &err) != CAG_E_FORMAT)
            fail_msg("%s was not refused", bad[i]);
        assert_string_equal(err.file, path);
        assert_true(err.msg[0] != '\0');
    }
    assert_null(p);
    assert_int_equal(cag_probe_read("/nonexistent/x", &p, NULL), CAG_E_MISSING);
    assert_int_equal(mem_live(), live);
}

static void run(void **state)
{
    cag_model *m = mt_model("models/llama.F32.gguf");
    cag_engine *e = mt_engine(m, 2, 0, CAG_PRECISION_EXACT, true);
    cag_probe_result r = { NULL, 0, NULL, 0 }, all = r;
    cag_probe_opts o = { 5, 4, false }, whole = { 0, 100000, true };
    int32_t ids[40], beyond[2] = { 1, 325 };
    int64_t live;

    (void)state;
    mt_ids(ids, 40, 20260112, mt_vocab(m));
    OK(cag_probe_run(e, &o, ids, 1, &r, err));
    /* recorded: tests/golden/logits/llama.json, one token, f32 */
    static const int32_t next[] = { 165, 38, 0, 140, 315 };
    static const int32_t top[] = { 165, 176, 232, 314 };
    assert_int_equal(r.n_next, 5);
    assert_int_equal(r.n_top, 4);
    for (int i = 0; i < 5; i++)
        assert_int_equal(r.next[i], next[i]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(r.top[i].id, top[i]);
    assert_true(r.top[0].logit > 7.274f && r.top[0].logit < 7.275f);

    /* all logits, in order; by steps what the prompt gave */
    OK(cag_probe_run(e, &whole, ids, 1, &all, err));
    assert_int_equal(all.n_top, mt_vocab(m));
    assert_int_equal(all.n_next, 0);
    for (int i = 1; i < all.n_top; i++)
        assert_true(all.top[i - 1].logit >= all.top[i].logit);
    for (int i = 0; i < 4; i++)
        assert_int_equal(all.top[i].id, top[i]);
    cag_probe_release(&all);
    cag_probe_release(&r);

    assert_int_equal(cag_probe_run(e, &o, beyond, 2, &r, NULL), CAG_E_USAGE);
    assert_int_equal(cag_probe_run(e, &o, ids, 0, &r, NULL), CAG_E_USAGE);
    live = mem_live();
    for (int n = 1;; n++) {
        mem_fault(n, true);
        cag_status st = cag_probe_run(e, &o, ids, 40, &r, NULL);
        mem_fault(0, false);
        if (st == CAG_OK)
            break;
        assert_int_equal(st, CAG_E_NOMEM);
        assert_int_equal(mem_live(), live);
        assert_null(r.next);
        assert_in_range(n, 1, 50);
    }
    cag_probe_release(&r);
    cag_engine_free(e);
    cag_model_close(m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(bad_lists),
        cmocka_unit_test(run),
    };

    return cmocka_run_group_tests_name("probe", tests, setup, teardown);
}

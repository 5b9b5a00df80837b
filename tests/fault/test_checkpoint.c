/*
 * test_checkpoint.c - a build that is cancelled or killed anywhere goes on
 * from its checkpoint, and the file is the same byte for byte as one that was
 * built in one go.
 */
#include "tests/lib/unit.h"

#include "tests/lib/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define N_LINE 36 /* of the long text */

static char out[64], ckpt[64], ref[64];
static uint8_t want[SHA256_SIZE];

struct stop {
    int calls, at; /* cancel from this call on; 0 never */
    bool writing;  /* cancel as soon as the file is written */
    int n_warn;
};

static bool on_progress(void *ctx, const cag_progress *p)
{
    struct stop *s = ctx;

    assert_true(p->done <= p->total);
    s->calls++;
    if (s->writing && !strcmp(p->what, "write"))
        return false;
    return s->at == 0 || s->calls < s->at; /* a signal is not taken back */
}

static void on_note(void *ctx, cag_note kind, const char *line)
{
    struct stop *s = ctx;

    (void)line;
    s->n_warn += kind == CAG_NOTE_WARN;
}

static void options(cag_build_opts *o, const char *to, struct stop *s)
{
    build_opts(o, to);
    o->engine.pass_rows = 64;
    o->checkpoint = true;
    o->checkpoint_s = 1e-6;
    if (s) {
        o->hooks.progress = on_progress;
        o->hooks.note = on_note;
        o->hooks.ctx = s;
    }
}

/* Build; how many tokens, and how many of them from a checkpoint. */
static cag_status counted(struct stop *s, int64_t *n_tok, int64_t *resumed)
{
    cag_build_opts o;
    cag_build_report r;
    cag_error err = CAG_ERROR_INIT;
    cag_status st;

    options(&o, out, s);
    st = cag_build(&o, &r, &err);
    if (st && st != CAG_E_CANCELLED)
        fail_msg("%s: %s", err.file, err.msg);
    *n_tok = r.n_tok;
    *resumed = r.n_tok_resumed;
    cag_build_report_release(&r);
    return st;
}

static void check_same(void)
{
    uint8_t is[SHA256_SIZE];

    sha_of(out, is);
    assert_memory_equal(is, want, sizeof is);
    assert_false(file_exists(ckpt));
    assert_int_equal(n_temporary(), 0);
}

/* A cancelled build has left nothing but its checkpoint; the next one ends. */
static void go_on(int64_t *n_tok, int64_t *resumed)
{
    struct stop s = { 0, 0, false, 0 };

    assert_false(file_exists(out));
    assert_int_equal(n_temporary(), 0);
    assert_int_equal(counted(&s, n_tok, resumed), CAG_OK);
    assert_int_equal(s.n_warn, 0);
    check_same();
}

static void cancelled_anywhere(void **state)
{
    int64_t n_tok, resumed;
    int calls, n_stopped = 0;

    (void)state;
    {
        struct stop s = { 0, 0, false, 0 };

        unlink(out);
        assert_int_equal(counted(&s, &n_tok, &resumed), CAG_OK);
        assert_int_equal(resumed, 0);
        calls = s.calls;
        check_same();
    }
    assert_true(calls > 20);
    for (int at = 1; at <= calls; at += at < 4 ? 1 : calls / 12) {
        struct stop s = { 0, at, false, 0 };

        unlink(out);
        /* how often a slow machine asks differs from run to run */
        if (counted(&s, &n_tok, &resumed) == CAG_OK) {
            assert_true(s.calls < at);
            continue;
        }
        go_on(&n_tok, &resumed);
        n_stopped++;
    }
    assert_true(n_stopped >= 3);
    {
        struct stop s = { 0, 0, true, 0 };

        unlink(out);
        assert_int_equal(counted(&s, &n_tok, &resumed), CAG_E_CANCELLED);
        go_on(&n_tok, &resumed);
        assert_int_equal(resumed, n_tok); /* nothing was computed again */
    }
}

static void killed_anywhere(void **state)
{
    int kills = getenv("CAG_TEST_LONG") ? 200 : 12, resumed_runs = 0;
    struct timespec begin, end;
    int64_t n_tok, resumed, span;
    uint64_t seed = 7;

    (void)state;
    unlink(out);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(counted(NULL, &n_tok, &resumed), CAG_OK);
    clock_gettime(CLOCK_MONOTONIC, &end);
    span =
        (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
    for (int i = 0; i < kills; i++) {
        pid_t pid;
        int status;

        unlink(out);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            cag_build_opts o;
            cag_build_report r;

            options(&o, out, NULL);
            _exit(cag_build(&o, &r, NULL) ? 1 : 0);
        }
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        nanosleep(&(struct timespec){ 0, (long)((seed >> 33) % (uint64_t)span) %
                                             999999999 },
                  NULL);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        assert_int_equal(counted(NULL, &n_tok, &resumed), CAG_OK);
        resumed_runs += resumed > 0;
        check_same();
    }
    print_message("# %d of %d killed builds were resumed\n", resumed_runs,
                  kills);
}

/* Leave a checkpoint behind, cut short at about the given share of calls. */
static void leave(int percent)
{
    struct stop s = { 0, 0, false, 0 };
    int64_t n_tok, resumed;
    int calls;

    unlink(out);
    assert_int_equal(counted(&s, &n_tok, &resumed), CAG_OK);
    calls = s.calls;
    unlink(out);
    s = (struct stop){ 0, calls * percent / 100, false, 0 };
    assert_int_equal(counted(&s, &n_tok, &resumed), CAG_E_CANCELLED);
    assert_true(file_exists(ckpt));
}

static void is_no_cache(void **state)
{
    cag_error err = CAG_ERROR_INIT;
    cag_check_report check;
    cag_build_report r;
    cag_build_opts b;
    cag_kb_opts o;
    cag_kb *kb;
    cag_kvc *k;
    struct stat sb;

    (void)state;
    leave(50);
    assert_int_equal(stat(ckpt, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_int_equal(cag_kvc_open(ckpt, &k, &err), CAG_OK);
    assert_int_equal(cag_kvc_verify(k, 1, NULL, NULL, &err), CAG_OK);
    assert_int_equal(cag_check(k, NULL, NULL, false, &check, &err),
                     CAG_E_UNSUPPORTED);
    cag_check_report_release(&check);
    cag_kvc_close(k);
    build_opts(&b, NULL);
    assert_int_equal(cag_refresh(ckpt, &b, &r, &err), CAG_E_UNSUPPORTED);
    cag_build_report_release(&r);
    cag_kb_opts_init(&o);
    o.model = FAULT_MODEL;
    assert_int_equal(cag_kb_open(ckpt, &o, &kb, &err), CAG_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "checkpoint"));
}

/* Other texts: what they share is taken.  Nothing shared, damage, or a file
 * of somebody else: ignored. */
static void ignored(void **state)
{
    struct stop s = { 0, 0, false, 0 };
    int64_t n_tok, resumed;
    struct stat sb;
    uint8_t d[SHA256_SIZE];
    int fd;

    (void)state;
    leave(60);
    set_text(FAULT_TEXT_B);
    assert_int_equal(counted(&s, &n_tok, &resumed), CAG_OK);
    assert_true(resumed > 0 && resumed < n_tok);
    assert_false(file_exists(ckpt));
    set_text(FAULT_TEXT_A);

    leave(60);
    assert_int_equal(stat(ckpt, &sb), 0);
    fd = open(ckpt, O_RDWR);
    assert_int_equal(pwrite(fd, "XXXX", 4, sb.st_size / 2), 4);
    close(fd);
    s = (struct stop){ 0, 0, false, 0 };
    assert_int_equal(counted(&s, &n_tok, &resumed), CAG_OK);
    assert_int_equal(resumed, 0);
    assert_true(s.n_warn > 0);
    sha_of(out, d);
    assert_memory_equal(d, want, sizeof d);

    write_text(ckpt, "my own notes\n");
    unlink(out);
    {
        cag_build_opts o;

        options(&o, out, NULL);
        o.checkpoint = false;
        build_ok(&o);
    }
    assert_true(file_exists(ckpt));
    unlink(ckpt);
}

struct late {
    bool cancel;
    unsigned fifths; /* of the receipt that are done by then */
};

static bool on_receipt(void *ctx, const cag_progress *p)
{
    struct late *l = ctx;

    assert_true(p->done <= p->total);
    return !l->cancel || strcmp(p->what, "receipt") ||
           5 * p->done < p->total * l->fifths;
}

/* While the loss is measured, in the second pass and among the values. */
static void cancelled_receipt(const uint8_t one_go[SHA256_SIZE])
{
    struct late l = { false, 0 };
    cag_error err = CAG_ERROR_INIT;
    cag_build_opts o;
    cag_build_report r;
    uint8_t d[SHA256_SIZE];

    build_opts(&o, out);
    o.codec = "q8h";
    o.engine.pass_rows = 64;
    o.checkpoint = true;
    o.hooks.progress = on_receipt;
    o.hooks.ctx = &l;
    o.force = true;
    for (unsigned fifths = 0; fifths < 5; fifths++) {
        unlink(out);
        l = (struct late){ true, fifths };
        assert_int_equal(cag_build(&o, &r, &err), CAG_E_CANCELLED);
        cag_build_report_release(&r);
        assert_false(file_exists(out));
        assert_int_equal(n_temporary(), 0);
        assert_true(file_exists(ckpt));
        l = (struct late){ false, 0 };
        o.force = false;
        assert_int_equal(cag_build(&o, &r, &err), CAG_OK);
        assert_int_equal(r.n_tok_resumed, r.n_tok - 256);
        cag_build_report_release(&r);
        sha_of(out, d);
        assert_memory_equal(one_go, d, sizeof d);
        assert_false(file_exists(ckpt));
    }
}

/* Of codec q8h f16 is saved, and the last tokens' queries computed again. */
static void coded(void **state)
{
    struct stop s = { 0, 0, true, 0 };
    cag_error err = CAG_ERROR_INIT;
    uint8_t one_go[SHA256_SIZE], resumed[SHA256_SIZE];
    cag_build_opts o;
    cag_build_report r;
    cag_kvc *k;

    (void)state;
    unlink(out);
    options(&o, out, NULL);
    o.codec = "q8h";
    build_ok(&o);
    sha_of(out, one_go);
    unlink(out);
    options(&o, out, &s);
    o.codec = "q8h";
    assert_int_equal(cag_build(&o, &r, &err), CAG_E_CANCELLED);
    cag_build_report_release(&r);
    assert_int_equal(cag_kvc_open(ckpt, &k, &err), CAG_OK);
    assert_string_equal(cag_kvc_get_info(k)->codec, "f16");
    cag_kvc_close(k);
    s.writing = false;
    assert_int_equal(cag_build(&o, &r, &err), CAG_OK);
    assert_int_equal(r.n_tok_resumed, r.n_tok - 256);
    cag_build_report_release(&r);
    sha_of(out, resumed);
    assert_memory_equal(one_go, resumed, sizeof one_go);
    assert_false(file_exists(ckpt));
    cancelled_receipt(one_go);
}

static int set_up(void **state)
{
    char path[64];
    cag_build_opts o;
    FILE *f;

    (void)state;
    if (fault_set_up())
        return -1;
    in_dir(out, "out.kvc");
    in_dir(ckpt, "out.kvc.ckpt");
    in_dir(ref, "ref.kvc");
    f = fopen(in_dir(path, "docs/a.md"), "w");
    if (!f)
        return -1;
    for (int i = 0; i < N_LINE; i++)
        fprintf(f, "Line %d: r\xc3\xa9sum\xc3\xa9 %d.\n", i, i * 7919);
    fclose(f);
    build_opts(&o, ref);
    build_ok(&o);
    sha_of(ref, want);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_anywhere),
        cmocka_unit_test(killed_anywhere),
        cmocka_unit_test(is_no_cache),
        cmocka_unit_test(coded),
        cmocka_unit_test(ignored),
    };
    return cmocka_run_group_tests(tests, set_up, fault_tear_down);
}

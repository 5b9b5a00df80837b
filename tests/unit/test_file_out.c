/*
 * test_file_out.c - nobody ever sees half a file, whatever fails and when.
 */
#include "tests/lib/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Number of names in the current directory. */
static int names(void)
{
    DIR *d = opendir(".");
    struct dirent *e;
    int n = 0;

    while ((e = readdir(d)))
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static cag_status write_file(const char *path, const char *a, const char *b,
                             cag_error *err)
{
    struct file_out o;
    cag_status st = file_out_open(&o, path, -1, err);

    if (st)
        return st;
    if ((st = file_out_write(&o, a, strlen(a), err)) ||
        (st = file_out_write(&o, b, strlen(b), err))) {
        file_out_abort(&o);
        return st;
    }
    return file_out_commit(&o, err);
}

static void a_new_file(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(write_file("f", "one", "two", NULL), CAG_OK);
    assert_content("f", "onetwo");
    assert_int_equal(stat("f", &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    assert_int_equal(names(), 1);
}

static void invisible_until_commit(void **state)
{
    struct file_out o;

    (void)state;
    put("f", "old");
    assert_int_equal(file_out_open(&o, "f", -1, NULL), CAG_OK);
    assert_int_equal(file_out_write(&o, "new", 3, NULL), CAG_OK);
    assert_int_equal(file_out_pwrite(&o, "N", 1, 0, NULL), CAG_OK);
    assert_int_equal(o.off, 3);
    assert_content("f", "old");
    file_out_abort(&o);
    file_out_abort(&o);
    assert_content("f", "old");
    assert_int_equal(names(), 1);
    assert_int_equal(file_out_open(&o, "f", -1, NULL), CAG_OK);
    assert_int_equal(file_out_write(&o, "new", 3, NULL), CAG_OK);
    assert_int_equal(file_out_pwrite(&o, "N", 1, 0, NULL), CAG_OK);
    assert_int_equal(file_out_commit(&o, NULL), CAG_OK);
    assert_content("f", "New");
}

static void mode_of_the_old_file_is_kept(void **state)
{
    struct file_out o;
    struct stat s;

    (void)state;
    put("f", "old");
    assert_int_equal(chmod("f", 0640), 0);
    assert_int_equal(write_file("f", "n", "", NULL), CAG_OK);
    assert_int_equal(stat("f", &s), 0);
    assert_int_equal(s.st_mode & 07777, 0640);
    assert_int_equal(file_out_open(&o, "f", 0604, NULL), CAG_OK);
    assert_int_equal(file_out_commit(&o, NULL), CAG_OK);
    assert_int_equal(stat("f", &s), 0);
    assert_int_equal(s.st_mode & 07777, 0604);
}

static void a_link_is_followed(void **state)
{
    struct stat s;

    (void)state;
    assert_int_equal(mkdir("sub", 0700), 0);
    put("sub/real", "old");
    assert_int_equal(symlink("sub/real", "link"), 0);
    assert_int_equal(symlink("link", "link2"), 0);
    assert_int_equal(write_file("link2", "n", "ew", NULL), CAG_OK);
    assert_content("sub/real", "new");
    assert_int_equal(lstat("link2", &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(symlink("sub/later", "dangling"), 0);
    assert_int_equal(write_file("dangling", "x", "", NULL), CAG_OK);
    assert_content("sub/later", "x");
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(write_file("loop", "x", "", NULL), CAG_E_CREATE);
}

static void what_cannot_be_replaced_says_why(void **state)
{
    cag_error e = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(write_file("d", "x", "", &e), CAG_E_CREATE);
    assert_string_equal(e.msg, "is a directory");
    assert_int_equal(write_file("d/", "x", "", &e), CAG_E_CREATE);
    assert_int_equal(write_file("/dev/null", "x", "", &e), CAG_E_CREATE);
    assert_non_null(strstr(e.msg, "not a regular file"));
    assert_int_equal(write_file("no/such/dir", "x", "", &e), CAG_E_CREATE);
    assert_string_equal(e.file, "no/such/dir");
    assert_int_equal(e.sys, ENOENT);
    char longest[NAME_MAX + 1], longer[NAME_MAX + 2];
    memset(longest, 'x', NAME_MAX);
    longest[NAME_MAX] = 0;
    assert_int_equal(write_file(longest, "x", "", &e), CAG_OK);
    memset(longer, 'x', NAME_MAX + 1);
    longer[NAME_MAX + 1] = 0;
    assert_int_equal(write_file(longer, "x", "", &e), CAG_E_CREATE);
    if (geteuid() != 0) {
        assert_int_equal(chmod("d", 0500), 0);
        assert_int_equal(write_file("d/f", "x", "", &e), CAG_E_CREATE);
        assert_int_equal(e.sys, EACCES);
        assert_int_equal(chmod("d", 0700), 0);
    }
}

/* Fail each system call in turn: the target is the old or the new file,
 * whole, and nothing else is left. */
static void every_failing_call(void **state)
{
    static const int errors[] = { ENOSPC, EIO, EINTR, 0 };

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        for (int64_t n = 1; n < 12; n++) {
            cag_error e = CAG_ERROR_INIT;
            put("f", "old");
            file_fault(n, errors[k]);
            cag_status st = write_file("f", "first", "second", &e);
            file_fault(0, 0);
            if (st == CAG_OK) {
                assert_content("f", "firstsecond");
            } else {
                assert_true(st == CAG_E_IO || st == CAG_E_CREATE);
                assert_int_equal(e.sys, errors[k]);
                /* after the rename only the directory's sync can fail */
                if (!strstr(e.msg, "directory"))
                    assert_content("f", "old");
                else
                    assert_content("f", "firstsecond");
            }
            /* retried or halved calls succeed; every other one is seen:
             * create, mode, write, write, sync, rename, sync */
            if (errors[k] == 0)
                assert_int_equal(st, CAG_OK);
            else if (errors[k] != EINTR)
                assert_int_equal(st != CAG_OK, n <= 7);
            assert_int_equal(names(), 1);
        }
    }
}

static void every_failing_allocation(void **state)
{
    bool done = false;

    (void)state;
    put("f", "old");
    FOR_EACH_FAULT(n, done)
    {
        cag_error e = CAG_ERROR_INIT;
        int64_t live = mem_live();
        mem_fault(n, false);
        cag_status st = write_file("f", "new", "", &e);
        mem_fault(0, false);
        assert_int_equal(mem_live(), live);
        assert_int_equal(names(), 1);
        done = st == CAG_OK;
        if (!done)
            assert_int_equal(st, CAG_E_NOMEM);
    }
    assert_content("f", "new");
}

static void temporaries_of_dead_runs_go(void **state)
{
    struct file_out alive, o;

    (void)state;
    /* a live run, a dead one, and names that are nobody's temporaries */
    assert_int_equal(file_out_open(&alive, "f", -1, NULL), CAG_OK);
    pid_t child = fork();
    if (child == 0) {
        struct file_out dead;
        if (file_out_open(&dead, "f", -1, NULL) == CAG_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    put(".f.cag-short.tmp", "");
    put(".g.cag-aaaaaa.tmp", "");
    assert_int_equal(names(), 4);
    assert_int_equal(file_out_open(&o, "f", -1, NULL), CAG_OK);
    assert_int_equal(names(), 4); /* one gone, one new */
    file_out_abort(&o);
    assert_int_equal(names(), 3);
    assert_int_equal(file_out_write(&alive, "mine", 4, NULL), CAG_OK);
    assert_int_equal(file_out_commit(&alive, NULL), CAG_OK);
    assert_content("f", "mine");
    assert_true(file_exists(".g.cag-aaaaaa.tmp"));
    assert_true(file_exists(".f.cag-short.tmp"));
}

static void a_file_size_limit_is_an_error(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        static char block[8192];
        struct file_out o;
        cag_error e = CAG_ERROR_INIT;
        struct rlimit r = { 4096, 4096 };
        if (setrlimit(RLIMIT_FSIZE, &r) != 0 ||
            file_out_open(&o, "f", -1, &e) != CAG_OK)
            _exit(1);
        cag_status st = file_out_write(&o, block, sizeof block, &e);
        file_out_abort(&o);
        /* and the signal's state is as it was */
        sigset_t pending, mask;
        sigpending(&pending);
        sigprocmask(SIG_BLOCK, NULL, &mask);
        _exit(st == CAG_E_IO && e.sys == EFBIG &&
                      !sigismember(&pending, SIGXFSZ) &&
                      !sigismember(&mask, SIGXFSZ)
                  ? 0
                  : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(names(), 0);
}

static void emergency_unlinks_what_is_open(void **state)
{
    struct file_out a, b;

    (void)state;
    put("f", "old");
    assert_int_equal(file_out_open(&a, "f", -1, NULL), CAG_OK);
    assert_int_equal(file_out_open(&b, "g", -1, NULL), CAG_OK);
    assert_int_equal(names(), 3);
    pid_t child = fork();
    if (child == 0) {
        cag_emergency_cleanup(); /* a child's are not its own */
        _exit(names() == 3 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    cag_emergency_cleanup();
    assert_int_equal(names(), 1);
    file_out_abort(&a);
    file_out_abort(&b);
    assert_content("f", "old");
}

static void space_is_asked_for(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    uint64_t n = 0;

    (void)state;
    assert_int_equal(file_space("f", &n, &e), CAG_OK);
    assert_true(n > 0);
    assert_int_equal(file_space("no/such/f", &n, &e), CAG_E_CREATE);
    assert_string_equal(e.file, "no/such");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_new_file),
        T(invisible_until_commit),
        T(mode_of_the_old_file_is_kept),
        T(a_link_is_followed),
        T(what_cannot_be_replaced_says_why),
        T(every_failing_call),
        T(every_failing_allocation),
        T(temporaries_of_dead_runs_go),
        T(a_file_size_limit_is_an_error),
        T(emergency_unlinks_what_is_open),
        T(space_is_asked_for),
    };
    return cmocka_run_group_tests_name("file_out", tests, scratch_enter,
                                       scratch_leave);
}

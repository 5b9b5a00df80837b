/*
 * test_file_place.c - what is written goes where the path led when it was
 * walked, whatever somebody does to its parts meanwhile.
 */
#include "tests/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include <cag/tool/text_file.h>

#include "util/file_lock.h"
#include "util/file_place.h"

enum { OTHER = 65534 };

static cag_status find(const char *path, cag_error *e)
{
    struct file_place p;
    cag_status st = file_place_find(&p, path, e);

    file_place_release(&p);
    return st;
}

static void paths_lead_where_the_kernel_leads(void **state)
{
    static const char *const paths[] = {
        "f",          "./f",         "d/f",        "d//f",      "d/../d/f",
        "ld/f",       "lld/f",       "ld/../d/f",  "deep/up/f", "lf",
        "d/./e/../f", "d/lf",        "abs/f",      "ld/lf",     "lld/../lf",
        "self/f",     "chain/up/lf", "d/e/back/f",
    };

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("d/e", 0700), 0);
    assert_int_equal(mkdir("deep", 0700), 0);
    assert_int_equal(symlink("d", "ld"), 0);
    assert_int_equal(symlink("./ld/.", "lld"), 0);
    assert_int_equal(symlink("..", "deep/up"), 0);
    assert_int_equal(symlink("../..", "d/e/back"), 0);
    assert_int_equal(symlink("deep", "chain"), 0);
    assert_int_equal(symlink("d/f", "lf"), 0);
    assert_int_equal(symlink("e/target", "d/lf"), 0);
    assert_int_equal(symlink("/proc/self/cwd", "self"), 0);
    char *here = realpath("d", NULL);
    assert_int_equal(symlink(here, "abs"), 0);
    free(here);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (int there = 0; there < 2; there++) {
            struct file_place p;
            struct stat a, b;
            int fd;

            if (there)
                put(paths[i], "x"); /* made by the kernel's own walk */
            assert_int_equal(file_place_find(&p, paths[i], NULL), CAG_OK);
            fd = file_place_open(&p, O_WRONLY | O_CREAT, 0600);
            assert_true(fd >= 0);
            assert_int_equal(fstat(fd, &a), 0);
            assert_int_equal(stat(paths[i], &b), 0);
            assert_int_equal(a.st_ino, b.st_ino);
            assert_int_equal(stat(p.path, &b), 0);
            assert_int_equal(a.st_ino, b.st_ino);
            close(fd);
            unlinkat(p.dir, p.name, 0);
            file_place_release(&p);
        }
}

static void what_leads_nowhere_says_why(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    char longer[300];

    (void)state;
    put("f", "");
    assert_int_equal(symlink("loop/x", "loop"), 0);
    assert_int_equal(find("none/f", &e), CAG_E_CREATE);
    assert_int_equal(e.sys, ENOENT);
    assert_string_equal(e.file, "none/f");
    assert_non_null(strstr(e.msg, "in the directory none"));
    assert_int_equal(find("f/g", &e), CAG_E_CREATE);
    assert_int_equal(e.sys, ENOTDIR);
    assert_int_equal(find("loop/f", &e), CAG_E_CREATE);
    assert_int_equal(e.sys, ELOOP);
    assert_int_equal(find("", &e), CAG_E_CREATE);
    assert_int_equal(find("/", &e), CAG_E_CREATE);
    assert_int_equal(find("..", &e), CAG_E_CREATE);
    assert_int_equal(find("none/", &e), CAG_E_CREATE);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(find(longer, &e), CAG_E_CREATE);
    assert_int_equal(e.sys, ENAMETOOLONG);
}

static void links_of_others_are_not_gone_through(void **state)
{
    static const char *const paths[] = { "bob",      "via",    "dir/x",
                                         "viadir/x", "ours/x", "dir/../f" };
    cag_error e = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(symlink("d/f", "bob"), 0);
    assert_int_equal(symlink("bob", "via"), 0);
    assert_int_equal(symlink("d", "dir"), 0);
    assert_int_equal(symlink("dir/.", "viadir"), 0);
    assert_int_equal(symlink("d/../dir", "ours"), 0);
    if (lchown("bob", OTHER, (gid_t)-1) != 0 ||
        lchown("dir", OTHER, (gid_t)-1) != 0)
        skip();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(find(paths[i], &e), CAG_E_CREATE);
        assert_non_null(strstr(e.msg, "a link that user 65534 has made"));
    }
    assert_int_equal(find("d/f", &e), CAG_OK);
}

/* -------------------------------------------------- what changes meanwhile */

static void the_directory_is_held(void **state)
{
    struct file_out o;
    struct file_lock l;

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("victim", 0700), 0);
    put("victim/f", "precious");
    put("victim/f.lock", "precious");
    assert_int_equal(file_lock(&l, "d/f", -1, 0, NULL), CAG_OK);
    assert_int_equal(file_out_open(&o, "d/f", -1, NULL), CAG_OK);
    assert_int_equal(rename("d", "moved"), 0);
    assert_int_equal(symlink("victim", "d"), 0);
    assert_int_equal(file_out_write(&o, "new", 3, NULL), CAG_OK);
    assert_int_equal(file_out_commit(&o, NULL), CAG_OK);
    file_lock_undo(&l);
    assert_content("moved/f", "new");
    assert_content("victim/f", "precious");
    assert_content("victim/f.lock", "precious");
    assert_int_equal(access("moved/f.lock", F_OK), -1);
    /* what is given up is looked for where it was made */
    assert_int_equal(unlink("d"), 0);
    assert_int_equal(rename("moved", "d"), 0);
    assert_int_equal(file_out_open(&o, "d/g", -1, NULL), CAG_OK);
    assert_int_equal(rename("d", "moved"), 0);
    file_out_abort(&o);
    assert_int_equal(unlink("moved/f"), 0);
    assert_int_equal(rmdir("moved"), 0);
}

struct swapper {
    atomic_bool stop;
    atomic_long n;
};

/* A file and a link of another user take turns under one name; and so do a
 * directory and a link. */
static void *swap(void *arg)
{
    struct swapper *s = arg;

    while (!atomic_load(&s->stop)) {
        syscall(SYS_renameat2, AT_FDCWD, "d/f", AT_FDCWD, "d/l", 2u);
        syscall(SYS_renameat2, AT_FDCWD, "d", AT_FDCWD, "ld", 2u);
        atomic_fetch_add(&s->n, 1);
    }
    return NULL;
}

static void a_race_is_not_won(void **state)
{
    struct swapper s = { false, 0 };
    pthread_t t;
    long opened = 0;

    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    assert_int_equal(mkdir("victim", 0700), 0);
    put("victim/f", "precious");
    put("d/f", "");
    assert_int_equal(symlink("../victim/f", "d/l"), 0);
    assert_int_equal(symlink("victim", "ld"), 0);
    if (lchown("d/l", OTHER, (gid_t)-1) != 0 ||
        lchown("ld", OTHER, (gid_t)-1) != 0)
        skip();
    assert_int_equal(pthread_create(&t, NULL, swap, &s), 0);
    for (long i = 0; i < 3000 || (atomic_load(&s.n) < 3000 && i < 300000);
         i++) {
        cag_error e = CAG_ERROR_INIT;
        int fd = -1;

        if (cag_open_output("d/f", i & 1, true, &fd, &e) == CAG_OK) {
            assert_int_equal(write(fd, "x", 1), 1);
            close(fd);
            opened++;
        } else {
            assert_int_equal(e.status, CAG_E_CREATE);
        }
        if (i % 8 == 0)
            (void)cag_write_text("d/f", "text", 0600, &e);
    }
    atomic_store(&s.stop, true);
    pthread_join(t, NULL);
    assert_true(opened > 0);
    assert_content("victim/f", "precious");
    assert_int_equal(unlink("victim/f"), 0); /* and nothing beside it */
    assert_int_equal(rmdir("victim"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(paths_lead_where_the_kernel_leads),
        T(what_leads_nowhere_says_why),
        T(links_of_others_are_not_gone_through),
        T(the_directory_is_held),
        T(a_race_is_not_won),
    };

    return cmocka_run_group_tests_name("file_place", tests, scratch_enter,
                                       scratch_leave);
}

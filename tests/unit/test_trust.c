/*
 * test_trust.c - whose files are believed, who may read what replaces them,
 * and locks that others have tampered with.
 */
#include "tests/lib/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>

#include "util/clock.h"
#include "util/file_lock.h"
#include "util/trust.h"

#define ACL  "system.posix_acl_access"
#define DEFL "system.posix_acl_default"

enum { OTHER = 65534 };

static mode_t mode_of(const char *path)
{
    struct stat s;

    assert_int_equal(lstat(path, &s), 0);
    return s.st_mode & 07777;
}

static void make(const char *path, mode_t mode)
{
    put(path, "x");
    assert_int_equal(chmod(path, mode), 0);
}

/* Only root can give a file away. */
static bool give(const char *path)
{
    return chown(path, OTHER, (gid_t)-1) == 0;
}

static void replace(const char *path, int mode)
{
    struct file_out o;

    assert_int_equal(file_out_open(&o, path, mode, NULL), CAG_OK);
    assert_int_equal(file_out_write(&o, "new", 3, NULL), CAG_OK);
    assert_int_equal(file_out_commit(&o, NULL), CAG_OK);
}

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

/* user rw-, user OTHER r--, group ---, mask r--, other --- */
static size_t acl_of_other(uint8_t acl[44])
{
    static const struct {
        unsigned tag, perm, id;
    } e[] = { { 1, 6, ~0u },
              { 2, 4, OTHER },
              { 4, 0, ~0u },
              { 16, 4, ~0u },
              { 32, 0, ~0u } };

    memset(acl, 0, 44);
    acl[0] = 2;
    for (size_t i = 0; i < 5; i++) {
        put16(acl + 4 + 8 * i, e[i].tag);
        put16(acl + 6 + 8 * i, e[i].perm);
        put16(acl + 8 + 8 * i, e[i].id & 0xffff);
        put16(acl + 10 + 8 * i, e[i].id >> 16);
    }
    return 44;
}

static bool set_acl(const char *path, const char *kind)
{
    uint8_t acl[44];
    size_t n = acl_of_other(acl);

    return setxattr(path, kind, acl, n, 0) == 0;
}

/* ------------------------------------------------------------------- trust */

static cag_status opened(const char *path, cag_error *err)
{
    int fd = 77;
    cag_status st = trust_open(path, &fd, err);

    assert_true((fd >= 0) == (st == CAG_OK));
    if (fd >= 0)
        close(fd);
    return st;
}

static void only_what_nobody_else_can_write(void **state)
{
    static const struct {
        mode_t mode;
        bool ok;
    } t[] = {
        { 0600, true },  { 0400, true },  { 0644, true },  { 0755, true },
        { 0620, false }, { 0602, false }, { 0666, false }, { 0777, false }
    };
    cag_error e = CAG_ERROR_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        make("f", t[i].mode);
        assert_int_equal(opened("f", &e), t[i].ok ? CAG_OK : CAG_E_UNSUPPORTED);
        if (!t[i].ok)
            assert_non_null(strstr(e.msg, "may be written by other users"));
        assert_int_equal(mkdir("d", 0700), 0);
        assert_int_equal(chmod("d", t[i].mode), 0);
        assert_true(trust_dir("d") == t[i].ok);
        assert_int_equal(rmdir("d"), 0);
    }
    assert_int_equal(opened("none", &e), CAG_E_MISSING);
    assert_false(trust_dir("none"));
    assert_false(trust_dir("f"));
}

static void another_users_is_not_believed(void **state)
{
    cag_error e = CAG_ERROR_INIT;

    (void)state;
    make("f", 0600);
    assert_int_equal(mkdir("d", 0700), 0);
    if (!give("f") || !give("d"))
        skip();
    assert_int_equal(opened("f", &e), CAG_E_UNSUPPORTED);
    assert_string_equal(e.msg,
                        "belongs to user 65534, neither to you nor to root");
    assert_false(trust_dir("d"));
}

static void a_fifo_does_not_stop_the_reader(void **state)
{
    cag_error e = CAG_ERROR_INIT;

    (void)state;
    assert_int_equal(mkfifo("p", 0600), 0);
    assert_int_equal(opened("p", &e), CAG_E_UNSUPPORTED);
    assert_string_equal(e.msg, "is not a regular file");
}

/* ------------------------------------------------------ modes never widen */

static void a_mode_is_taken_without_its_special_bits(void **state)
{
    (void)state;
    make("f", 06755);
    replace("f", -1);
    assert_int_equal(mode_of("f"), 0755);
    replace("f", 0600);
    assert_int_equal(mode_of("f"), 0600);
}

static void another_users_mode_is_not_taken(void **state)
{
    (void)state;
    make("f", 0666);
    if (!give("f"))
        skip();
    replace("f", -1);
    assert_int_equal(mode_of("f"), 0600);
    make("g", 06777);
    give("g");
    assert_int_equal(mode_of("g") & 0777, 0777);
    replace("g", 0640); /* but what is asked for is */
    assert_int_equal(mode_of("g"), 0640);
}

static void an_acl_is_kept(void **state)
{
    uint8_t want[44], got[100];
    size_t n = acl_of_other(want);

    (void)state;
    make("f", 0600);
    if (!set_acl("f", ACL))
        skip();
    assert_int_equal(mode_of("f"), 0640); /* the mask, not the group's */
    replace("f", -1);
    assert_int_equal(mode_of("f"), 0640);
    assert_int_equal(getxattr("f", ACL, got, sizeof got), n);
    assert_memory_equal(got, want, n);
    /* a narrower mode narrows the mask */
    replace("f", 0600);
    assert_int_equal(mode_of("f"), 0600);
    assert_int_equal(getxattr("f", ACL, got, sizeof got), n);
}

static void a_directorys_acl_does_not_come_to_life(void **state)
{
    uint8_t got[100];

    (void)state;
    make("f", 0640);
    if (!set_acl(".", DEFL))
        skip();
    replace("f", -1);
    assert_int_equal(mode_of("f"), 0640);
    assert_int_equal(getxattr("f", ACL, got, sizeof got), -1);
    assert_int_equal(errno, ENODATA);
    assert_int_equal(removexattr(".", DEFL), 0);
}

/* -------------------------------------------------------------------- locks */

static void a_lock_is_as_private_as_its_file(void **state)
{
    struct file_lock l;

    (void)state;
    umask(0);
    assert_int_equal(file_lock(&l, "new", -1, 0, NULL), CAG_OK);
    assert_int_equal(mode_of("new.lock"), 0600);
    file_unlock(&l);
    assert_int_equal(file_lock(&l, "given", 0660, 0, NULL), CAG_OK);
    assert_int_equal(mode_of("given.lock"), 0660);
    file_unlock(&l);
    make("f", 0750);
    make("f.lock", 0666); /* left by an older version */
    assert_int_equal(file_lock(&l, "f", -1, 0, NULL), CAG_OK);
    assert_int_equal(mode_of("f.lock"), 0640);
    file_unlock(&l);
    assert_int_equal(chmod("f", 0600), 0);
    assert_int_equal(file_lock(&l, "f", -1, 0, NULL), CAG_OK);
    assert_int_equal(mode_of("f.lock"), 0600);
    file_unlock(&l);
    make("g", 0666);
    if (give("g")) {
        assert_int_equal(file_lock(&l, "g", -1, 0, NULL), CAG_OK);
        assert_int_equal(mode_of("g.lock"), 0600);
        file_unlock(&l);
    }
    umask(022);
}

static void fails_at_once(const char *path, const char *why)
{
    cag_error e = CAG_ERROR_INIT;
    struct file_lock l;
    double start = clock_s();

    assert_int_equal(file_lock(&l, path, -1, 60, &e), CAG_E_CREATE);
    assert_true(clock_s() - start < 30);
    assert_non_null(strstr(e.msg, why));
    assert_int_equal(l.fd, -1);
    file_lock_undo(&l);
}

static void what_is_no_lock_fails_at_once(void **state)
{
    (void)state;
    assert_int_equal(symlink("/nowhere", "a.lock"), 0);
    fails_at_once("a", "is a symbolic link");
    put("victim", "text");
    assert_int_equal(symlink("victim", "b.lock"), 0);
    fails_at_once("b", "is a symbolic link");
    assert_int_equal(mode_of("victim"), 0644);
    assert_int_equal(symlink("c.lock", "c.lock"), 0);
    fails_at_once("c", "is a symbolic link");
    assert_int_equal(mkfifo("d.lock", 0600), 0);
    fails_at_once("d", "is not a regular file");
    assert_int_equal(mkdir("e.lock", 0700), 0);
    fails_at_once("e", "cannot create the lock file");
}

/* The longest names have a lock, and never that of another. */
static void long_names_have_their_own_locks(void **state)
{
    struct file_lock a, b;
    char x[256], y[256];

    (void)state;
    for (int n = 248; n <= 255; n++) {
        memset(x, 'a', sizeof x);
        x[n] = 0;
        memcpy(y, x, sizeof y);
        y[n - 1] = 'b';
        assert_int_equal(file_lock(&a, x, -1, 0, NULL), CAG_OK);
        assert_int_equal(file_lock(&b, x, -1, 0, NULL), CAG_E_LOCKED);
        assert_int_equal(file_lock(&b, y, -1, 0, NULL), CAG_OK);
        file_lock_undo(&b);
        file_lock_undo(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(only_what_nobody_else_can_write),
        T(another_users_is_not_believed),
        T(a_fifo_does_not_stop_the_reader),
        T(a_mode_is_taken_without_its_special_bits),
        T(another_users_mode_is_not_taken),
        T(an_acl_is_kept),
        T(a_directorys_acl_does_not_come_to_life),
        T(a_lock_is_as_private_as_its_file),
        T(what_is_no_lock_fails_at_once),
        T(long_names_have_their_own_locks),
    };

    return cmocka_run_group_tests(tests, scratch_enter, scratch_leave);
}

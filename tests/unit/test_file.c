/*
 * test_file.c - maps, reads, paths and locks (writing: test_file_out.c).
 */
#include "tests/lib/scratch.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "util/file_lock.h"

static void maps_a_regular_file(void **state)
{
    struct file_map m;
    struct file_id id;

    (void)state;
    put("a", "hello");
    assert_int_equal(file_map(&m, "a", NULL), CAG_OK);
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "hello", 5);
    assert_string_equal(m.path, "a");
    assert_int_equal(file_stat("a", &id, NULL), CAG_OK);
    assert_memory_equal(&id, &m.id, sizeof id);
    assert_int_equal(id.size_bytes, 5);
    file_unmap(&m);
    file_unmap(&m);
    put("empty", "");
    assert_int_equal(file_map(&m, "empty", NULL), CAG_OK);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
    file_unmap(&m);
}

static void what_cannot_be_mapped_says_why(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct file_map m;

    (void)state;
    assert_int_equal(file_map(&m, "nowhere", &e), CAG_E_MISSING);
    assert_string_equal(e.file, "nowhere");
    assert_string_equal(e.msg, "cannot open: No such file or directory");
    assert_int_equal(file_map(&m, ".", &e), CAG_E_MISSING);
    assert_string_equal(e.msg, "is a directory, not a file");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(file_map(&m, "fifo", &e), CAG_E_MISSING); /* no hang */
    assert_string_equal(e.msg, "is not a regular file");
    put("a", "x");
    mem_fault(1, false);
    assert_int_equal(file_map(&m, "a", &e), CAG_E_NOMEM);
    mem_fault(0, false);
    assert_null(m.data);
    if (geteuid() != 0) {
        put("secret", "x");
        chmod("secret", 0);
        assert_int_equal(file_map(&m, "secret", &e), CAG_E_MISSING);
        assert_string_equal(e.msg, "cannot open: Permission denied");
    }
}

static void reads_whole_files_up_to_a_limit(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct buf b = BUF_INIT;

    (void)state;
    put("a", "hello");
    assert_int_equal(file_read("a", 5, &b, &e), CAG_OK);
    assert_int_equal(file_read("a", SIZE_MAX, &b, &e), CAG_OK); /* appends */
    assert_string_equal(b.data, "hellohello");
    buf_clear(&b);
    assert_int_equal(file_read("a", 4, &b, &e), CAG_E_LIMIT);
    assert_string_equal(e.msg, "is larger than the limit of 4 bytes");
    buf_clear(&b);
    put("empty", "");
    assert_int_equal(file_read("empty", 0, &b, &e), CAG_OK);
    assert_int_equal(b.size, 0);
    assert_int_equal(file_read(".", 100, &b, &e), CAG_E_MISSING);
    assert_int_equal(file_read("nowhere", 100, &b, &e), CAG_E_MISSING);
    buf_free(&b);
    mem_fault(1, true);
    assert_int_equal(file_read("a", 5, &b, &e), CAG_E_NOMEM);
    mem_fault(0, false);
    buf_free(&b);
}

static void reads_a_pipe_to_its_end(void **state)
{
    struct buf b = BUF_INIT;
    int fd[2];

    (void)state;
    assert_int_equal(pipe(fd), 0);
    pid_t child = fork();
    if (child == 0) {
        char part[777];
        memset(part, 'p', sizeof part);
        for (int i = 0; i < 300; i++)
            if (write(fd[1], part, sizeof part) != (ssize_t)sizeof part)
                _exit(1);
        _exit(0);
    }
    close(fd[1]);
    assert_int_equal(file_read_fd(fd[0], "pipe", SIZE_MAX, &b, NULL), CAG_OK);
    close(fd[0]);
    assert_int_equal(b.size, 300 * 777);
    assert_int_equal(waitpid(child, NULL, 0), child);
    buf_free(&b);
}

static void paths(void **state)
{
    static const char *const dirs[][2] = {
        { "a/b", "a" },  { "b", "." },    { "/b", "/" }, { "/", "/" },
        { "a/b/", "a" }, { "a//b", "a" }, { "", "." },   { "/a/b", "/a" },
    };
    static const char *const joins[][3] = {
        { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "a", "/b", "/b" },
        { "", "b", "b" },    { "/", "b", "/b" },
    };
    static const char *const abs[][2] = {
        { "/a//b/./c/../d", "/a/b/d" },
        { "/..", "/" },
        { "/", "/" },
        { "/a/..", "/" },
        { "/a/b/", "/a/b" },
        { "/../../a", "/a" },
    };
    static const char *const rels[][3] = {
        { "/a/b/c", "/a/b", "c" },   { "/a/b", "/a/b/c", ".." },
        { "/a/b", "/a/b", "." },     { "/a/bc", "/a/b", "../bc" },
        { "/x", "/", "x" },          { "/", "/x", ".." },
        { "/", "/", "." },           { "/a/b/c/d", "/a/x/y", "../../b/c/d" },
        { "/a", "/b/c", "../../a" }, { "/ab/c", "/a/c", "../../ab/c" },
    };
    char want[PATH_MAX + 8], here[PATH_MAX], *s;

    (void)state;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        s = file_dirname(dirs[i][0]);
        assert_string_equal(s, dirs[i][1]);
        mem_free(s);
    }
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        s = file_join(joins[i][0], joins[i][1]);
        assert_string_equal(s, joins[i][2]);
        mem_free(s);
    }
    for (size_t i = 0; i < sizeof abs / sizeof abs[0]; i++) {
        s = file_absolute(abs[i][0]);
        assert_string_equal(s, abs[i][1]);
        mem_free(s);
    }
    for (size_t i = 0; i < sizeof rels / sizeof rels[0]; i++) {
        s = file_relative(rels[i][0], rels[i][1]);
        assert_string_equal(s, rels[i][2]);
        mem_free(s);
    }
    assert_non_null(getcwd(here, sizeof here));
    snprintf(want, sizeof want, "%s/x", here);
    s = file_absolute("./y/../x");
    assert_string_equal(s, want);
    mem_free(s);
    for (int64_t n = 1, done = 0; !done; n++) {
        int64_t live = mem_live();
        mem_fault(n, false);
        s = file_relative("x/y", "z");
        mem_fault(0, false);
        if (s)
            assert_string_equal(s, "../x/y");
        done = s != NULL;
        mem_free(s);
        assert_int_equal(mem_live(), live);
    }
}

static void one_lock_at_a_time(void **state)
{
    cag_error e = CAG_ERROR_INIT;
    struct file_lock a, b;

    (void)state;
    assert_int_equal(file_lock(&a, "kb.kvc", -1, 0, &e), CAG_OK);
    assert_true(fcntl(a.fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(file_lock(&b, "kb.kvc", -1, 0, &e), CAG_E_LOCKED);
    assert_string_equal(e.file, "kb.kvc.lock");
    assert_int_equal(file_lock(&b, "kb.kvc", -1, 0.05, &e), CAG_E_LOCKED);
    /* a link to the file is the same lock */
    put("kb.kvc", "x");
    assert_int_equal(symlink("kb.kvc", "alias.kvc"), 0);
    assert_int_equal(file_lock(&b, "alias.kvc", -1, 0, &e), CAG_E_LOCKED);
    file_unlock(&a);
    file_unlock(&a);
    assert_int_equal(file_lock(&b, "kb.kvc", -1, 0, &e), CAG_OK);
    assert_true(file_exists("kb.kvc.lock"));
    file_unlock(&b);
    assert_true(file_exists("kb.kvc.lock"));
    /* only what it made itself can be undone */
    assert_int_equal(file_lock(&b, "kb.kvc", -1, 0, &e), CAG_OK);
    file_lock_undo(&b);
    assert_true(file_exists("kb.kvc.lock"));
    assert_int_equal(file_lock(&b, "new", -1, 0, &e), CAG_OK);
    assert_true(file_exists("new.lock"));
    file_lock_undo(&b);
    file_lock_undo(&b);
    assert_false(file_exists("new.lock"));
    assert_int_equal(file_lock(&b, "no/dir/x", -1, 0, &e), CAG_E_CREATE);
}

/* Who waited for a lock that is undone does not hold a file without a name. */
static void an_undone_lock_is_no_lock(void **state)
{
    struct file_lock a, b, c;
    int fd[2], code;
    char x;
    pid_t pid;

    (void)state;
    assert_int_equal(file_lock(&a, "u", -1, 0, NULL), CAG_OK);
    assert_int_equal(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        close(a.fd); /* it is the parent's lock as well */
        if (write(fd[1], "x", 1) != 1 ||
            file_lock(&b, "u", -1, 10, NULL) != CAG_OK)
            _exit(1);
        /* nobody else can have it now */
        _exit(file_exists("u.lock") &&
                      file_lock(&c, "u", -1, 0, NULL) == CAG_E_LOCKED
                  ? 0
                  : 2);
    }
    assert_int_equal(read(fd[0], &x, 1), 1);
    usleep(50000);
    file_lock_undo(&a);
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_int_equal(code, 0);
    close(fd[0]);
    close(fd[1]);
}

static void a_waiting_lock_is_got(void **state)
{
    struct file_lock a;
    int fd[2];
    char c;

    (void)state;
    assert_int_equal(pipe(fd), 0);
    pid_t child = fork();
    if (child == 0) {
        struct file_lock l;
        if (file_lock(&l, "w", -1, 0, NULL) != CAG_OK ||
            write(fd[1], "x", 1) != 1)
            _exit(1);
        usleep(50000);
        _exit(0); /* dies with the lock held */
    }
    assert_int_equal(read(fd[0], &c, 1), 1);
    assert_int_equal(file_lock(&a, "w", -1, 10, NULL), CAG_OK);
    file_unlock(&a);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_a_regular_file),
        cmocka_unit_test(what_cannot_be_mapped_says_why),
        cmocka_unit_test(reads_whole_files_up_to_a_limit),
        cmocka_unit_test(reads_a_pipe_to_its_end),
        cmocka_unit_test(paths),
        cmocka_unit_test(one_lock_at_a_time),
        cmocka_unit_test(an_undone_lock_is_no_lock),
        cmocka_unit_test(a_waiting_lock_is_got),
    };
    return cmocka_run_group_tests_name("file", tests, scratch_enter,
                                       scratch_leave);
}

/*
 * source_filter.c - see source_filter.h.
 *
 * One poll loop feeds the command's standard input and drains its output and
 * its messages at the same time, so that neither side can block the other.
 * On any failure the whole process group is killed and reaped.
 */
#include "source/source_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/note.h"

#define MAX_ARG    64
#define MAX_STDERR 4096
#define POLL_S     0.1 /* how long a request to stop may wait */

struct child {
    pid_t pid;
    int in, out, msg, exec_err; /* our ends of its pipes, -1 closed */
    const cag_source_spec *spec;
    const cag_hooks *hooks;
    double limit_s, end;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* "{}" in a filter's argument stands for the source's path. */
static char *expand_arg(const char *arg, const char *path)
{
    struct buf b = BUF_INIT;
    const char *p;

    while ((p = strstr(arg, "{}")) != NULL) {
        buf_add(&b, arg, (size_t)(p - arg));
        buf_str(&b, path ? path : "-");
        arg = p + 2;
    }
    buf_str(&b, arg);
    return buf_detach(&b, NULL);
}

static void run_child(char *const *argv, int in, int out, int msg, int fail)
{
    sigset_t none;
    int e;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if we are killed, so is it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(msg, 2) >= 0)
        execvp(argv[0], argv);
    e = errno;
    if (write(fail, &e, sizeof e) < 0)
        _exit(126);
    _exit(127);
}

static cag_status start(struct child *c, char *const *argv, cag_error *err)
{
    int p[4][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    cag_status st = CAG_OK;

    for (int i = 0; i < 4; i++)
        if (pipe2(p[i], O_CLOEXEC) != 0) {
            st = cag_fail_sys(err, CAG_E_IO, errno, argv[0],
                              "cannot start filter");
            goto out;
        }
    c->pid = fork();
    if (c->pid < 0) {
        st = cag_fail_sys(err, CAG_E_IO, errno, argv[0], "cannot start filter");
        goto out;
    }
    if (c->pid == 0)
        run_child(argv, p[0][0], p[1][1], p[2][1], p[3][1]);
    setpgid(c->pid, c->pid);
    c->in = p[0][1];
    c->out = p[1][0];
    c->msg = p[2][0];
    c->exec_err = p[3][0];
    p[0][1] = p[1][0] = p[2][0] = p[3][0] = -1;
    fcntl(c->in, F_SETFL, O_NONBLOCK);
    fcntl(c->out, F_SETFL, O_NONBLOCK);
    fcntl(c->msg, F_SETFL, O_NONBLOCK);
out:
    for (int i = 0; i < 4; i++) {
        close_fd(&p[i][0]);
        close_fd(&p[i][1]);
    }
    return st;
}

/* Read what is there; closes *fd at the end of the stream. */
static bool drain(int *fd, struct buf *b, size_t max, bool drop_rest)
{
    char tmp[16384];
    ssize_t n = read(*fd, tmp, sizeof tmp);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_fd(fd);
    if (n <= 0)
        return true;
    if (b->size + (size_t)n > max)
        return drop_rest;
    buf_add(b, tmp, (size_t)n);
    return true;
}

static void feed(struct child *c, const char *raw, size_t size, size_t *done)
{
    if (*done < size) {
        ssize_t n = write(c->in, raw + *done, size - *done);

        if (n > 0)
            *done += (size_t)n;
        else if (n < 0 && errno != EAGAIN && errno != EINTR)
            *done = size; /* it does not read its input: its choice */
    }
    if (*done == size)
        close_fd(&c->in);
}

/* May it run on?  n_out: bytes it has given. */
static cag_status in_time(const struct child *c, size_t n_out, cag_error *err)
{
    if (!note_progress(c->hooks, "filter", CAG_UNIT_BYTES, n_out, 0))
        return cag_fail(err, CAG_E_CANCELLED, c->spec->path, -1,
                        "filter %s: stopped", c->spec->filter[0]);
    if (clock_s() >= c->end)
        return cag_fail(err, CAG_E_LIMIT, c->spec->path, -1,
                        "filter %s: no end after %g s (timeout: in the "
                        "manifest)",
                        c->spec->filter[0], c->limit_s);
    return CAG_OK;
}

static cag_status talk(struct child *c, const char *raw, size_t size,
                       struct buf *out, struct buf *msg, cag_error *err)
{
    const cag_source_spec *spec = c->spec;
    size_t max =
        spec->filter_max_bytes ? spec->filter_max_bytes : (size_t)64 << 20;
    size_t done = 0;

    if (size == 0)
        close_fd(&c->in);
    while (c->out >= 0 || c->msg >= 0) {
        struct pollfd f[3] = { { c->in, POLLOUT, 0 },
                               { c->out, POLLIN, 0 },
                               { c->msg, POLLIN, 0 } };
        cag_status st = in_time(c, out->size, err);

        if (st)
            return st;
        if (poll(f, 3, (int)(POLL_S * 1000)) < 0 && errno != EINTR)
            return cag_fail_sys(err, CAG_E_IO, errno, spec->path, "filter %s",
                                spec->filter[0]);
        if (c->in >= 0 && (f[0].revents & (POLLOUT | POLLERR | POLLHUP)))
            feed(c, raw, size, &done);
        if (c->out >= 0 && f[1].revents && !drain(&c->out, out, max, false))
            return cag_fail(err, CAG_E_LIMIT, spec->path, -1,
                            "filter %s: more than %zu bytes of output",
                            spec->filter[0], max);
        if (c->msg >= 0 && f[2].revents)
            drain(&c->msg, msg, MAX_STDERR, true);
    }
    return buf_failed(out) || buf_failed(msg)
               ? cag_fail_nomem(err, "filter output")
               : CAG_OK;
}

/* It closed its output; it may still run on. */
static cag_status finish(struct child *c, size_t n_out, const struct buf *msg,
                         cag_error *err)
{
    const cag_source_spec *spec = c->spec;
    struct timespec pause = { 0, 100000 };
    pid_t got;
    int code, e;
    ssize_t n;

    while ((got = waitpid(c->pid, &code, WNOHANG)) <= 0) {
        if (got < 0 && errno != EINTR)
            return cag_fail_sys(err, CAG_E_IO, errno, spec->path, "filter %s",
                                spec->filter[0]);
        cag_status st = in_time(c, n_out, err);
        if (st)
            return st;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < (long)(POLL_S / 2 * 1e9))
            pause.tv_nsec *= 2;
    }
    c->pid = 0;
    n = read(c->exec_err, &e, sizeof e);
    if (n == (ssize_t)sizeof e)
        return cag_fail_sys(err, CAG_E_MISSING, e, spec->path,
                            "cannot run filter %s", spec->filter[0]);
    if (WIFEXITED(code) && WEXITSTATUS(code) == 0)
        return CAG_OK;
    return cag_fail(
        err, CAG_E_FORMAT, spec->path, -1, "filter %s ended with %s %d%s%.*s",
        spec->filter[0], WIFSIGNALED(code) ? "signal" : "status",
        WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code),
        msg->size ? ": " : "", (int)strcspn(msg->size ? msg->data : "", "\n"),
        msg->size ? msg->data : "");
}

cag_status filter_run(const cag_source_spec *spec, const char *path,
                      const void *raw, size_t raw_size, struct buf *out,
                      const cag_hooks *hooks, cag_error *err)
{
    double limit = spec->filter_timeout_s > 0 ? spec->filter_timeout_s : 60;
    struct child c = {
        0, -1, -1, -1, -1, spec, hooks, limit, clock_s() + limit
    };
    char *argv[MAX_ARG + 1] = { NULL };
    sigset_t pipe_set, old;
    struct buf msg = BUF_INIT;
    cag_status st = CAG_OK;
    int n = 0;

    /* a library installs no handler: block SIGPIPE here, swallow our own */
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    for (; spec->filter[n]; n++) {
        if (n == MAX_ARG) {
            st = cag_fail(err, CAG_E_LIMIT, spec->path, -1,
                          "filter with more than %d words", MAX_ARG);
            goto out;
        }
        argv[n] = expand_arg(spec->filter[n], path);
        if (!argv[n]) {
            st = cag_fail_nomem(err, "filter arguments");
            goto out;
        }
    }
    st = start(&c, argv, err);
    if (!st)
        st = talk(&c, raw, raw_size, out, &msg, err);
    if (!st)
        st = finish(&c, out->size, &msg, err);
    if (c.pid > 0) {
        kill(-c.pid, SIGKILL);
        while (waitpid(c.pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
out:
    close_fd(&c.in);
    close_fd(&c.out);
    close_fd(&c.msg);
    close_fd(&c.exec_err);
    for (int i = 0; argv[i]; i++)
        mem_free(argv[i]);
    buf_free(&msg);
    if (!sigismember(&old, SIGPIPE)) {
        struct timespec zero = { 0, 0 };

        while (sigtimedwait(&pipe_set, NULL, &zero) > 0)
            ;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    return st;
}

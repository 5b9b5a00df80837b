/*
 * bench_process.c - what a user waits for: a cag-ask process, from its start
 * to the first byte it writes.
 *
 * The answer goes into a pipe.  When its first byte arrives the clock stops,
 * and so does the process, while its memory is looked at; then it runs to
 * its end.  What it says goes into memory, and to our standard error only if
 * it fails: that every answer was cut where it was told to be is no news.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/bench/bench_cmd.h"
#include "cmd/cli/ui.h"
#include "cmd/cli/ui_internal.h"

extern char **environ;

char *bench_find_ask(void)
{
    char self[4096], *path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    size_t size;

    if (n <= 0)
        return NULL;
    self[n] = '\0';
    char *dir = dirname(self);
    size = strlen(dir) + sizeof "/cag-ask";
    path = calloc(1, size);
    if (!path)
        return NULL;
    ui_format(path, size, "%s/cag-ask", dir);
    if (access(path, X_OK) != 0) {
        free(path);
        return NULL;
    }
    return path;
}

static cag_status fail(cag_error *err, cag_status st, int sys, const char *file,
                       const char *what)
{
    if (!err)
        return st;
    *err = (cag_error)CAG_ERROR_INIT;
    err->status = st;
    err->sys = sys;
    ui_format(err->file, sizeof err->file, "%s", file);
    ui_format(err->msg, sizeof err->msg, "%s%s%s", what, sys ? ": " : "",
              sys ? strerror(sys) : "");
    return st;
}

/* kB of a line "Name:   123 kB" of smaps_rollup */
static bool kilobytes(const char *text, const char *name, uint64_t *bytes)
{
    const char *p = strstr(text, name);
    unsigned long long v;

    if (!p || sscanf(p + strlen(name), " %llu kB", &v) != 1)
        return false;
    *bytes = (uint64_t)v * 1024;
    return true;
}

static void look_at_memory(pid_t pid, cag_bench_process *out)
{
    char path[64], text[8192];
    uint64_t rss = 0;

    ui_format(path, sizeof path, "/proc/%ld/smaps_rollup", (long)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    out->has_memory = kilobytes(text, "\nAnonymous:", &out->private_bytes) &&
                      kilobytes(text, "Rss:", &rss) &&
                      kilobytes(text, "\nPss:", &out->shared_bytes);
    out->mapped_bytes = rss > out->private_bytes ? rss - out->private_bytes : 0;
}

/* Read until something, or the end, comes. */
static ssize_t read_some(int fd, char *to, size_t size)
{
    ssize_t n;

    do
        n = read(fd, to, size);
    while (n < 0 && errno == EINTR);
    return n;
}

static cag_status end_of(pid_t pid, bool answered, const char *ask,
                         cag_error *err)
{
    char what[64];
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return fail(err, CAG_E_IO, errno, ask, "cannot wait");
    if (ui_caught())
        return fail(err, CAG_E_CANCELLED, 0, "", "cancelled");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && answered)
        return CAG_OK;
    if (WIFSIGNALED(status))
        ui_format(what, sizeof what, "ended by signal %d", WTERMSIG(status));
    else
        ui_format(what, sizeof what, "ended with status %d",
                  WEXITSTATUS(status));
    return fail(err, CAG_E_INTERNAL, 0, ask, what);
}

/* What the process said, to our standard error. */
static void pass_on(int said)
{
    char text[4096];
    ssize_t n;

    ui_progress_hide();
    if (lseek(said, 0, SEEK_SET) == 0)
        while ((n = read_some(said, text, sizeof text)) > 0)
            fwrite(text, 1, (size_t)n, stderr);
}

static cag_status run(char **argv, cag_bench_process *out, cag_error *err)
{
    posix_spawn_file_actions_t act;
    char text[4096];
    int fd[2];
    pid_t pid;

    int said = memfd_create("cag-ask", MFD_CLOEXEC);
    cag_status st;

    if (said < 0)
        return fail(err, CAG_E_IO, errno, argv[0], "cannot hold its messages");
    if (pipe2(fd, O_CLOEXEC) != 0) {
        close(said);
        return fail(err, CAG_E_IO, errno, argv[0], "cannot make a pipe");
    }
    int sys = posix_spawn_file_actions_init(&act);
    if (sys == 0) {
        sys = posix_spawn_file_actions_adddup2(&act, fd[1], 1);
        if (sys == 0)
            sys = posix_spawn_file_actions_adddup2(&act, said, 2);
        if (sys == 0)
            sys = posix_spawn_file_actions_addopen(&act, 0, "/dev/null",
                                                   O_RDONLY, 0);
    }
    double start = ui_now();
    if (sys == 0)
        sys = posix_spawn(&pid, argv[0], &act, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&act);
    close(fd[1]);
    if (sys != 0) {
        close(fd[0]);
        close(said);
        return fail(err, CAG_E_IO, sys, argv[0], "cannot start");
    }
    ssize_t n = read_some(fd[0], text, 1);
    out->first_s = ui_now() - start;
    if (n == 1 && kill(pid, SIGSTOP) == 0) {
        look_at_memory(pid, out);
        kill(pid, SIGCONT);
    }
    bool answered = n == 1;
    while (n > 0)
        n = read_some(fd[0], text, sizeof text);
    close(fd[0]);
    st = end_of(pid, answered, argv[0], err);
    if (st)
        pass_on(said);
    close(said);
    return st;
}

cag_status bench_ask_process(void *ctx, const char *kvc, const char *model,
                             const char *question, bool no_cache,
                             cag_bench_process *out, cag_error *err)
{
    const struct bench_ask *a = ctx;
    const struct engine_cli *e = a->engine;
    char threads[16], n_gen[16];
    const char *v[24] = { a->ask, "-q",  "--stale", "warn",
                          "-m",   model, "-n",      n_gen };
    char *argv[24];
    int n = 8;

    memset(out, 0, sizeof *out);
    ui_format(n_gen, sizeof n_gen, "%d", a->n_gen);
    if (e->n_thread > 0) {
        ui_format(threads, sizeof threads, "%d", e->n_thread);
        v[n++] = "-t";
        v[n++] = threads;
    }
    if (e->device) {
        v[n++] = "--device";
        v[n++] = e->device;
    }
    if (e->gpu_layers) {
        v[n++] = "--gpu-layers";
        v[n++] = e->gpu_layers;
    }
    v[n++] = "--precision";
    v[n++] = engine_precision_auto(e->precision);
    if (no_cache)
        v[n++] = "--no-cache";
    v[n++] = "--";
    v[n++] = kvc;
    v[n++] = question;
    v[n] = NULL;
    /* posix_spawn takes char *const[] and does not write */
    memcpy(argv, v, sizeof argv);
    return run(argv, out, err);
}

/*
 * capture.h - run a function in a child; keep what it printed and how it
 * ended.
 */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct captured {
    char out[8192], err[4096];
    int status; /* exit status, or -signal */
};

static inline void capture_read(FILE *f, char *to, size_t size)
{
    rewind(f);
    size_t n = fread(to, 1, size - 1, f);
    to[n] = 0;
    fclose(f);
}

/* fn's result is the exit status; stdin is empty */
static inline void capture(struct captured *c, int (*fn)(void *), void *ctx)
{
    FILE *out = tmpfile(), *err = tmpfile();
    int status;

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "r", stdin) || dup2(fileno(out), 1) < 0 ||
            dup2(fileno(err), 2) < 0)
            _exit(99);
        exit(fn(ctx));
    }
    waitpid(child, &status, 0);
    c->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    capture_read(out, c->out, sizeof c->out);
    capture_read(err, c->err, sizeof c->err);
}

#endif
